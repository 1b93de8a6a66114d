"""Loads the compiled C library, and converts Python buffers and columns to C pointers.

cffi binds the functions from the same header files that the C compiler reads, so an argument of a wrong type raises an
error and does not crash the process. The build parses them with cffi, and writes the result to the module
`declarations`.

`Column` is the type of int columns: an `array` of the typecode "i" (int32) or "q" (int64).
"""

import ctypes
from array import array
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from headwater.errors import SetupError
from headwater.native.declarations import ffi

if TYPE_CHECKING:
    Column = array[int]
else:  # `array` can be subscripted only from Python 3.12 on
    Column = array
Buffer = bytes | bytearray | memoryview

LIBRARY_PATH: Final = Path(__file__).with_name("native.so")

FFI: Final[Any] = ffi
NULL: Final = FFI.NULL

_BYTES: Final = FFI.typeof("uint8_t[]")
_COLUMNS: Final = {"i": FFI.typeof("int32_t[]"), "q": FFI.typeof("int64_t[]")}
_ARRAYS: Final = {
    np.dtype(kind): FFI.typeof(f"{name}[]")
    for kind, name in ((np.uint8, "uint8_t"), (np.bool_, "uint8_t"), (np.uint64, "uint64_t"), (np.int64, "int64_t"))
}


@cache
def native_library() -> Any:
    """Return the functions of the compiled library.

    Raises SetupError when the library can't be loaded.
    """
    try:
        return FFI.dlopen(str(LIBRARY_PATH))
    except OSError as error:
        raise SetupError(f"{LIBRARY_PATH.name} can't be loaded: {error}. Run `make setup`.") from error


def pointer(column: Column) -> Any:
    """Return a C pointer to the elements of a column, or NULL for an empty column.

    The pointer keeps the column alive.
    """
    return FFI.from_buffer(_COLUMNS[column.typecode], column) if column else NULL


def pointer_to_bytes(buffer: Buffer) -> Any:
    """Return a C pointer to the bytes of a buffer. The pointer keeps the buffer alive."""
    return FFI.from_buffer(_BYTES, buffer)


def pointer_to_array(array: npt.NDArray[Any]) -> Any:
    """Return a C pointer to the elements of a contiguous NumPy array.

    The pointer keeps the array alive.
    """
    return FFI.from_buffer(_ARRAYS[array.dtype], array)


def zeroed_column(typecode: str, count: int) -> Column:
    """Return a column of `count` zeros."""
    column = Column(typecode)
    column.frombytes(bytes(column.itemsize * count))
    return column


_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.argtypes, _new_bytes.restype = (ctypes.c_void_p, ctypes.c_ssize_t), ctypes.py_object


def uninitialized_bytes(size: int) -> bytes:
    """Return a bytes object without defined content.

    The caller fills it before any other code sees it.
    https://docs.python.org/3/c-api/bytes.html#c.PyBytes_FromStringAndSize allows this. A bytearray would first be
    filled with zeros, and then be copied to become a bytes object.
    """
    data: bytes = _new_bytes(None, size)
    return data


_new_view = ctypes.pythonapi.PyMemoryView_FromMemory
_new_view.argtypes, _new_view.restype = (ctypes.c_char_p, ctypes.c_ssize_t, ctypes.c_int), ctypes.py_object
_WRITABLE = 0x200  # PyBUF_WRITE


def writable_view(data: bytes) -> memoryview:
    """Return a writable view of a bytes object from `uninitialized_bytes`.

    The view must not outlive the object.
    """
    view: memoryview = _new_view(data, len(data), _WRITABLE)
    return view
