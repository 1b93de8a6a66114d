"""`headwater test` runs cases in the real sandbox, and says why a case fails."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headwater.cli.pipeline_tests.plugin import PLUGIN
from headwater_client.files.templates import begin, templates
from tests.acceptance.installation import ROOT

PIPELINE = """
source: {chain: base, entity: erc20_token_transfer}
transforms:
  - name: token
    redis_set_filter: {expr: root = this.token_address, values: ["0x8335"]}
  - name: whales
    redis_set_filter: {expr: "root = [this.from_address, this.to_address]"}
  - name: enrich
    v8: {file: scripts/usdc.ts}
sinks: [{type: kafka, name: usdc}]
"""
SCRIPT = """type Transfer = { amount: string; note?: { text: string } };
let seen = 0;
export function process(t: Transfer) {
  if (t.note) console.log(t.note.text.length);
  seen += 1;
  return { ...t, usdc: Number(t.amount) / 1e6, seen };
}
"""
CASES = """
pipeline: usdc-whales
values: {whales: ["0xABC"]}
cases:
  - name: a whale buys
    records: [{token_address: "0x8335", from_address: "0xabc", amount: "2500000"}]
    expect: {usdc: [{usdc: 2.5, seen: 1}]}
  - name: scripts begin anew
    records: [{token_address: "0x8335", to_address: "0xabc", amount: "1"}]
    expect: {usdc: [{seen: 1}], dlq: []}
  - name: others are dropped
    records: [{token_address: "0x1"}]
    expect: {usdc: []}
  - name: a note without text fails
    records: [{token_address: "0x8335", from_address: "0xabc", note: {}}]
    expect: {usdc: [], dlq: [{error: TypeError, transform: enrich, line: 4}]}
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "pipelines"
    for name, text in {
        "headwater.yaml": "project: wallets\n",
        "usdc-whales.yaml": PIPELINE,
        "scripts/usdc.ts": SCRIPT,
        "tests/usdc-whales.test.yaml": CASES,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: str, place: Path = folder) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["headwater"])
        with pytest.raises(SystemExit) as ended:
            PLUGIN.run(["test", str(place), *arguments])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return run


def change(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_cases_pass(run: Run) -> None:
    code, text = run()
    assert (code, text.splitlines()[-1].partition(" (")[0]) == (0, "4 of 4 passed"), text
    assert "✓ a whale buys" in text


def test_a_difference_is_shown_with_the_line_of_the_script(folder: Path, run: Run) -> None:
    change(folder, "scripts/usdc.ts", "1e6", "1e3")
    code, text = run("--only", "buys")
    assert code == 1
    assert text.splitlines()[:4] == [
        "usdc-whales  ✗ a whale buys",
        "  a whale buys (tests/usdc-whales.test.yaml)",
        "    usdc[0].usdc: expected 2.5, got 2500",
        "      scripts/usdc.ts:6  return { ...t, usdc: Number(t.amount) / 1e3, seen };",
    ], text


def test_the_transform_that_dropped_a_record_is_named(folder: Path, run: Run) -> None:
    change(folder, "tests/usdc-whales.test.yaml", 'from_address: "0xabc", amount', 'from_address: "0xdef", amount')
    code, text = run("--only", "buys")
    assert code == 1
    assert "    expected 1 record in usdc, got nothing" in text
    assert '    record 1 was dropped by: whales ("0xdef" not in its 1 values)' in text
    change(folder, "tests/usdc-whales.test.yaml", 'values: {whales: ["0xABC"]}', "")
    assert "whales (it has no values in this case; add `values: {whales: […]}`)" in run("--only", "buys")[1]


def test_the_transforms_that_passed_a_record_are_named(folder: Path, run: Run) -> None:
    change(
        folder,
        "tests/usdc-whales.test.yaml",
        'records: [{token_address: "0x1"}]',
        'records: [{token_address: "0x8335", to_address: "0xabc", amount: "1"}]',
    )
    code, text = run("--only", "others")
    assert code == 1
    assert "    expected nothing in usdc, got 1 record" in text
    assert 'passed by: token ("0x8335" in its values), whales ("0xabc" in its values), enrich (scripts/usdc.ts)' in text


def test_an_unexpected_dead_letter_fails_with_its_place(folder: Path, run: Run) -> None:
    change(folder, "tests/usdc-whales.test.yaml", ", dlq: [{error: TypeError, transform: enrich, line: 4}]", "")
    code, text = run("--only", "note")
    assert code == 1
    assert "record 1 failed in enrich: TypeError: Cannot read properties of undefined (reading 'length')" in text
    assert "scripts/usdc.ts:4:" in text
    assert "  if (t.note)" in text.replace("    ", "  ")


def test_exact_cases_have_no_other_members(folder: Path, run: Run) -> None:
    change(
        folder,
        "tests/usdc-whales.test.yaml",
        "expect: {usdc: [{usdc: 2.5, seen: 1}]}",
        "exact: true\n    expect: {usdc: [{usdc: 2.5, seen: 1}]}",
    )
    code, text = run("--only", "buys")
    assert code == 1
    assert 'usdc[0].amount: expected nothing, got "2500000"' in text


def test_datasets_of_a_case(folder: Path, run: Run) -> None:
    (folder / "scripts/usdc.ts").write_text("function process(t) { return flow.contains('known', [t.id]) ? t : null; }")
    (folder / "tests/usdc-whales.test.yaml").write_text(
        "pipeline: usdc-whales\nvalues: {token: [x], whales: [y]}\ncases:\n  - name: known\n"
        '    datasets: {known: ["0xA"]}\n'
        "    records: {file: records.jsonl}\n    expect: {usdc: [{id: 0xa}]}\n"
    )
    lines = [json.dumps({"token_address": "X", "from_address": "Y", "id": id_}) for id_ in ("0xa", "0xb")]
    (folder / "records.jsonl").write_text("\n".join(lines))
    code, text = run()
    assert (code, "✓ known" in text) == (0, True), text


def test_a_script_that_does_not_load_fails_its_cases(folder: Path, run: Run) -> None:
    (folder / "scripts/usdc.ts").write_text("function process(t) {\n  return t +;\n}\n")
    code, text = run()
    assert code == 1
    assert "usdc-whales  ✗ 4 cases did not run" in text
    assert "transforms.enrich (scripts/usdc.ts): The script can't be loaded: SyntaxError" in text
    assert "in line 2, column 13" in text


def test_an_endless_loop_fails_its_case_alone(folder: Path, run: Run) -> None:
    change(folder, "scripts/usdc.ts", "if (t.note) console.log(t.note.text.length);", "while (t.note) {}")
    code, text = run()
    assert code == 1
    assert "Timeout" in text
    assert "3 of 4 passed" in text


def test_junit_and_json(folder: Path, run: Run, tmp_path: Path) -> None:
    change(folder, "scripts/usdc.ts", "1e6", "1e3")
    file = tmp_path / "reports" / "cases.xml"
    code, text = run("--json", "--junit", str(file))
    assert code == 1
    assert [each["passed"] for each in json.loads(text)] == [False, True, True, True]
    root = ElementTree.parse(file).getroot()
    assert (root.attrib["tests"], root.attrib["failures"]) == ("4", "1")
    [failure] = root.iter("failure")
    assert failure.attrib["message"] == "usdc[0].usdc: expected 2.5, got 2500"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pipeline: x\ncases: [{name: a, records: [], expect: {}}]", "there is no pipeline 'x'; the folder has: usdc"),
        (
            "pipeline: usdc-whales\ncases: [{name: a, records: [], expect: {b: []}}]",
            "has no sink 'b'; it has: dlq, usdc",
        ),
        ("pipeline: usdc-whales\ncases: [{name: a, expect: {}}]", "missing required field `records`"),
        ("pipeline: usdc-whales\nvalues: {b: []}\ncases: [{name: a, records: [], expect: {}}]", "has no filter 'b'"),
    ],
)
def test_wrong_files_of_cases(folder: Path, run: Run, text: str, message: str) -> None:
    (folder / "tests/usdc-whales.test.yaml").write_text(text)
    code, printed = run()
    assert code == 64
    assert "tests/usdc-whales.test.yaml" in printed
    assert message in printed


def test_watching_runs_cases_again_after_a_change(folder: Path) -> None:
    # A shell that starts the tests in the background lets them ignore SIGINT.
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from headwater.cli.pipeline_tests.plugin import PLUGIN; PLUGIN.run(['test', *sys.argv[1:]])"
    )
    report = folder / "cases.xml"
    arguments = [sys.executable, "-u", "-c", program, str(folder), "--watch", "--junit", str(report)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as watching:
        assert watching.stdout is not None
        lines = iter(watching.stdout)

        def printed(text: str) -> str:
            return next(line for line in lines if text in line)

        try:
            assert printed(" passed (").startswith("4 of 4")
            printed("Waiting for changes")
            change(folder, "scripts/usdc.ts", "1e6", "1e3")
            assert printed(" passed (").startswith("3 of 4")
            change(folder, "headwater.yaml", "project", "wrong")
            printed("headwater.yaml")
            printed("Waiting for changes")
        finally:
            watching.send_signal(signal.SIGINT)
    assert watching.returncode == 0


def test_without_cases(run: Run) -> None:
    code, text = run("--only", "nothing")
    assert code == 64
    assert "There is no case with 'nothing' in its name" in text
    assert run("--wrong")[0] == 64


def test_templates_pass_their_cases(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "all"
    for template in templates():
        begin(template, place)
    code, text = run(place=place)
    assert code == 0, text
    assert "without cases" not in text
    assert len(templates()) == 4


def test_the_example_passes_its_cases(run: Run) -> None:
    code, text = run(place=ROOT / "examples" / "wallets")
    assert code == 0, text


def test_the_page_prints_the_example(run: Run) -> None:
    page = (ROOT / "docs" / "test_pipelines.md").read_text()
    cases = (ROOT / "examples" / "wallets" / "tests" / "usdc-whales.test.yaml").read_text()
    printed = page.split("```yaml\n")[1].split("```")[0].splitlines()[1:]
    assert set(printed) <= set(cases.splitlines())
    assert run(place=ROOT / "examples" / "wallets")[1].splitlines()[0] in page.splitlines()
