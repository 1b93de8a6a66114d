"""A position of another kind of ingest, or of another source, stops an ingest at its start."""

from itertools import permutations
from pathlib import Path
from threading import Event

import pytest

from headwater.errors import IngestStopped
from headwater.ingest.evm.position import read_evm_position
from headwater.ingest.hyperliquid.node_files_reader import NodeFilesReader
from headwater.ingest.hyperliquid.options import HyperliquidOptions
from headwater.ingest.hyperliquid.websocket_reader import WebSocketReader
from headwater.ingest.solana.chain_reader import SolanaReader
from headwater.ingest.solana.options import SolanaOptions

POSITIONS = {
    "evm": b'{"chain_id":8453,"final":[7,"0x7"],"recent":[]}',
    "node": b'{"tails":{},"turns":{},"spans":{},"seen":{"fills":[[5,7]]},"halves":[]}',
    "socket": b'{"marks":{"BTC":[5000,[1,2]]},"height":0}',
    "solana": b'{"next_slot":8,"block":7}',
}


def begin(kind: str, position: bytes, folder: Path) -> None:
    match kind:
        case "evm":
            read_evm_position(position, "mine", 8453)
        case "node":
            next(NodeFilesReader(HyperliquidOptions(name="mine", node_data=folder), idle_yield_s=0.0).steps(position))
        case "socket":
            options = HyperliquidOptions.model_validate({"name": "mine", "ws": "ws://127.0.0.1:9"})
            next(WebSocketReader(options, Event()).steps(position))
        case "solana":
            solana = {"name": "mine", "rpc": "http://127.0.0.1:9", "from_slot": 7, "to_slot": 7}
            list(SolanaReader(SolanaOptions.model_validate(solana), Event()).steps(position))


@pytest.mark.parametrize(("kind", "of"), [*permutations(POSITIONS, 2)])
def test_a_position_of_another_kind(kind: str, of: str, tmp_path: Path) -> None:
    with pytest.raises(IngestStopped, match="of the ingest mine belongs to another kind of ingest or another source"):
        begin(kind, POSITIONS[of], tmp_path)


@pytest.mark.parametrize("kind", ["evm", "node", "solana"])
def test_a_position_that_was_stored_before(kind: str, tmp_path: Path) -> None:
    begin(kind, POSITIONS[kind], tmp_path)
