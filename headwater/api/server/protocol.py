"""HTTP/1.1 on one connection: uvicorn's httptools protocol with limits.

The limits are on the time, the size and the number of requests.
"""

import asyncio
from collections import deque
from typing import Any, NoReturn

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from headwater.api.cors import refusal_headers
from headwater.api.server.connection_registry import ConnectionRegistry
from headwater.api.server.refusals import (
    HEAD_TOO_LARGE,
    MALFORMED,
    SLOW_BODY,
    SLOW_HEAD,
    TOO_MANY_CONNECTIONS,
    Refusal,
)
from headwater.api.server.time_budget import ConnectionPhase, TimeBudget
from headwater.errors import MalformedRequest
from headwater.services.ids import new_id

MAX_PIPELINED = 8
"""How many pipelined requests may wait for the current request."""
FIELD_OVERHEAD_BYTES = 4
"""The size of the colon, the space and the line end of a header field."""
FORWARDED_FOR = b"x-forwarded-for"
PHASES_WITHOUT_REQUEST = (ConnectionPhase.HEAD, ConnectionPhase.IDLE, ConnectionPhase.LINGER, ConnectionPhase.CLOSE)
"""The phases in which no request is processed. In HEAD, the client may have sent a part of a request head."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection of a client.

    The size of a request head is measured twice. The bytes are counted as they arrive, since the parser does not report
    unfinished fields. The fields are counted as the parser reports them, since one read may contain more than a head.
    """

    def __init__(self, *arguments: Any, registry: ConnectionRegistry, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._registry = registry
        self._limits = registry.limits
        self._time_budget = TimeBudget(self._limits)
        self._peer = ""
        self._behind_proxy = False
        self._ignores_input = False
        self._refusal: Refusal | None = None
        self._counted_clients: deque[str] = deque()
        # The request that the application processes. uvicorn's `cycle` is the newest request whose head was parsed; the
        # two differ while pipelined requests wait.
        self._running_cycle: RequestResponseCycle | None = None
        self._request_count = 0
        self._path = b"/"
        self._in_head = True
        self._head_arrived_bytes = 0
        self._head_parsed_bytes = 0
        self._field_count = 0
        self._received_body_bytes = 0
        self._unsent_response_bytes = 0

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's signature
        super().connection_made(transport)
        self._peer = self.client[0] if self.client else ""
        self._behind_proxy = self._registry.proxies.trusts(self._peer)
        if refusal := self._registry.admit(self, self._peer):
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ignores_input = True
        self._registry.discard(self)
        while self._counted_clients:
            self._registry.end_request(self._counted_clients.popleft())
        if self._running_cycle is not None:
            self._running_cycle.disconnected = True
            self._running_cycle.message_event.set()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        was_in_head, request_count = self._in_head, self._request_count
        super().data_received(data)
        if was_in_head and self._in_head and request_count == self._request_count:
            self._head_arrived_bytes += len(data)
            if self._head_arrived_bytes > self._limits.header_bytes:
                self._refuse(HEAD_TOO_LARGE)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # the problem document says more
        """Refuse the request.

        uvicorn calls this method for errors of the parser and exceptions of the callbacks.
        """
        self._refuse(self._refusal or MALFORMED)

    def _unsupported_upgrade_warning(self) -> None:
        """Serve the request as HTTP/1.1, and ignore the bytes after it, which are not HTTP."""
        self._ignores_input = True
        if self.cycle is not None:
            self.cycle.keep_alive = False

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._path = b"/"
        self._field_count = self._head_parsed_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header field, or a trailer field after a chunked body."""
        self._field_count += 1
        self._count_head(len(name) + len(value) + FIELD_OVERHEAD_BYTES)
        if self._field_count > self._limits.header_fields:
            self._abort(HEAD_TOO_LARGE)
        super().on_header(name, value)

    def _count_head(self, size: int) -> None:
        self._head_parsed_bytes += size
        if self._head_parsed_bytes > self._limits.header_bytes:
            self._abort(HEAD_TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._path = httptools.parse_url(self.url).path or b"/"
        if len(self.pipeline) >= MAX_PIPELINED:
            self._abort(TOO_MANY_CONNECTIONS)
        self._counted_clients.append(self._count_client() if self._behind_proxy else "")
        super().on_headers_complete()
        self._in_head = False
        self._request_count += 1

    def _count_client(self) -> str:
        """Put the client's address into the scope, and count the request for the client.

        Clients share a proxy's connections, so their requests are counted instead. Returns the client to pass to
        `end_request`; empty when the request is not counted.
        """
        forwarded = [value.decode("latin-1") for name, value in self.headers if name == FORWARDED_FOR]
        address = self._registry.proxies.client(self._peer, forwarded)
        if address == self._peer:
            return ""
        self.scope["client"] = (address, 0)
        client = self._registry.begin_request(address)
        if client is None:
            self._abort(TOO_MANY_CONNECTIONS)
        return client

    def on_body(self, body: bytes) -> None:
        self._received_body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True
        self._head_arrived_bytes = 0

    def _abort(self, refusal: Refusal) -> NoReturn:
        """Stop the parser by an exception of the current callback, and refuse the request."""
        self._refusal = refusal
        raise MalformedRequest(refusal.detail)

    # The application

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running_cycle = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Count the end of the oldest request.

        Responses are sent in the order of the requests.
        """
        if self._counted_clients:
            self._registry.end_request(self._counted_clients.popleft())
        super().on_response_complete()

    # Time

    def has_no_request(self) -> bool:
        """Whether the connection is in one of PHASES_WITHOUT_REQUEST."""
        return self._phase() in PHASES_WITHOUT_REQUEST

    def check_time(self, elapsed_s: float) -> None:
        """Refuse the client, or close the connection, when the client has used up its time."""
        phase = self._phase()
        if self._time_budget.spend(phase, self._request_count, elapsed_s, self._take_transferred_bytes(phase)):
            return
        if phase is ConnectionPhase.HEAD and self._head_arrived_bytes:
            self._refuse(SLOW_HEAD)
        elif phase is ConnectionPhase.BODY:
            self._refuse(SLOW_BODY)
        else:
            self.drop()

    def drop(self) -> None:
        """Close the connection at once."""
        self._ignores_input = True
        self.transport.abort()

    def _phase(self) -> ConnectionPhase:
        if self.transport.get_write_buffer_size():
            return ConnectionPhase.RESPONSE
        if self.transport.is_closing():
            return ConnectionPhase.CLOSE
        running = self._running_cycle
        if running is not None and not running.response_complete:
            return ConnectionPhase.BODY if self._awaits_body(running) else ConnectionPhase.WORK
        if not self._in_head:
            return ConnectionPhase.LINGER
        return ConnectionPhase.IDLE if self._request_count and not self._head_arrived_bytes else ConnectionPhase.HEAD

    def _awaits_body(self, running: RequestResponseCycle) -> bool:
        """Whether the application waits for bytes of the body that the client can send now."""
        may_send = not self.flow.read_paused and not running.waiting_for_100_continue
        return running is self.cycle and running.more_body and may_send

    def _take_transferred_bytes(self, phase: ConnectionPhase) -> int:
        """Return how many bytes the client has sent or read since the last call."""
        received, self._received_body_bytes = self._received_body_bytes, 0
        unsent_before = self._unsent_response_bytes
        self._unsent_response_bytes = 0
        if phase is not ConnectionPhase.RESPONSE:
            return received
        self._unsent_response_bytes = self.transport.get_write_buffer_size()
        return max(0, unsent_before - self._unsent_response_bytes)

    # Refusals

    def _refuse(self, refusal: Refusal) -> None:
        """Send the refusal unless another response has begun, and close the connection."""
        if self._ignores_input:
            return
        self._ignores_input = True
        self._registry.on_refusal(refusal.problem_type.name)
        if self._can_send_refusal():
            instance = str(self._path, "latin-1")
            cors_headers = refusal_headers(self._registry.cors_origins, self.headers or ())
            self.transport.write(refusal.response(new_id(), instance, cors_headers))
        for cycle in filter(None, (self._running_cycle, self.cycle)):
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()

    def _can_send_refusal(self) -> bool:
        """Whether a refusal that is sent now arrives as the response to the refused request.

        Responses have no ids: a client matches them to its requests by their order.

        While the application processes a request, its response comes next. So only this request can be refused, and
        only before its response has begun.
        """
        running = self._running_cycle
        if running is None or running.response_complete:
            return True
        refuses_running_request = running is self.cycle and not self._in_head
        return refuses_running_request and not running.response_started
