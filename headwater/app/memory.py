"""Memory of a process that works or serves for long: what is there is not walked again, what is free is given back."""

import ctypes
import gc
import threading
import time

TRIM_EVERY_S = 20.0

_libc = ctypes.CDLL(None)
_trim = getattr(_libc, "malloc_trim", None)
"""glibc's: it gives back what is free in the middle of its heap too. 13 MB of a worker."""
_option = getattr(_libc, "mallopt", None)
_MOST_HEAPS = -8
_MAPPED_FROM = -3
_KEPT_FREE = -1
"""M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of <malloc.h>."""


def spare_a_worker() -> None:
    """Batches hold no cycles: the collector comes seldom (+13 % rate). Their buffers are used again and again: the
    system's own pages come with zeros in them, which takes longer than to fill them. What was only needed for a while
    is given back every 20 seconds.
    """
    _freeze()
    if _option is not None:
        _option(_MAPPED_FROM, 32 << 20)  # the largest that glibc takes
        _option(_KEPT_FREE, 64 << 20)
    threading.Thread(target=_trim_for_ever, name="trimmer", daemon=True).start()
    gc.set_threshold(200_000, 20, 100)


def spare_a_server() -> None:
    """Walking all that a server has imported takes 0.1 s, in which nobody is answered. A request leaves some cycles (a
    changed script 100 objects), which are few and young when they are collected.
    """
    _freeze()
    gc.set_threshold(1_000, 10, 10)


def share_heaps() -> None:
    """Let all threads share two heaps; before the first thread, for glibc asks once. Not for a hot path.

    With a heap for each, a server grows for hours: until every thread once had the largest of requests.
    """
    if _option is not None:
        _option(_MOST_HEAPS, 2)


def _trim_for_ever() -> None:
    """Takes some ms, in which other threads that want memory wait."""
    while _trim is not None:
        time.sleep(TRIM_EVERY_S)
        _trim(0)


def _freeze() -> None:
    gc.collect()
    gc.freeze()
    if _trim is not None:
        _trim(0)
