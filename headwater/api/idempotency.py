"""`Idempotency-Key`: a POST, PUT or PATCH that is sent again is answered again, and not done again.

Around the route, so that no route knows of it. Remembered are answers that stand: not 5xx and 429, which say that the
same call may succeed later, and not those that refuse the request's form, before anything is done.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import anyio
import msgspec
import structlog
from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from headwater.api.problems import KINDS, URN
from headwater.errors import (
    Conflict,
    InvalidInput,
    MalformedRequest,
    Problem,
    RateLimited,
    StoreUnavailable,
    TooLarge,
    UnsupportedMediaType,
)
from headwater.model.idempotency import KEY_PATTERN, LEASE, MAX_KEY_CHARS, Answered, call_id
from headwater.services.idempotency import Calls

HEADER, REPLAYED = "Idempotency-Key", "Idempotency-Replayed"
METHODS = frozenset({"POST", "PUT", "PATCH"})
KEPT_HEADERS = ("content-type", "location", "etag")
NOT_REMEMBERED = frozenset(
    URN + KINDS[error].name for error in (MalformedRequest, TooLarge, UnsupportedMediaType, InvalidInput, RateLimited)
)
"""The types of problems, by their URNs; all 5xx come to them."""

Run = Callable[[Scope, Receive, Send], Awaitable[None]]

log = structlog.get_logger(__name__)


def key_of(headers: Headers) -> str | None:
    """The request's Idempotency-Key, None without one. Raises InvalidInput."""
    sent = headers.getlist(HEADER)
    if not sent:
        return None
    if len(sent) > 1 or not re.fullmatch(KEY_PATTERN, sent[0]):
        text = f"must be one of 1 to {MAX_KEY_CHARS} visible ASCII characters, without spaces"
        raise InvalidInput("The request was refused.", [Problem(f"/{HEADER}", text)])
    return sent[0]


class Once:
    """One call with a key. takes_body: else what was sent as a body counts for nothing.

    made_anew_at: the path whose GET gives the answer again, for a success that holds credentials and is not stored.
    """

    def __init__(self, calls: Calls, scope: Scope, key: str, *, takes_body: bool, made_anew_at: str = "") -> None:
        self._calls = calls
        self._call = call_id(scope["api_key"].owner, scope["method"], scope["path"], key)
        self._holder: str = scope["request_id"]
        self._takes_body = takes_body
        self._made_anew_at = made_anew_at

    async def __call__(self, run: Run, scope: Scope, receive: Receive, send: Send) -> None:
        """Run it, or answer as it was answered. Raises Conflict while it runs, InvalidInput for another body."""
        found = await to_thread.run_sync(self._calls.claim, self._call, self._holder)
        if found == "running":
            raise Conflict("A request with this Idempotency-Key still runs. Send it again when that one has ended.")
        body = _Hashed(receive, ended=not self._takes_body)
        if isinstance(found, Answered):
            await self._replay(found, body, scope, send)
        else:
            await self._run(run, scope, body, send)

    async def _run(self, run: Run, scope: Scope, body: "_Hashed", send: Send) -> None:
        answer = _Recorded()
        try:
            async with anyio.create_task_group() as beside:
                beside.start_soon(self._renew)
                await run(scope, body, answer)
                beside.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._settle, body, answer)
        for message in answer.messages:
            await send(message)

    async def _renew(self) -> None:
        while True:
            await anyio.sleep(LEASE.total_seconds() / 3)
            await to_thread.run_sync(self._try, lambda: self._calls.renew(self._call, self._holder))

    def _settle(self, body: "_Hashed", answer: "_Recorded") -> None:
        if not (body.ended and answer.stands):
            self._try(lambda: self._calls.release(self._call, self._holder))
            return
        stored = b"" if self._is_made_anew(answer.status) else answer.body
        answered = Answered(body.sha256, answer.status, answer.kept_headers, stored)
        self._try(lambda: self._calls.finish(self._call, self._holder, answered))

    def _is_made_anew(self, status: int) -> bool:
        return bool(self._made_anew_at) and status == HTTPStatus.OK

    def _try(self, write: Callable[[], None]) -> None:
        """The call is done and its answer true, whether that can be written down or not."""
        try:
            write()
        except StoreUnavailable as error:
            log.warning("an idempotent call can't be written down", call=self._call, reason=error.detail)

    async def _replay(self, found: Answered, body: "_Hashed", scope: Scope, send: Send) -> None:
        await body.drain()
        if body.sha256 != found.body_sha256:
            text = "was used with another body; choose a new key for a new request"
            raise InvalidInput("Nothing was changed.", [Problem(f"/{HEADER}", text)])
        replayed = _Replayed(send)
        if self._is_made_anew(found.status):
            again = {**scope, "method": "GET", "path": self._made_anew_at, "raw_path": self._made_anew_at.encode()}
            await scope["app"].router(_without_route(again), _nothing, replayed)
            return
        headers = [(name.encode(), value.encode("latin-1")) for name, value in found.headers.items()]
        headers.append((b"content-length", str(len(found.body)).encode()))
        await replayed({"type": "http.response.start", "status": found.status, "headers": headers})
        await replayed({"type": "http.response.body", "body": found.body})


def _without_route(scope: dict[str, Any]) -> Scope:
    """What a router adds to a scope stands in the way of the next one."""
    return {name: value for name, value in scope.items() if name not in ("route", "endpoint", "path_params")}


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


class _Hashed:
    """A request's body on its way in. ended: all of it came."""

    def __init__(self, receive: Receive, *, ended: bool) -> None:
        self._receive = receive
        self._sha256 = hashlib.sha256()
        self.ended = ended

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request" and not self.ended:
            self._sha256.update(message.get("body", b""))
            self.ended = not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Read to the end. Raises MalformedRequest when it breaks off."""
        while not self.ended:
            if (await self())["type"] == "http.disconnect":
                raise MalformedRequest("The body broke off. Nothing was changed.")


class _Problem(msgspec.Struct):
    type: str


class _Recorded:
    """An answer that waits until it is remembered. status 0: there is none."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"]) if self.messages else 0

    @property
    def stands(self) -> bool:
        """True when it is remembered."""
        return 0 < self.status < HTTPStatus.INTERNAL_SERVER_ERROR and self._problem not in NOT_REMEMBERED

    @property
    def _problem(self) -> str:
        """The type of problem that it tells of; empty for a success."""
        if self.status < HTTPStatus.BAD_REQUEST:
            return ""
        return msgspec.json.decode(self.body, type=_Problem).type

    @property
    def kept_headers(self) -> dict[str, str]:
        headers = Headers(raw=self.messages[0]["headers"])
        return {name: headers[name] for name in KEPT_HEADERS if name in headers}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)


class _Replayed:
    """Says on the way out that the answer is an old one."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)[REPLAYED] = "true"
        await self._send(message)
