"""The files on the pages about adding a transform, a sink and a chain work.

The files of a transform and a sink pass the tests that their pages show.
"""

import re
import sys
from pathlib import Path
from types import ModuleType

import jsonschema_rs
import pytest

from headwater.model import stream
from headwater.model.natural_key import natural_key

DOCS = Path(__file__).parents[2] / "docs"
FILE = re.compile(r'```python\n(""".*?)```', re.DOTALL)
"""Matches a file that a page shows as a whole: it begins with a docstring."""


def load(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(source, name, "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("adding_a_transform.md", ["headwater.model.transforms.sample", "headwater.transforms.sample", "test_sample"]),
        ("adding_a_sink.md", ["headwater.sinks.kafka_keys", "test_kafka_keys"]),
    ],
)
def test_the_files_of_a_page_pass_its_tests(page: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sources = FILE.findall((DOCS / page).read_text("utf-8"))
    *_, tests = [load(name, source, monkeypatch) for name, source in zip(names, sources, strict=True)]
    cases = [case for name, case in vars(tests).items() if name.startswith("test_")]
    assert cases
    for case in cases:
        case()


def test_the_catalog_reads_the_entities_of_a_chain_of_another_kind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, _, page = (DOCS / "adding_a_chain.md").read_text("utf-8").partition("## A chain of another kind")
    chain_entry, family = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    for name, text in [("chains.toml", chain_entry), ("bitcoin.toml", family), ("bitcoin_transaction.json", example)]:
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.setattr(stream, "_FILES", tmp_path)
    (chain,) = stream._catalog()
    (entity,) = chain.entities
    jsonschema_rs.Draft202012Validator(entity.json_schema).validate(entity.example)
    assert entity.example.keys() == entity.fields.keys()
    monkeypatch.setattr(stream, "CATALOG", (chain,))
    assert natural_key("bitcoin", "transaction")(example.encode()) == f"bitcoin:{entity.example['txid']}".encode()
