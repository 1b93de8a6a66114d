"""Applies Landlock.

The process can read only Deno's binary, the dynamic loader with its cache, and Deno's libraries; a child that validates
scripts can also read /proc/self/maps. Where the kernel's Landlock has these restrictions, TCP, abstract sockets and
signals to other processes are denied too; the seccomp filter denies them in any case.
"""

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from .syscalls import syscall

_VERSION_QUERY = 1
_RULE_PATH_BENEATH = 1
_EXECUTE, _READ_FILE = 1 << 0, 1 << 2
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
"""By version of the Landlock ABI: the rights to files that this version adds."""
_TCP_BIND_AND_CONNECT, _ABSTRACT_SOCKETS_AND_SIGNALS = 0b11, 0b11
_TCP_SINCE, _SCOPES_SINCE = 4, 6
"""The versions of the Landlock ABI that add these restrictions."""

_DIRECTORIES = (
    Path("/lib/x86_64-linux-gnu"),
    Path("/usr/lib/x86_64-linux-gnu"),
    Path("/lib64"),
    Path("/usr/lib64"),
    Path("/lib"),
)
_LIBRARIES = ("libdl.so.2", "libgcc_s.so.1", "librt.so.1", "libpthread.so.0", "libm.so.6", "libc.so.6")
LOADER = Path("/lib64/ld-linux-x86-64.so.2")
_LOADER_CACHE = Path("/etc/ld.so.cache")
_PROC_MAPS = Path("/proc/self/maps")


def version() -> int:
    """Return the version of the kernel's Landlock ABI.

    Raises OSError when Landlock is missing or switched off at boot.
    """
    return syscall("landlock_create_ruleset", None, 0, _VERSION_QUERY)


def libraries() -> list[Path]:
    """Return the files of the libraries that Deno is linked with.

    Raises FileNotFoundError for a missing one.
    """
    return [_find(name) for name in _LIBRARIES]


def _find(name: str) -> Path:
    library = next((path for directory in _DIRECTORIES if (path := directory / name).exists()), None)
    if library is None:
        raise FileNotFoundError(2, "No such library", name)
    return library


def restrict(program: Path, *, may_read_proc_maps: bool = False) -> None:
    """Restrict the access of this process to files with Landlock.

    The process may execute and read the program, which is Deno, and the dynamic loader. It may read Deno's libraries
    and the loader's cache, and may access nothing else. With `may_read_proc_maps`, it may also read /proc/self/maps, in
    which the type stripper finds the end of its main thread's stack. Raises OSError.
    """
    ruleset = _ruleset(version())
    _allow(ruleset, (program, LOADER), _EXECUTE | _READ_FILE)
    _allow(ruleset, libraries(), _READ_FILE)
    if _LOADER_CACHE.exists():
        _allow(ruleset, (_LOADER_CACHE,), _READ_FILE)
    if may_read_proc_maps:
        _allow(ruleset, (_PROC_MAPS,), _READ_FILE)
    syscall("landlock_restrict_self", ruleset, 0)
    os.close(ruleset)


def _ruleset(abi: int) -> int:
    rights = sum(bits for since, bits in _FILE_RIGHTS.items() if abi >= since)
    attributes = struct.pack("<Q", rights)
    if abi >= _TCP_SINCE:
        attributes += struct.pack("<Q", _TCP_BIND_AND_CONNECT)
    if abi >= _SCOPES_SINCE:
        attributes += struct.pack("<Q", _ABSTRACT_SOCKETS_AND_SIGNALS)
    return syscall("landlock_create_ruleset", attributes, len(attributes), 0)


def _allow(ruleset: int, files: Iterable[Path], rights: int) -> None:
    for path in files:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, struct.pack("<Qi", rights, descriptor), 0)
        os.close(descriptor)
