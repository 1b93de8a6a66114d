"""A Hyperliquid ingest in the file that `up` reads."""

import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from headwater.app.ingest_kinds import load_ingests
from headwater.errors import SetupError
from headwater.settings import Settings


def load(folder: Path, **entry: Any) -> Any:
    path = folder / "ingests.json"
    path.write_text(json.dumps({"hl": {"type": "hyperliquid", **entry}}))
    options, open_reader = load_ingests(path)["hl"]
    return open_reader(options, Settings(data_dir=folder), Event())


def test_of_a_node(tmp_path: Path) -> None:
    reader = load(tmp_path, node_data=str(tmp_path), entities=["trade", "fill"])
    assert reader.streams == ("trade", "fill")
    assert reader.streams != load(tmp_path, node_data=str(tmp_path)).streams


def test_of_a_websocket_api(tmp_path: Path) -> None:
    assert load(tmp_path, ws="wss://localhost/ws", coins=["BTC"]).streams == ("trade",)
    assert load(tmp_path, ws="wss://localhost/ws", entities=["block"]).streams == ("block",)


def test_an_invalid_entry(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="name one source") as caught:
        load(tmp_path, ws="wss://localhost/secret", node_data="x")
    assert "secret" not in str(caught.value)


def test_a_node_whose_folder_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"There is no folder .*/nope\. Point --node-data"):
        load(tmp_path, node_data=str(tmp_path / "nope"))
