"""Sends any number of values in batches, in several requests at once."""

import sys
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import msgspec

from headwater_client.input_output import InputOutput

T = TypeVar("T")

REQUEST_BATCH_VALUES = 250_000
"""The maximum number of values in one request."""
PARALLEL_REQUESTS = 5
ENCODE_BATCH_VALUES = 20_000
"""The number of values of a streamed body that are encoded at once."""

ValuesInput: TypeAlias = Iterable[str] | AsyncIterable[str]
"""Values in any iterable; asynchronous iterables are for AsyncHeadwater."""


@dataclass(frozen=True, slots=True)
class Upload:
    """How far an upload is, or how it has ended.

    Attributes:
        sent: How many values were in the requests that the server has completed.
        changed: How many of them were new, or were removed.
        version: The version of the set after the last write.
        complete: The largest n for which the first n values are all in completed requests. An upload that failed can
            continue after these n values.
    """

    sent: int = 0
    changed: int = 0
    version: int = 0
    complete: int = 0


Progress: TypeAlias = bool | Callable[[Upload], None]
"""A function that is called after each batch; True writes a line to standard error."""
SendBatch: TypeAlias = Callable[[list[str]], Awaitable[tuple[int, int]]]
"""Sends one batch. Returns how many values it has changed, and the version of the set."""


async def upload(io: InputOutput, values: ValuesInput, send: SendBatch, progress: Progress = False) -> Upload:
    """Send values in batches of 250,000, five requests at once."""
    report = reporter(progress)
    ends: dict[int, int] = {}
    total = Upload()

    async def jobs() -> AsyncGenerator[Coroutine[Any, Any, tuple[int, int, int, int]], None]:
        start = 0
        async for batch in batches(values, REQUEST_BATCH_VALUES):
            yield send_one(start, batch)
            start += len(batch)

    async def send_one(start: int, batch: list[str]) -> tuple[int, int, int, int]:
        changed, version = await send(batch)
        return start, len(batch), changed, version

    results = io.parallel(jobs(), PARALLEL_REQUESTS)
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


async def batches(values: ValuesInput, size: int) -> AsyncGenerator[list[str], None]:
    """Yield the values in lists of at most `size`."""
    _refuse_string(values)
    if isinstance(values, AsyncIterable):
        batch: list[str] = []
        async for value in values:
            batch.append(value)
            if len(batch) == size:
                yield batch
                batch = []
        if batch:
            yield batch
        return
    iterator = iter(values)
    while batch := list(islice(iterator, size)):
        yield batch


def streamed_body(values: ValuesInput) -> Callable[[], Iterable[bytes] | AsyncIterable[bytes]]:
    """Return a function that encodes `{"values": […]}` batch by batch."""
    _refuse_string(values)
    if isinstance(values, AsyncIterable):
        return lambda: _encode_async(values)
    return lambda: _encode(values)


def is_reiterable(values: ValuesInput) -> bool:
    """Return whether a second iteration yields the same values, which a retry needs."""
    return not isinstance(values, AsyncIterable) and iter(values) is not values


def _encode(values: Iterable[str]) -> Iterator[bytes]:
    iterator, separator = iter(values), b'{"values":['
    while batch := list(islice(iterator, ENCODE_BATCH_VALUES)):
        yield separator + msgspec.json.encode(batch)[1:-1]
        separator = b","
    yield b"]}" if separator == b"," else b'{"values":[]}'


async def _encode_async(values: AsyncIterable[str]) -> AsyncGenerator[bytes, None]:
    separator = b'{"values":['
    async for batch in batches(values, ENCODE_BATCH_VALUES):
        yield separator + msgspec.json.encode(batch)[1:-1]
        separator = b","
    yield b"]}" if separator == b"," else b'{"values":[]}'


def _refuse_string(values: ValuesInput) -> None:
    if isinstance(values, str | bytes):
        raise TypeError("`values` is a single string. Pass a list of strings.")


def reporter(progress: bool | Callable[[T], None]) -> Callable[[T], None]:
    """Return the function that shows the progress."""
    if callable(progress):
        return progress
    return _write_line if progress else _ignore


def _ignore(state: Any) -> None:
    pass


def _write_line(state: Any) -> None:
    counts = ", ".join(f"{name} {value:,}" for name, value in _counts(state))
    sys.stderr.write(f"{counts}\n")


def _counts(state: Any) -> Iterator[tuple[str, int]]:
    names = ("sent", "changed") if isinstance(state, Upload) else ("requested", "delivered", "dropped", "failed")
    return ((name, getattr(state, name)) for name in names)
