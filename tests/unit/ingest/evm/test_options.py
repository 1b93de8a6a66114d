"""The options of an EVM ingest, from flags and from a file; and its positions."""

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.app.evm_ingest import zerolag_entities
from headwater.app.ingest_kinds import load_ingests
from headwater.errors import IngestStopped, SetupError
from headwater.ingest.evm.options import EvmOptions
from headwater.ingest.evm.position import BlockRef, Position, ZerolagBlock, read_evm_position
from headwater.ingest.evm.records import ENTITIES
from headwater.ingest.options import read_options, referenced_variables
from headwater.model.binding import Bindings, KafkaTopic

KEY = "abcdef0123456789"
URL = f"https://node.example/v2/{KEY}"


def options(**more: Any) -> dict[str, Any]:
    return {"name": "live", "chain": "base", "rpc": URL, **more}


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"rpc": f"ftp://{KEY}"}, "--rpc is not valid.*http"),
        ({"rpc": [URL, f"ftp://{KEY}"]}, "--rpc is not valid.*http"),
        ({"rpc": []}, "--rpc is not valid"),
        ({"rpc": 5}, "--rpc is not valid"),
        ({"rpc": [[URL]]}, "--rpc is not valid"),
        ({"rpc": {"a": URL}}, "--rpc is not valid"),
        ({"rpc": "$NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE is not set"),
        ({"ws": URL}, "--ws is not valid.*ws"),
        ({"finality": "latest"}, "^--finality is not valid: must be finalized, safe or a number of blocks"),
        ({"finality": 0}, "^--finality is not valid: must be finalized, safe or a number of blocks"),
        ({"to_block": 5}, "^--to-block needs a --from-block that is not above it.$"),
        ({"from_block": 6, "to_block": 5}, "--to-block needs a --from-block"),
        ({"from_block": -1}, "^--from-block is not valid"),
        ({"from_block": 1, "to_block": 5, "zerolag": True}, "no zerolag streams"),
        ({"name": "Live!"}, "--name"),
        ({"fetch": "guess"}, "--fetch"),
    ],
)
def test_invalid_options_are_rejected_without_showing_values(more: dict[str, Any], fault: str) -> None:
    with pytest.raises(SetupError, match=fault) as caught:
        read_options(EvmOptions, options(**more))
    assert KEY not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_a_url_may_come_from_a_variable_and_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_NODE", URL)
    read = read_options(EvmOptions, options(rpc="$SOME_NODE"))
    assert [url.get_secret_value() for url in read.rpc] == [URL]
    assert KEY not in f"{read!r} {read}"


def test_a_text_may_name_several_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWO_NODES", f"{URL}/1 {URL}/2")
    monkeypatch.setenv("SOME_NODE", f"{URL}/3")
    rpc = "$TWO_NODES https://x $SOME_NODE"
    read = read_options(EvmOptions, options(rpc=rpc))
    assert [url.get_secret_value() for url in read.rpc] == [f"{URL}/1", f"{URL}/2", "https://x", f"{URL}/3"]
    assert referenced_variables(options(rpc=rpc)) == {"TWO_NODES", "SOME_NODE"}


@pytest.mark.parametrize(
    "given",
    [
        [URL, f"{URL}2"],
        (f"{URL} {URL}2",),
        ["$SOME_NODES"],
        "$SOME_NODES",
        ["$ONE_NODE", f"{URL}2"],
        [URL, URL, f"{URL}2"],
    ],
)
def test_several_nodes(monkeypatch: pytest.MonkeyPatch, given: Any) -> None:
    monkeypatch.setenv("SOME_NODES", f"{URL} {URL}2")
    monkeypatch.setenv("ONE_NODE", URL)
    read = read_options(EvmOptions, options(rpc=given))
    assert [url.get_secret_value() for url in read.rpc] == [URL, f"{URL}2"]
    assert KEY not in f"{read!r} {read}"


def test_the_file_of_ingests_knows_the_kind(tmp_path: Path) -> None:
    file = tmp_path / "ingests.json"
    file.write_text(json.dumps({"live": {"type": "evm", "chain": "base", "rpc": URL, "finality": 5}}))
    (read, _) = load_ingests(file)["live"]
    assert read == read_options(EvmOptions, options(finality=5))
    file.write_text(json.dumps({"live": {"type": "evm", "chain": "base", "rpc": KEY}}))
    with pytest.raises(SetupError, match=r"ingests\.json: live\.rpc") as caught:
        load_ingests(file)
    assert KEY not in str(caught.value)
    file.write_text(json.dumps({"live": {"type": "evm", "chain": "base", "rpc": URL, "to_block": 5}}))
    with pytest.raises(SetupError, match=r"ingests\.json: live is not valid: `to_block` needs a `from_block`"):
        load_ingests(file)


def test_zerolag_streams_are_those_that_are_bound_or_all() -> None:
    bound = Bindings({"base.log.zerolag": KafkaTopic("fast")})
    assert zerolag_entities(read_options(EvmOptions, options()), bound) == ["log"]
    assert zerolag_entities(read_options(EvmOptions, options()), Bindings()) == []
    assert zerolag_entities(read_options(EvmOptions, options(zerolag=True)), bound) == list(ENTITIES)
    assert zerolag_entities(read_options(EvmOptions, options(from_block=1, to_block=2)), bound) == []


def test_positions_round_trip_and_are_small() -> None:
    recent = tuple(ZerolagBlock(n, "0x" + "ab" * 32, 5000, 1_767_323_045_000) for n in range(61_000_000, 61_000_257))
    position = Position(8453, BlockRef(61_000_000, "0x" + "cd" * 32), recent)
    assert read_evm_position(position.encode(), "live", 8453) == position
    assert len(position.encode()) < 30_000


def test_a_position_of_another_chain_or_kind_stops_the_ingest() -> None:
    with pytest.raises(IngestStopped, match="id 137, but this node serves chain 8453"):
        read_evm_position(Position(137).encode(), "live", 8453)
    with pytest.raises(IngestStopped, match="another kind"):
        read_evm_position(b'{"slot": 5}', "live", 8453)
