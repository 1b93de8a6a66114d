"""Sends any number of values in parts, several at once."""

import sys
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import msgspec

from headwater_client.input_output import InputOutput

T = TypeVar("T")

PART_VALUES = 250_000
"""The most values that one request may have."""
PARALLEL_PARTS = 5
BLOCK_VALUES = 20_000
"""Values of a streamed body that are encoded at once."""

Values: TypeAlias = Iterable[str] | AsyncIterable[str]
"""Values in any iterable; asynchronous iterables are for AsyncHeadwater."""


@dataclass(frozen=True, slots=True)
class Upload:
    """How far an upload is, or how it has ended.

    Attributes:
        sent: How many values the server has stored.
        changed: How many of them were new, or were removed.
        version: The version of the set after the last write.
        complete: So many values from the beginning are all stored. An upload that broke off can continue there.
    """

    sent: int = 0
    changed: int = 0
    version: int = 0
    complete: int = 0


Progress: TypeAlias = bool | Callable[[Upload], None]
"""A function that is called after each part; True writes a line to standard error."""
SendPart: TypeAlias = Callable[[list[str]], Awaitable[tuple[int, int]]]
"""Sends one part. Returns how many values it has changed, and the version of the set."""


async def upload(io: InputOutput, values: Values, send: SendPart, progress: Progress = False) -> Upload:
    """Send values in parts of 250,000, five at once."""
    report = reporter(progress)
    ends: dict[int, int] = {}
    total = Upload()

    async def jobs() -> AsyncGenerator[Coroutine[Any, Any, tuple[int, int, int, int]], None]:
        start = 0
        async for part in parts(values, PART_VALUES):
            yield send_one(start, part)
            start += len(part)

    async def send_one(start: int, part: list[str]) -> tuple[int, int, int, int]:
        changed, version = await send(part)
        return start, len(part), changed, version

    results = io.parallel(jobs(), PARALLEL_PARTS)
    try:
        async for start, count, changed, version in results:
            ends[start] = start + count
            complete = total.complete
            while complete in ends:
                complete = ends.pop(complete)
            total = Upload(total.sent + count, total.changed + changed, max(total.version, version), complete)
            report(total)
    finally:
        await results.aclose()
    return total


async def parts(values: Values, size: int) -> AsyncGenerator[list[str], None]:
    """Yield the values in lists of at most `size`."""
    _refuse_text(values)
    if isinstance(values, AsyncIterable):
        part: list[str] = []
        async for value in values:
            part.append(value)
            if len(part) == size:
                yield part
                part = []
        if part:
            yield part
        return
    iterator = iter(values)
    while block := list(islice(iterator, size)):
        yield block


def streamed_body(values: Values) -> Callable[[], Iterable[bytes] | AsyncIterable[bytes]]:
    """Return a function that encodes `{"values": […]}` part by part."""
    _refuse_text(values)
    if isinstance(values, AsyncIterable):
        return lambda: _encode_async(values)
    return lambda: _encode(values)


def is_iterable_again(values: Values) -> bool:
    """Return whether a second iteration yields the same values, as a repeat needs it."""
    return not isinstance(values, AsyncIterable) and iter(values) is not values


def _encode(values: Iterable[str]) -> Iterator[bytes]:
    iterator, separator = iter(values), b'{"values":['
    while block := list(islice(iterator, BLOCK_VALUES)):
        yield separator + msgspec.json.encode(block)[1:-1]
        separator = b","
    yield b"]}" if separator == b"," else b'{"values":[]}'


async def _encode_async(values: AsyncIterable[str]) -> AsyncGenerator[bytes, None]:
    separator = b'{"values":['
    async for block in parts(values, BLOCK_VALUES):
        yield separator + msgspec.json.encode(block)[1:-1]
        separator = b","
    yield b"]}" if separator == b"," else b'{"values":[]}'


def _refuse_text(values: Values) -> None:
    if isinstance(values, str | bytes):
        raise TypeError("The values are one text. Pass a list of texts.")


def reporter(progress: bool | Callable[[T], None]) -> Callable[[T], None]:
    """Return the function that shows the progress."""
    if callable(progress):
        return progress
    return _write_line if progress else _ignore


def _ignore(state: Any) -> None:
    pass


def _write_line(state: Any) -> None:
    counts = ", ".join(f"{name} {value:,}" for name, value in _figures(state))
    sys.stderr.write(f"{counts}\n")


def _figures(state: Any) -> Iterator[tuple[str, int]]:
    names = ("sent", "changed") if isinstance(state, Upload) else ("requested", "delivered", "dropped", "failed")
    return ((name, getattr(state, name)) for name in names)
