"""`headwater abi import`: forms of files, contracts of their own, repeats."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from headwater.app.abis import import_abis, load_abis
from headwater.app.home import Home
from headwater.errors import SetupError
from headwater.ingest.evm.abi import written
from headwater.settings import Settings

ADDRESS = "0x" + "Ab" * 20
TOLD = written("Told(address who, uint256 indexed much)")
FRAGMENT = {
    "type": "event",
    "name": "Told",
    "anonymous": False,
    "inputs": [
        {"name": "who", "type": "address", "indexed": False, "internalType": "contract Who"},
        {"name": "much", "type": "uint", "indexed": True},
    ],
}
FUNCTION = {"type": "function", "name": "tell", "inputs": [], "outputs": []}
FORMS: dict[str, Any] = {
    "abi.json": [FUNCTION, FRAGMENT],
    "artifact.json": {"contractName": "Teller", "abi": [FUNCTION, FRAGMENT], "bytecode": "0x"},
    "one.json": FRAGMENT,
    "wrapped.json": [{"topic0": TOLD.topic0, "abi": FRAGMENT}],
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


def candidates(settings: Settings, address: str = "0x") -> list[str]:
    return [event.params[0].name for event in load_abis(settings).candidates(address, TOLD.topic0, 2)]


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_file_is_read(settings: Settings, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text(json.dumps(FORMS[name], indent=1))
    assert import_abis(settings, [file]) == (1, 1)
    assert candidates(settings) == ["who"]


def test_lines_of_fragments_are_read(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl.gz"
    other = {**FRAGMENT, "name": "Asked"}
    lines = [{"abi": FRAGMENT, "topic0": TOLD.topic0}, other, {"abi": [FUNCTION]}]
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    assert import_abis(settings, [file]) == (2, 2)


def test_a_repeat_changes_nothing_and_the_newest_comes_first(settings: Settings, tmp_path: Path) -> None:
    renamed = {**FRAGMENT, "inputs": [{**FRAGMENT["inputs"][0], "name": "teller"}, FRAGMENT["inputs"][1]]}  # type: ignore[index]
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    first.write_text(json.dumps([FRAGMENT]))
    second.write_text(json.dumps([renamed]))
    assert import_abis(settings, [first, first, second]) == (2, 2)
    assert candidates(settings) == ["teller", "who"]
    assert import_abis(settings, [first]) == (0, 2)
    assert candidates(settings) == ["who", "teller"]


def test_a_contract_has_its_own(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "abi.json"
    file.write_text(json.dumps([FRAGMENT]))
    import_abis(settings, [file], ADDRESS)
    assert candidates(settings, ADDRESS.lower()) == ["who"]
    assert candidates(settings, "0x" + "00" * 20) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{}", "holds no events"),
        (json.dumps([FUNCTION]), "holds no events"),
        ("neither\nnor", "neither JSON nor JSON lines"),
        (json.dumps([{"type": "event", "name": "Told"}]), "lacks a member"),
        (json.dumps([{"type": "event", "name": "Told", "inputs": [{"type": "uint 8"}]}]), "'uint 8' is no type"),
        *[
            (
                json.dumps([{"type": "event", "name": "Told", "inputs": [{"type": kind}]}]),
                "The event Told: .* is no type",
            )
            for kind in ("uint256[0]", "string[0]", "bytes0[]", "uint0[]", "bytes33", "uint7", "foo")
        ],
        (
            json.dumps([{"type": "event", "name": "T", "inputs": [{"type": "bool", "indexed": True}] * 4}]),
            "more than 3",
        ),
    ],
)
def test_a_bad_file_is_named_and_changes_nothing(settings: Settings, tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    with pytest.raises(SetupError, match=fault) as caught:
        import_abis(settings, [file])
    assert str(file) in caught.value.detail
    assert not Home(settings.data_dir).abis.exists()


def test_a_bad_address_is_refused(settings: Settings) -> None:
    with pytest.raises(SetupError, match="is no address"):
        import_abis(settings, [], "0x12")


def test_a_broken_store_says_what_to_do(settings: Settings) -> None:
    home = Home(settings.data_dir)
    home.create()
    home.abis.write_text("{")
    with pytest.raises(SetupError, match="Remove it and import again"):
        load_abis(settings)
