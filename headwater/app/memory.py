"""Tunes the garbage collector and malloc for long-running processes."""

import ctypes
import gc
import threading
import time

TRIM_EVERY_S = 20.0

_libc = ctypes.CDLL(None)
_trim = getattr(_libc, "malloc_trim", None)
"""malloc_trim of glibc also returns free pages in the middle of the heap to the system. For a worker, that is 13 MB."""
_mallopt = getattr(_libc, "mallopt", None)
_M_ARENA_MAX = -8
_M_MMAP_THRESHOLD = -3
_M_TRIM_THRESHOLD = -1
"""The options of mallopt(3), from <malloc.h>."""


def tune_worker_memory() -> None:
    """Tune the memory of a worker for throughput.

    Batches contain no reference cycles, so the collector runs rarely (+13 % throughput). malloc keeps freed buffers,
    because zeroing new pages takes longer than filling them. Free memory is returned to the system every TRIM_EVERY_S
    seconds.
    """
    _freeze()
    if _mallopt is not None:
        _mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the largest value that glibc accepts
        _mallopt(_M_TRIM_THRESHOLD, 64 << 20)
    threading.Thread(target=_trim_periodically, name="trimmer", daemon=True).start()
    gc.set_threshold(200_000, 20, 100)


def tune_server_memory() -> None:
    """Tune the memory of a server for latency.

    A full collection over all imported modules takes 0.1 s, during which no request is served, so their objects are
    frozen. A request leaves few objects in reference cycles (a request that changes a script, about 100). Collections
    of the young generation free them.
    """
    _freeze()
    gc.set_threshold(1_000, 10, 10)


def limit_malloc_arenas() -> None:
    """Limit malloc to two arenas.

    Call this before the first thread starts, because glibc reads the option once. With one arena per thread, a server
    grows for hours, until every thread has once served a request of the maximum size. Workers do not use this, because
    their threads would contend for the arenas.
    """
    if _mallopt is not None:
        _mallopt(_M_ARENA_MAX, 2)


def _trim_periodically() -> None:
    """Return free memory to the system every TRIM_EVERY_S seconds.

    This takes some ms, during which other threads that allocate memory wait.
    """
    while _trim is not None:
        time.sleep(TRIM_EVERY_S)
        _trim(0)


def _freeze() -> None:
    gc.collect()
    gc.freeze()
    if _trim is not None:
        _trim(0)
