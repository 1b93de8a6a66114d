"""The compiled library, and what its callers share.

cffi binds the functions, from the declarations that the C compiler reads too: an argument of a wrong type raises an
error in place of ending the process.
"""

import ctypes
from array import array
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cffi
import numpy as np
import numpy.typing as npt

from headwater.errors import SetupError

if TYPE_CHECKING:
    Column = array[int]
else:  # only from Python 3.12 on it takes parameters
    Column = array
Buffer = bytes | bytearray | memoryview

LIBRARY: Final = Path(__file__).with_name("kernel.so")

FFI: Final[Any] = cffi.FFI()
for _header in ("functions.h", "kafka.h"):
    FFI.cdef(LIBRARY.with_name(_header).read_text())
NULL: Final = FFI.NULL

_BYTES: Final = FFI.typeof("uint8_t[]")
_COLUMNS: Final = {"i": FFI.typeof("int32_t[]"), "q": FFI.typeof("int64_t[]")}
_ARRAYS: Final = {
    np.dtype(kind): FFI.typeof(f"{name}[]")
    for kind, name in ((np.uint8, "uint8_t"), (np.bool_, "uint8_t"), (np.uint64, "uint64_t"), (np.int64, "int64_t"))
}


@cache
def kernel() -> Any:
    """The library's functions. Raises SetupError when the library cannot be loaded."""
    try:
        return FFI.dlopen(str(LIBRARY))
    except OSError as error:
        raise SetupError(f"{LIBRARY.name} can't be loaded: {error}. Run `make setup`.") from error


def pointer(column: Column) -> Any:
    """A pointer to a column's elements, which keeps the column; NULL for a column without elements."""
    return FFI.from_buffer(_COLUMNS[column.typecode], column) if column else NULL


def pointer_to_bytes(buffer: Buffer) -> Any:
    """A pointer to bytes, which keeps what holds them."""
    return FFI.from_buffer(_BYTES, buffer)


def pointer_to_array(array: npt.NDArray[Any]) -> Any:
    """A pointer to the elements of a contiguous array of numpy's, which keeps the array."""
    return FFI.from_buffer(_ARRAYS[array.dtype], array)


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
