"""The seccomp filter, which limits the system calls of Deno at its start, and later.

The filter itself decides on clone, tgkill, prctl and sendmsg by their arguments, and refuses clone3. It allows the
calls in ALWAYS_ALLOWED, and mmap of private anonymous memory. It refuses mappings that are shared, grow or use huge
pages. All other calls are reported to the parent (user notification), such as mmap of a private file. Without the JIT,
each call that makes memory executable is reported, too. While Deno starts, the parent allows the reported calls that
are in ALLOWED_AT_START. After the HELLO frame the parent closes the listener; from then on reported calls fail with
ENOSYS.
"""

import ctypes
import errno
import struct

from . import bpf
from .bpf import ALLOW, KILL, NOTIFY, Instruction, if_equal, refuse, return_action
from .syscalls import NUMBERS, syscall

ALWAYS_ALLOWED = (
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
ALLOWED_AT_START = (
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
    # The filter reports mmap of files, and without the JIT each of these calls that makes memory executable. Other uses
    # of the last two calls are always allowed.
    "mmap",
    "mprotect",
    "pkey_mprotect",
)
# Deno tries to clean up its cache directory, which does not exist in the sandbox. These refusals are not logged.
EXPECTED_REFUSALS = ("mkdir", "unlink")

_AUDIT_ARCH_X86_64 = 0xC000003E
_X32_BIT = 0x40000000
_SET_MODE_FILTER, _NEW_LISTENER = 1, 1 << 3
_PTHREAD_CREATE_FLAGS = 0x3D0F00
_PR_SET_NAME, _PR_SET_VMA = 15, 0x53564D41
_PROT_EXEC = 0x4
_MAP_TYPE, _MAP_PRIVATE, _MAP_ANONYMOUS = 0x0F, 0x02, 0x20
# The kernel counts a growing mapping as stack and huge pages separately, so RLIMIT_DATA would not limit them.
_MAP_GROWSDOWN_OR_HUGETLB = 0x100 | 0x40000

_NOT_PERMITTED = refuse(errno.EPERM)


def _only_x86_64() -> list[Instruction]:
    """Kill the process for a system call of another ABI.

    The 32-bit and x32 tables have other numbers.
    """
    return [
        bpf.load_architecture(),
        *bpf.if_not_equal(_AUDIT_ARCH_X86_64, [return_action(KILL)]),
        bpf.load_number(),
        *bpf.if_at_least(_X32_BIT, [return_action(KILL)]),
    ]


def _if_first_argument_in(name: str, allowed: tuple[int, ...]) -> list[Instruction]:
    """Allow a system call if its first argument is one of these values; otherwise refuse it."""
    body = [
        bpf.load_high(0),
        *bpf.if_not_equal(0, [return_action(_NOT_PERMITTED)]),
        bpf.load_low(0),
        *(step for value in allowed for step in if_equal(value, [return_action(ALLOW)])),
        return_action(_NOT_PERMITTED),
    ]
    return if_equal(NUMBERS[name], body)


def _notify_executable_memory(name: str) -> list[Instruction]:
    """Ask the parent about executable memory, which it allows only while Deno starts."""
    body = [bpf.load_low(2), *bpf.if_any_bit(_PROT_EXEC, [return_action(NOTIFY)]), bpf.load_number()]
    return if_equal(NUMBERS[name], body)


def _mappings() -> list[Instruction]:
    """Allow mmap of private anonymous memory, which RLIMIT_DATA limits.

    Other private mappings are allowed only while Deno starts.
    """
    body = [
        bpf.load_low(3),
        *bpf.if_any_bit(_MAP_GROWSDOWN_OR_HUGETLB, [return_action(_NOT_PERMITTED)]),
        bpf.mask(_MAP_TYPE),
        *bpf.if_not_equal(_MAP_PRIVATE, [return_action(_NOT_PERMITTED)]),
        bpf.load_low(3),
        *bpf.if_any_bit(_MAP_ANONYMOUS, [return_action(ALLOW)]),
        return_action(NOTIFY),
    ]
    return if_equal(NUMBERS["mmap"], body)


def program(pid: int, launch_socket: int, *, jit: bool) -> list[Instruction]:
    """Return the filter for the process `pid`.

    `launch_socket` is the descriptor over which the listener is sent; exec closes it.
    """
    memory_calls = () if jit else ("mmap", "mprotect", "pkey_mprotect")
    no_new_code = [step for name in memory_calls for step in _notify_executable_memory(name)]
    return [
        *_only_x86_64(),
        *_if_first_argument_in("clone", (_PTHREAD_CREATE_FLAGS,)),
        *_if_first_argument_in("tgkill", (pid,)),
        *_if_first_argument_in("prctl", (_PR_SET_NAME, _PR_SET_VMA)),
        *_if_first_argument_in("sendmsg", (launch_socket,)),
        *no_new_code,
        *_mappings(),
        *(step for name in ALWAYS_ALLOWED for step in if_equal(NUMBERS[name], [return_action(ALLOW)])),
        # The flags of clone3 are behind a pointer, which BPF can't follow. With ENOSYS, libc falls back to clone.
        *if_equal(NUMBERS["clone3"], [return_action(refuse(errno.ENOSYS))]),
        return_action(NOTIFY),
    ]


def install(instructions: list[Instruction]) -> int:
    """Install the filter for this thread, and return the listener's descriptor.

    Raises OSError, with EBUSY when a filter with a listener is already installed.
    """
    packed = bpf.pack(instructions)
    buffer = ctypes.create_string_buffer(packed, len(packed))
    header = struct.pack("<HxxxxxxQ", len(instructions), ctypes.addressof(buffer))
    return syscall("seccomp", _SET_MODE_FILTER, _NEW_LISTENER, header)
