"""The compiled library, and what its callers share."""

import ctypes
from array import array
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from headwater.errors import SetupError

if TYPE_CHECKING:
    Column = array[int]
else:  # only from Python 3.12 on it takes parameters
    Column = array
Buffer = bytes | bytearray | memoryview

LIBRARY: Final = Path(__file__).with_name("kernel.so")


@cache
def kernel() -> Any:
    """The loops, as functions of ctypes: numbers are passed as c_int64. Raises SetupError."""
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise SetupError(f"{LIBRARY.name} can't be loaded: {error}. Run `make setup`.") from error
    returning = "decode_hex encode_records gather_texts read_members scan_records split_lines survey_lines texts_size"
    for name in returning.split():
        getattr(library, name).restype = ctypes.c_int64
    for name in ("add_to_filter", "find_starts", "hash_rows", "look_into_filter"):
        getattr(library, name).restype = None
    return library


def address(column: Column) -> ctypes.c_void_p | None:
    """Where a column is, which it keeps; NULL for one without elements."""
    return _keeping(column, column.buffer_info()[0]) if column else None


def address_of(buffer: Buffer) -> ctypes.c_void_p:
    """Where bytes are, whatever holds them, which it keeps.

    An array type of ctypes would tell it too, but each size makes a type, which stays until the collector comes.
    """
    return address_of_array(np.frombuffer(buffer, np.uint8))


def address_of_array(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    """Where an array of numpy's is, which it keeps, and with it what the array is of."""
    return _keeping(array, array.ctypes.data)


def _keeping(owner: object, place: int) -> ctypes.c_void_p:
    """An address that is good for as long as it is there itself: during a call, other threads may drop the owner."""
    made = ctypes.c_void_p(place)
    made.owner = owner  # type: ignore[attr-defined]
    return made


def blank_column(kind: str, count: int) -> Column:
    """A column to be filled: "i" of 32, "q" of 64 bits."""
    made = Column(kind)
    made.frombytes(bytes(made.itemsize * count))
    return made


_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.argtypes, _new_bytes.restype = (ctypes.c_void_p, ctypes.c_ssize_t), ctypes.py_object


def blank_bytes(size: int) -> bytes:
    """Bytes to be filled, by the call that they are passed to, before anybody else has them.

    https://docs.python.org/3/c-api/bytes.html#c.PyBytes_FromStringAndSize allows that; a bytearray would be filled
    with zeros first, and its contents copied to become bytes.
    """
    made: bytes = _new_bytes(None, size)
    return made


_new_view = ctypes.pythonapi.PyMemoryView_FromMemory
_new_view.argtypes, _new_view.restype = (ctypes.c_char_p, ctypes.c_ssize_t, ctypes.c_int), ctypes.py_object
_WRITABLE = 0x200  # PyBUF_WRITE


def writable(made: bytes) -> memoryview:
    """A view to fill `blank_bytes` through, before anybody else has them. It is good as long as the bytes are."""
    view: memoryview = _new_view(made, len(made), _WRITABLE)
    return view
