"""The loops of the data plane that run once per record, in C (kernel.c), and how Python calls them.

`setup.py` compiles them when the package is built or installed.
"""

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from headwater.errors import SetupError

LIBRARY: Final = Path(__file__).with_name("kernel.so")
_WIDEST: Final = 5 * 10
"""Bytes of the numbers that a record has beside its texts, at most, and its attributes."""


@cache
def _kernel() -> Any:
    """Raises SetupError."""
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise SetupError(f"{LIBRARY.name} can't be loaded: {error}. Run `make setup`.") from error
    library.encode_records.restype = ctypes.c_int64
    return library


def encode_records(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None],
    times: Sequence[int],
    headers: bytes,
    tails: Sequence[bytes] | None,
) -> memoryview:
    """Records of Kafka's message format v2, one after the other; at least one.

    times: in ms. headers: of each record, encoded, their number in front; with tails, whose number is that of the
    records, the name of one more header is behind, and they are its values.
    """
    # Names for all columns: they have to outlive the call, which knows their addresses alone.
    value_sizes, key_sizes, time_column = _sizes(values), _sizes(keys), array("q", times)
    value_text, key_text = _joined(values), _joined(keys)
    tail_sizes, tail_text = (None, b"") if tails is None else (_sizes(tails), b"".join(tails))
    room = len(value_text) + len(key_text) + len(tail_text) + (len(headers) + _WIDEST) * len(values)
    out = bytearray(room)
    written = _kernel().encode_records(
        ctypes.c_int64(len(values)),
        value_text,
        _address(value_sizes),
        key_text,
        _address(key_sizes),
        _address(time_column),
        headers,
        ctypes.c_int64(len(headers)),
        tail_text,
        None if tail_sizes is None else _address(tail_sizes),
        (ctypes.c_char * room).from_buffer(out),
    )
    return memoryview(out)[:written]


def _sizes(texts: Sequence[bytes | None]) -> "array[int]":
    try:
        return array("i", map(len, texts))  # type: ignore[arg-type]  # None has no length
    except TypeError:
        return array("i", [-1 if text is None else len(text) for text in texts])


def _joined(texts: Sequence[bytes | None]) -> bytes:
    try:
        return b"".join(texts)  # type: ignore[arg-type]  # None can't be joined
    except TypeError:
        return b"".join(filter(None, texts))


def _address(numbers: "array[int]") -> ctypes.c_void_p:
    return ctypes.c_void_p(numbers.buffer_info()[0])
