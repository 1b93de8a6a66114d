"""The numbers of system calls (Linux x86-64), and calls that Python does not wrap."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)

PRCTL_PDEATHSIG, PRCTL_NO_NEW_PRIVS = 1, 38

NUMBERS = {
    "read": 0,
    "write": 1,
    "open": 2,
    "close": 3,
    "stat": 4,
    "fstat": 5,
    "lstat": 6,
    "poll": 7,
    "lseek": 8,
    "mmap": 9,
    "mprotect": 10,
    "munmap": 11,
    "brk": 12,
    "rt_sigaction": 13,
    "rt_sigprocmask": 14,
    "rt_sigreturn": 15,
    "ioctl": 16,
    "pread64": 17,
    "access": 21,
    "sched_yield": 24,
    "mremap": 25,
    "madvise": 28,
    "nanosleep": 35,
    "getpid": 39,
    "sendmsg": 46,
    "socketpair": 53,
    "clone": 56,
    "execve": 59,
    "exit": 60,
    "uname": 63,
    "fcntl": 72,
    "getcwd": 79,
    "mkdir": 83,
    "unlink": 87,
    "readlink": 89,
    "getrusage": 98,
    "sysinfo": 99,
    "getuid": 102,
    "getgid": 104,
    "geteuid": 107,
    "getegid": 108,
    "getppid": 110,
    "sigaltstack": 131,
    "statfs": 137,
    "prctl": 157,
    "arch_prctl": 158,
    "gettid": 186,
    "futex": 202,
    "sched_getaffinity": 204,
    "set_tid_address": 218,
    "restart_syscall": 219,
    "clock_gettime": 228,
    "clock_getres": 229,
    "clock_nanosleep": 230,
    "exit_group": 231,
    "epoll_wait": 232,
    "epoll_ctl": 233,
    "tgkill": 234,
    "openat": 257,
    "newfstatat": 262,
    "set_robust_list": 273,
    "epoll_pwait": 281,
    "eventfd2": 290,
    "epoll_create1": 291,
    "prlimit64": 302,
    "seccomp": 317,
    "getrandom": 318,
    "membarrier": 324,
    "pkey_mprotect": 329,
    "pkey_alloc": 330,
    "statx": 332,
    "rseq": 334,
    "clone3": 435,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}
_NAMES = {number: name for name, number in NUMBERS.items()}


def name_of(number: int) -> str:
    """Return the call's name, or the number of a call that Headwater does not use.

    `ausyscall` or `man 2 syscalls` has all names.
    """
    return _NAMES.get(number, f"number {number}")


def syscall(name: str, *arguments: int | bytes | None) -> int:
    """Make a system call. Raises OSError with the call's name."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(_libc.syscall(ctypes.c_long(NUMBERS[name]), *words))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def prctl(option: int, value: int) -> None:
    """Change an attribute of this process. Raises OSError."""
    syscall("prctl", option, value, 0, 0, 0)
