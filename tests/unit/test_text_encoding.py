"""Files of text are in UTF-8 in every locale."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASCII_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
TEXT = "USD₮0"


def run(code: str, folder: Path) -> None:
    """Run Python code in a folder, in a locale whose encoding is ASCII."""
    code = f"from pathlib import Path\nTEXT = {TEXT!a}\n{code}"
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=os.environ | ASCII_LOCALE, check=True)


def test_a_private_file(tmp_path: Path) -> None:
    run("from headwater.private_files import write_private\nwrite_private(Path('tokens.json'), TEXT)", tmp_path)
    assert (tmp_path / "tokens.json").read_text("utf-8") == TEXT


def test_a_password_of_a_stream_binding(tmp_path: Path) -> None:
    kafka = {"topic": "logs", "bootstrap_servers": "b:1", "username": "u", "password_file": "password"}
    (tmp_path / "bindings.json").write_text(json.dumps({"base.log": {"kafka": kafka}}), "utf-8")
    (tmp_path / "password").write_text(TEXT, "utf-8")
    run(
        """
from headwater.app.stream_bindings import load_bindings
from headwater.settings import Settings
[access] = load_bindings(Settings(data_dir=Path(), stream_bindings=Path("bindings.json"))).kafka_accesses()
assert access.password == TEXT
""",
        tmp_path,
    )


def test_the_spec_of_a_worker(tmp_path: Path) -> None:
    run(
        """
import json
from dataclasses import replace
from headwater.orchestrators.process import ProcessOrchestrator
from tests.contract.test_orchestrator import worker_set
wanted = worker_set()
orchestrator = ProcessOrchestrator(Path("workers"), lambda *_: ["/bin/true"], 1 << 30)
orchestrator.ensure(replace(wanted, spec=wanted.spec.model_copy(update={"owner": TEXT})))
[document] = [path.read_bytes() for path in Path("workers").rglob("spec-*.json")]
orchestrator.close()
assert json.loads(document)["owner"] == TEXT
""",
        tmp_path,
    )


def test_the_harness_of_scripts(tmp_path: Path) -> None:
    run("from headwater.sandbox.deno_command import deno_command\ndeno_command(jit=False)", tmp_path)
