"""An ingest stops soon, whatever it waits for."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from headwater.backoff import Backoff
from headwater.errors import NodeUnavailable
from headwater.ingest import jsonrpc
from headwater.ingest.base import ChainReader, Step
from headwater.ingest.cancellation import CancelToken
from headwater.ingest.evm.abi import Abis
from headwater.ingest.evm.chain_reader import EvmReader
from headwater.ingest.evm.decode import Decoder
from headwater.ingest.evm.options import EvmOptions
from headwater.ingest.evm.well_known import well_known
from headwater.ingest.hyperliquid.options import HyperliquidOptions
from headwater.ingest.hyperliquid.websocket_reader import WebSocketReader
from headwater.ingest.runner import IngestMetrics, run
from headwater.ingest.solana.chain_reader import SolanaReader
from headwater.ingest.solana.options import SolanaOptions
from tests.support.node import Node, Reply, results
from tests.support.waiting import until

SOON_S = 7.0
"""This is far more than needed, and less than the shortest wait."""


@pytest.fixture
def silent() -> Iterator[str]:
    """Yield the address of a server that accepts requests, but never responds."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def evm(stop: Event, **options: Any) -> EvmReader:
    checked = EvmOptions.model_validate({"name": "n", "chain": "base", **options})
    return EvmReader(
        options=checked,
        decoder=Decoder(Abis(well_known(), {})),
        tokens={},
        zerolag=[],
        read_written_records=lambda *_: iter([]),
        stop=stop,
    )


class Store:
    """A writer that stores nothing. `begun` is set at the first step."""

    def __init__(self) -> None:
        self.begun = Event()

    def write(self, _: Step) -> Any:
        self.begun.set()
        return type("StepResult", (), {"records": {}, "left_out": []})

    @contextmanager
    def open(self) -> Iterator[Any]:
        yield self, None


def assert_ends(reader: ChainReader, stop: Event, store: Store, is_waiting: Callable[[], object]) -> None:
    before = set(threading.enumerate())
    ingest = threading.Thread(target=run, args=(reader, store.open, stop, IngestMetrics()), daemon=True)
    ingest.start()
    is_waiting()
    begun = time.monotonic()
    stop.set()
    for thread in set(threading.enumerate()) - before:
        if thread is ingest or not thread.daemon:  # the process also waits for the other threads
            thread.join(max(0.0, begun + SOON_S - time.monotonic()))
            assert not thread.is_alive(), thread


@pytest.mark.parametrize("kind", ["evm", "solana", "hyperliquid"])
def test_a_silent_node(kind: str, silent: str) -> None:
    stop = Event()
    readers: dict[str, Callable[[], ChainReader]] = {
        "evm": lambda: evm(stop, rpc=f"http://{silent}", ws=f"ws://{silent}"),
        "solana": lambda: SolanaReader(SolanaOptions.model_validate({"name": "n", "rpc": f"http://{silent}"}), stop),
        "hyperliquid": lambda: WebSocketReader(
            HyperliquidOptions.model_validate({"name": "n", "ws": f"ws://{silent}"}), stop
        ),
    }
    assert_ends(readers[kind](), stop, Store(), lambda: time.sleep(0.3))


def test_a_silent_websocket(silent: str) -> None:
    stop, store = Event(), Store()
    with Node(lambda request: results(request, result_of)) as node:
        reader = evm(stop, rpc=node.address, ws=f"ws://{silent}")
        assert_ends(reader, stop, store, lambda: store.begun.wait(20))


def test_a_slow_rate() -> None:
    stop = Event()
    with Node(lambda request: results(request, result_of)) as node:
        reader = evm(stop, rpc=node.address, rate=1, parallel=4, from_block=1, to_block=100)
        assert_ends(reader, stop, Store(), lambda: until(lambda: len(node.requests) > 2))


def test_a_node_that_asks_for_patience() -> None:
    stop = Event()
    with Node(lambda _: Reply(429, headers=(("Retry-After", "9"),))) as node:
        assert_ends(evm(stop, rpc=node.address), stop, Store(), lambda: time.sleep(0.3))


def test_connections_are_closed_when_the_ingest_stops_during_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    connect, connected = socket.create_connection, list[socket.socket]()

    def remember(*arguments: Any, **options: Any) -> socket.socket:
        connected.append(connect(*arguments, **options))
        return connected[-1]

    monkeypatch.setattr("socket.create_connection", remember)
    stop, metrics = Event(), IngestMetrics()
    with Node(lambda _: Reply(401)) as node:
        ingest = threading.Thread(
            target=run,
            args=(evm(stop, rpc=node.address), Store().open, stop, metrics, Backoff(60.0, jitter=lambda: 1.0)),
        )
        ingest.start()
        until(lambda: metrics.errors == 1)
        stop.set()
        ingest.join()
    assert [one.fileno() for one in connected] == [-1]


def test_a_connection_that_opens_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    connect, connected = socket.create_connection, list[socket.socket]()

    def slowly(*arguments: Any, **options: Any) -> socket.socket:
        time.sleep(0.5)
        connected.append(connect(*arguments, **options))
        return connected[-1]

    monkeypatch.setattr("socket.create_connection", slowly)
    stop = Event()
    with Node(lambda request: results(request, result_of)) as node:
        calls = jsonrpc.Endpoint(node.address, 0, CancelToken(stop))
        threading.Timer(0.1, stop.set).start()
        with pytest.raises(NodeUnavailable, match="stopping"):
            calls.post(b'{"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}')
        calls.close()
        until(lambda: not any(thread.name == "call" for thread in threading.enumerate()))
        assert [one.fileno() for one in connected] == [-1]


def result_of(method: str, params: list[Any]) -> Any:
    if method == "eth_chainId":
        return "0x2105"
    if method == "eth_getBlockReceipts":
        return []
    number = 1000 if isinstance(params[0], str) and not params[0].startswith("0x") else int(params[0], 16)
    return {"number": hex(number), "hash": f"0x{number:064x}", "parentHash": f"0x{number - 1:064x}",
            "timestamp": hex(number), "logsBloom": "0x0", "transactions": []}  # fmt: skip
