"""A Solana JSON-RPC node over HTTP, which can fail like real nodes."""

import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.solana_blocks import Json, as_wire

KEY = "s3cr3t-k3y-in-the-path"


class Refused(Exception):
    """A JSON-RPC error response."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Server(ThreadingHTTPServer):
    """An HTTP server that ignores disconnected clients."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Node:
    """The node.

    Attributes:
        blocks: The blocks by slot.
        newest: The newest slot that the node has; -1 means the slot of the last block.
        faults: By kind of fault, the share of requests that fail so.
        behind: The number of slots by which a response with the fault "behind" lags.
    """

    def __init__(self, blocks: Mapping[int, Json], newest: int = -1, faults: Mapping[str, float] | None = None) -> None:
        self.blocks = dict(blocks)
        self.newest = max(self.blocks) if newest < 0 else newest
        self.behind = 5
        self.faults = dict(faults or {})
        self.hidden: set[int] = set()
        """Slots that getBlocks omits, as a node without their blocks does."""
        self.refused: dict[int, tuple[int, str]] = {}
        """Code and message of the error that getBlock returns, by slot."""
        self.calls: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.params: list[tuple[str, Any]] = []
        self.slow_s = 0.0
        self.cleaned_below = 0
        self._draw = random.Random(5)
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}/{KEY}/"

    @contextmanager
    def serving(self) -> Iterator["Node"]:
        node = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                node.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def fault(self) -> str:
        """Return the fault of this request, or an empty string."""
        with self._lock:
            point, reached = self._draw.random(), 0.0
            for name, share in self.faults.items():
                reached += share
                if point < reached:
                    self.met[name] += 1
                    return name
        return ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        request = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        assert handler.path == f"/{KEY}/"
        with self._lock:
            self.calls[request["method"]] += 1
            self.params.append((request["method"], request["params"]))
        time.sleep(self.slow_s)
        match self.fault():
            case "429":
                _send(handler, 429, b"slow down", {"Retry-After": "1"})
            case "503":
                _send(handler, 503, b"")
            case "401":
                _send(handler, 401, b"Unauthorized")
            case "301":
                _send(handler, 301, b"", {"Location": "/elsewhere"})
            case "telltale":
                error = {"code": -32000, "message": f"no such project: {KEY}"}
                _send(handler, 200, json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode())
            case "nonsense":
                _send(handler, 200, b"<html>")
            case "cut":
                _cut(handler)
            case fault:
                newest = self.newest - (self.behind if fault == "behind" else 0)
                _send(handler, 200, self._response_body(request, newest))

    def _response_body(self, request: Json, newest: int) -> bytes:
        try:
            response: Json = {"result": self._call(request["method"], request["params"], newest)}
        except Refused as refused:
            response = {"error": {"code": refused.code, "message": str(refused)}}
        return json.dumps({"jsonrpc": "2.0", "id": request["id"], **response}).encode()

    def _call(self, method: str, params: list[Any], newest: int) -> Any:
        assert params[-1]["commitment"] in ("finalized", "confirmed")
        slots = [slot for slot in sorted(self.blocks) if slot <= newest and slot not in self.hidden]
        match method:
            case "getSlot":
                return slots[-1]
            case "getBlocks":
                first, last, _ = params
                assert last - first <= 500_000
                return [slot for slot in slots if first <= slot <= last]
            case "getBlocksWithLimit":
                first, limit, _ = params
                return [slot for slot in slots if first <= slot][:limit]
            case "getBlock":
                return self._block(params[0], params[1], newest)
        raise Refused(-32601, "Method not found")

    def _block(self, slot: int, options: Json, newest: int) -> Json | None:
        assert options["maxSupportedTransactionVersion"] == 0
        if slot > newest:
            raise Refused(-32004, f"Block not available for slot {slot}")
        if slot in self.refused:
            raise Refused(*self.refused[slot])
        if slot < self.cleaned_below:
            raise Refused(-32001, f"Block {slot} cleaned up, does not exist on node. See {KEY}")
        if slot not in self.blocks:
            raise Refused(-32007, f"Slot {slot} was skipped, or missing due to offsets jump to recent snapshot")
        block = dict(self.blocks[slot])
        if options["transactionDetails"] == "none":
            del block["transactions"]
        elif options["encoding"] == "base64":
            block["transactions"] = [as_wire(entry) for entry in block["transactions"]]
        return block


def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    handler.send_response(status)
    for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def _cut(handler: BaseHTTPRequestHandler) -> None:
    """Send half a response, then close the connection."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"jsonrpc":')
    handler.close_connection = True
