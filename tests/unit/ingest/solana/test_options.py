"""The options of a Solana ingest, from flags or from a file."""

import json
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pydantic import ValidationError

from headwater.app.ingest_kinds import load_ingests
from headwater.app.solana_ingest import open_solana
from headwater.errors import SetupError
from headwater.ingest.solana.chain_reader import SolanaReader
from headwater.ingest.solana.options import SolanaOptions
from headwater.settings import Settings

NODE = "https://node.example/key-of-mine"


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"rpc": "localhost:8899"}, "begins with http"),
        ({"rpc": "http://node.example:key-of-mine/"}, "must be a URL"),
        ({"rpc": "https:///key-of-mine"}, "must be a URL"),
        ({"rpc": "$NOWHERE"}, "NOWHERE is not set"),
        ({"rpc": NODE, "to_slot": 5}, "`to_slot` needs a `from_slot`"),
        ({"rpc": NODE, "to_slot": 5, "from_slot": 6}, "not above it"),
        ({"rpc": NODE, "commitment": "processed"}, "finalized"),
        ({}, "Field required"),
    ],
)
def test_invalid_combinations(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault) as caught:
        SolanaOptions.model_validate({"name": "n", **given})
    assert "key-of-mine" not in caught.value.errors(include_input=False)[0]["msg"]


def test_a_file_may_name_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ingests.json").write_text(json.dumps({"main": {"type": "solana", "rpc": "$NODE"}}))
    monkeypatch.setenv("NODE", NODE)
    [(name, (options, open_reader))] = load_ingests(tmp_path / "ingests.json").items()
    assert isinstance(options, SolanaOptions)
    assert (name, options.chain, options.rpc.get_secret_value()) == ("main", "solana", NODE)
    assert NODE not in repr(options)
    assert isinstance(open_reader(options, Settings(), Event()), SolanaReader)


def test_a_fault_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "ingests.json").write_text(json.dumps({"main": {"type": "solana", "rpc": NODE, "rate": -1}}))
    with pytest.raises(SetupError, match=r"main\.rate is not valid"):
        load_ingests(tmp_path / "ingests.json")


def test_base64_needs_an_extra_and_json_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "solders", None)
    options = SolanaOptions.model_validate({"name": "n", "rpc": NODE})
    assert isinstance(open_solana(options, Settings(), Event()), SolanaReader)
    with pytest.raises(SetupError, match="The encoding base64 needs the extra `solana`"):
        open_solana(options.model_copy(update={"encoding": "base64"}), Settings(), Event())
