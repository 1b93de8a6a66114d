"""The filter: which system calls the engine has while it starts, and which for the rest of its life.

While it starts, the calls outside ALWAYS go to the supervisor (user notification), which lets those of STARTING pass.
At the engine's hello the supervisor closes the listener; from then on the kernel answers all of them with ENOSYS.
"""

import ctypes
import errno
import struct

from . import bpf
from .bpf import ALLOW, KILL, NOTIFY, Instruction, act, refuse, when_equal
from .syscalls import NUMBERS, syscall

ALWAYS = (
    "read",
    "write",
    "close",
    "mprotect",
    "munmap",
    "brk",
    "mremap",
    "madvise",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
    "sched_yield",
    "nanosleep",
    "clock_nanosleep",
    "clock_gettime",
    "getpid",
    "gettid",
    "futex",
    "sched_getaffinity",
    "set_robust_list",
    "rseq",
    "getrandom",
    "exit",
    "exit_group",
    "restart_syscall",
    "membarrier",
    "pkey_mprotect",
    "epoll_wait",
    "epoll_pwait",
)
STARTING = (
    "execve",
    "open",
    "openat",
    "access",
    "newfstatat",
    "statx",
    "stat",
    "lstat",
    "fstat",
    "readlink",
    "pread64",
    "lseek",
    "fcntl",
    "ioctl",
    "poll",
    "socketpair",
    "epoll_create1",
    "epoll_ctl",
    "eventfd2",
    "getcwd",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getppid",
    "uname",
    "sysinfo",
    "prlimit64",
    "arch_prctl",
    "set_tid_address",
    "pkey_alloc",
    "statfs",
    "clock_getres",
    "getrusage",
    "mmap",
    "mprotect",
    "pkey_mprotect",
)
# Deno tries to tidy a cache directory up that it does not have here.
TRIED_IN_VAIN = ("mkdir", "unlink")

_AUDIT_ARCH_X86_64 = 0xC000003E
_X32_BIT = 0x40000000
_SET_MODE_FILTER, _NEW_LISTENER = 1, 1 << 3
_PTHREAD_CREATE_FLAGS = 0x3D0F00
_PR_SET_NAME, _PR_SET_VMA = 15, 0x53564D41
_PROT_EXEC = 0x4
_MAP_TYPE, _MAP_PRIVATE, _MAP_ANONYMOUS = 0x0F, 0x02, 0x20
# A growing mapping is stack to the kernel, a huge page has a counter of its own: neither counts as data (RLIMIT_DATA).
_MAP_GROWSDOWN_OR_HUGETLB = 0x100 | 0x40000

_NOT_PERMITTED = refuse(errno.EPERM)


def _only_here() -> list[Instruction]:
    """x86-64 calls alone; the 32-bit and x32 tables have other numbers."""
    return [
        bpf.load_architecture(),
        *bpf.unless_equal(_AUDIT_ARCH_X86_64, [act(KILL)]),
        bpf.load_number(),
        *bpf.when_at_least(_X32_BIT, [act(KILL)]),
    ]


def _only_with(name: str, allowed: tuple[int, ...]) -> list[Instruction]:
    """Allow a call when its first argument is one of these, else refuse it."""
    body = [
        bpf.load_high(0),
        *bpf.unless_equal(0, [act(_NOT_PERMITTED)]),
        bpf.load_low(0),
        *(step for value in allowed for step in when_equal(value, [act(ALLOW)])),
        act(_NOT_PERMITTED),
    ]
    return when_equal(NUMBERS[name], body)


def _no_new_code(name: str) -> list[Instruction]:
    """Executable memory can be made only while starting."""
    body = [bpf.load_low(2), *bpf.when_any_bit(_PROT_EXEC, [act(NOTIFY)]), bpf.load_number()]
    return when_equal(NUMBERS[name], body)


def _mappings() -> list[Instruction]:
    """Private memory that RLIMIT_DATA counts; files only while starting."""
    body = [
        bpf.load_low(3),
        *bpf.when_any_bit(_MAP_GROWSDOWN_OR_HUGETLB, [act(_NOT_PERMITTED)]),
        bpf.mask(_MAP_TYPE),
        *bpf.unless_equal(_MAP_PRIVATE, [act(_NOT_PERMITTED)]),
        bpf.load_low(3),
        *bpf.when_any_bit(_MAP_ANONYMOUS, [act(ALLOW)]),
        act(NOTIFY),
    ]
    return when_equal(NUMBERS["mmap"], body)


def program(pid: int, channel: int, *, jit: bool) -> list[Instruction]:
    """The filter for the process `pid`. channel: the descriptor that hands the listener over; exec closes it."""
    no_new_code = [] if jit else [step for n in ("mmap", "mprotect", "pkey_mprotect") for step in _no_new_code(n)]
    return [
        *_only_here(),
        *_only_with("clone", (_PTHREAD_CREATE_FLAGS,)),
        *_only_with("tgkill", (pid,)),
        *_only_with("prctl", (_PR_SET_NAME, _PR_SET_VMA)),
        *_only_with("sendmsg", (channel,)),
        *no_new_code,
        *_mappings(),
        *(step for name in ALWAYS for step in when_equal(NUMBERS[name], [act(ALLOW)])),
        # Its flags are behind a pointer, which a filter can't read; libc falls back to clone.
        *when_equal(NUMBERS["clone3"], [act(refuse(errno.ENOSYS))]),
        act(NOTIFY),
    ]


def install(instructions: list[Instruction]) -> int:
    """Put this thread under the filter; returns the listener's descriptor. Raises OSError (EBUSY: one is there)."""
    packed = bpf.pack(instructions)
    buffer = ctypes.create_string_buffer(packed, len(packed))
    header = struct.pack("<HxxxxxxQ", len(instructions), ctypes.addressof(buffer))
    return syscall("seccomp", _SET_MODE_FILTER, _NEW_LISTENER, header)
