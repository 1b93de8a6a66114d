"""`headwater abi import`: file formats, ABIs of single contracts, repeated imports."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headwater.app.abis import events_with_shipped_names, import_abis, load_abis
from headwater.app.data_directory import DataDirectory
from headwater.cli.application import app
from headwater.errors import SetupError
from headwater.ingest.evm.abi import event_of_text
from headwater.settings import Settings

ADDRESS = "0x" + "Ab" * 20
PAID = event_of_text("Paid(address who, uint256 indexed much)")
FRAGMENT = {
    "type": "event",
    "name": "Paid",
    "anonymous": False,
    "inputs": [
        {"name": "who", "type": "address", "indexed": False, "internalType": "contract Who"},
        {"name": "much", "type": "uint", "indexed": True},
    ],
}
FUNCTION = {"type": "function", "name": "tell", "inputs": [], "outputs": []}
HUMAN_READABLE = "event Paid(address who, uint indexed much)"
CONTRACT = {"abi": [FUNCTION, FRAGMENT], "evm": {"bytecode": {"object": "60"}}}
FORMS: dict[str, Any] = {
    "abi.json": [FUNCTION, FRAGMENT],
    "artifact.json": {"contractName": "Teller", "abi": [FUNCTION, FRAGMENT], "bytecode": "0x"},
    "one.json": FRAGMENT,
    "wrapped.json": [{"topic0": PAID.topic0, "abi": FRAGMENT}],
    "explorer.json": {"status": "1", "message": "OK", "result": json.dumps([FUNCTION, FRAGMENT])},
    "explorer_source.json": {"status": "1", "result": [{"SourceCode": "", "ABI": json.dumps([FRAGMENT])}]},
    "human_readable.json": ["constructor(address owner)", "function tell() view returns (uint256)", HUMAN_READABLE],
    "human_readable_artifact.json": {"abi": [HUMAN_READABLE]},
    "solc_standard.json": {"contracts": {"a.sol": {"Teller": CONTRACT, "Empty": {"abi": []}}}, "sources": {}},
    "solc_combined.json": {"contracts": {"a.sol:Teller": {"abi": [FUNCTION, FRAGMENT]}}, "version": "0.8.30"},
    "solc_combined_old.json": {"contracts": {"a.sol:Teller": {"abi": json.dumps([FUNCTION, FRAGMENT])}}},
    "hardhat_build_info.json": {"input": {"sources": {}}, "output": {"contracts": {"a.sol": {"Teller": CONTRACT}}}},
    "metadata.json": {"compiler": {"version": "0.8.30"}, "language": "Solidity", "output": {"abi": [FRAGMENT]}},
}  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


def candidates(settings: Settings, address: str = "0x") -> list[str]:
    return [event.params[0].name for event in load_abis(settings).candidates(address, PAID.topic0, 2)]


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_file_is_read(settings: Settings, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text(json.dumps(FORMS[name], indent=1))
    assert import_abis(settings, [file]) == (1, 1)
    assert candidates(settings) == ["who"]


def test_a_byte_order_mark_is_passed_over(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "abi.json"
    file.write_text(json.dumps([FRAGMENT]), "utf-8-sig")
    assert import_abis(settings, [file]) == (1, 1)


def test_lines_of_a_human_readable_abi_are_read(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "events.txt"
    file.write_text(f"{HUMAN_READABLE};\nfunction tell() view returns (uint256)\nevent Asked()\n")
    assert import_abis(settings, [file]) == (2, 2)
    assert candidates(settings) == ["who"]


def test_lines_of_fragments_are_read(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl.gz"
    other = {**FRAGMENT, "name": "Asked"}
    lines = [{"abi": FRAGMENT, "topic0": PAID.topic0}, other, {"abi": [FUNCTION]}]
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


def test_a_contract_has_its_own_abi(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "abi.json"
    file.write_text(json.dumps([FRAGMENT]))
    import_abis(settings, [file], ADDRESS)
    assert candidates(settings, ADDRESS.lower()) == ["who"]
    assert candidates(settings, "0x" + "00" * 20) == []


DEPOSIT = event_of_text("Deposit(address indexed dst, uint256 wad)")
RENAMED = {"type": "event", "name": "Deposit", "inputs": [
    {"name": "user", "type": "address", "indexed": True}, {"name": "amount", "type": "uint256"}]}  # fmt: skip


def deposit_names(settings: Settings, address: str = "0x") -> list[str]:
    """Return the parameter names of Deposit in the ABI that is used first."""
    return [event.params[0].name for event in load_abis(settings).candidates(address, DEPOSIT.topic0, 2)]


def test_names_of_events_that_ship_win_unless_a_flag_says_otherwise(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "abi.json"
    file.write_text(json.dumps([RENAMED]))
    import_abis(settings, [file])
    assert deposit_names(settings) == ["dst", "user"]
    assert events_with_shipped_names(settings) == ["Deposit(address dst, uint256 wad)"]
    assert import_abis(settings, [file], override_shipped=True) == (0, 1)
    assert deposit_names(settings) == ["user", "dst"]
    assert events_with_shipped_names(settings) == []
    assert import_abis(settings, [file]) == (0, 1)
    assert deposit_names(settings) == ["dst", "user"]


def test_names_of_a_contracts_own_abi_win(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "abi.json"
    file.write_text(json.dumps([RENAMED]))
    import_abis(settings, [file], ADDRESS)
    assert deposit_names(settings, ADDRESS.lower())[0] == "user"
    assert (deposit_names(settings), events_with_shipped_names(settings)) == (["dst"], [])
    with pytest.raises(SetupError, match="omit --override-shipped"):
        import_abis(settings, [file], ADDRESS, override_shipped=True)


def test_the_command_says_which_names_stay(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "abi.json"
    file.write_text(json.dumps([RENAMED]))
    command = ["abi", "import", "--data-dir", str(settings.data_dir), str(file)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "Deposit(address dst, uint256 wad) ships with Headwater and keeps its parameter names" in done.output
    done = CliRunner().invoke(app, [*command, "--override-shipped"])
    assert (done.exit_code, done.output) == (0, "0 new events; 1 imported in all\n")
    assert deposit_names(settings) == ["user", "dst"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{}", "holds no events"),
        ("[]", "Give the list of the ABI's entries"),
        ('{"bytecode": "0x", "Abi": []}', "members Abi, bytecode"),
        ('{"language": "Solidity", "sources": {}, "settings": {}}', "the input of a compiler"),
        (
            '{"status": "0", "message": "NOTOK", "result": "Contract source code not verified"}',
            "an explorer's error response without an ABI: Contract source code not verified",
        ),
        ("[" * 100_000, "nested too deep"),
        ('["event Paid"]', "'event Paid' is not an event"),
        ('["event Paid(address indexed who much)"]', "'address indexed who much' is not a parameter"),
        ('["event Paid(IERC20 token)"]', "'IERC20' is not an ABI type"),
        ('["event Paid(uint8[][][][][][][][][][][][][][][][][] deep)"]', "nested in each other more than 16 times"),
        (json.dumps([FUNCTION]), "holds no events"),
        ("neither\nnor", "neither JSON nor JSON lines"),
        (json.dumps([{"type": "event", "name": "Paid"}]), "lacks a member"),
        (json.dumps([{"type": "event", "name": "Paid", "inputs": [{"type": "uint 8"}]}]), "'uint 8' is not an ABI"),
        *[
            (
                json.dumps([{"type": "event", "name": "Paid", "inputs": [{"type": kind}]}]),
                "The event Paid: .* is not an ABI type",
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
    assert not DataDirectory(settings.data_dir).abis.exists()


def test_a_bad_address_is_refused(settings: Settings) -> None:
    with pytest.raises(SetupError, match="is not an address"):
        import_abis(settings, [], "0x12")


def test_a_broken_store_says_what_to_do(settings: Settings) -> None:
    home = DataDirectory(settings.data_dir)
    home.create()
    home.abis.write_text("{")
    with pytest.raises(SetupError, match="Remove it and import again"):
        load_abis(settings)


def test_a_file_that_does_not_exist_is_named_once(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "absent.json"
    with pytest.raises(SetupError) as caught:
        import_abis(settings, [file])
    assert caught.value.detail == f"{file} can't be read: No such file or directory."
