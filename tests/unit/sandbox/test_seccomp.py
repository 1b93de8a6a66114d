"""The rules of the seccomp filter, tested by running its program like the kernel."""

import errno
import struct

import pytest

from headwater.sandbox.launcher import bpf, seccomp
from headwater.sandbox.launcher.bpf import ALLOW, KILL, NOTIFY, Instruction, refuse
from headwater.sandbox.launcher.seccomp import ALLOWED_AT_START, ALWAYS_ALLOWED
from headwater.sandbox.launcher.syscalls import NUMBERS, name_of

X86_64, I386 = 0xC000003E, 0x40000003
PID, CHANNEL = 4321, 7
NOT_PERMITTED = refuse(errno.EPERM)
MAP_PRIVATE, MAP_SHARED, MAP_ANONYMOUS, MAP_GROWSDOWN, MAP_HUGETLB = 0x02, 0x01, 0x20, 0x100, 0x40000
READ_WRITE, EXECUTE = 0x3, 0x4
PTHREAD = 0x3D0F00


def evaluate(
    program: list[Instruction], number: int, arguments: tuple[int, ...] = (), architecture: int = X86_64
) -> int:
    """Return the action of a filter for a system call."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *padded)
    taken_up, at = 0, 0
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        if code == 0x06:
            return operand
        if code == 0x20:
            (taken_up,) = struct.unpack_from("<I", data, operand)
        elif code == 0x54:
            taken_up &= operand
        else:
            holds = {0x15: taken_up == operand, 0x35: taken_up >= operand, 0x45: bool(taken_up & operand)}[code]
            at += if_true if holds else if_false


@pytest.fixture(scope="module")
def jitless() -> list[Instruction]:
    return seccomp.program(PID, CHANNEL, jit=False)


@pytest.fixture(scope="module")
def jit() -> list[Instruction]:
    return seccomp.program(PID, CHANNEL, jit=True)


def call(program: list[Instruction], name: str, *arguments: int) -> int:
    return evaluate(program, NUMBERS[name], arguments)


@pytest.mark.parametrize("architecture", [I386, 0xC00000B7])
def test_other_architectures_are_killed(jitless: list[Instruction], architecture: int) -> None:
    assert evaluate(jitless, NUMBERS["read"], architecture=architecture) == KILL


def test_x32_calls_are_killed(jitless: list[Instruction]) -> None:
    assert evaluate(jitless, 0x40000000 | NUMBERS["read"]) == KILL


def test_every_call_has_its_group(jitless: list[Instruction]) -> None:
    by_argument = {"clone", "tgkill", "prctl", "sendmsg", "mmap", "clone3"}
    for number in range(470):
        name = name_of(number)
        if name in by_argument:
            continue
        assert evaluate(jitless, number) == (ALLOW if name in ALWAYS_ALLOWED else NOTIFY), name


def test_calls_that_start_are_not_always_allowed() -> None:
    assert {*ALWAYS_ALLOWED} & {*ALLOWED_AT_START} == {"mprotect", "pkey_mprotect"}


@pytest.mark.parametrize("flags", [0, PTHREAD | 0x10000000, PTHREAD & ~0x10000, PTHREAD | 1 << 40, 0x11])
def test_only_threads_are_cloned(jitless: list[Instruction], flags: int) -> None:
    assert call(jitless, "clone", PTHREAD) == ALLOW
    assert call(jitless, "clone", flags) == NOT_PERMITTED
    assert call(jitless, "clone3") == refuse(errno.ENOSYS)


def test_signals_to_itself_only(jitless: list[Instruction]) -> None:
    assert call(jitless, "tgkill", PID, PID, 6) == ALLOW
    assert call(jitless, "tgkill", 1, 1, 6) == NOT_PERMITTED
    assert call(jitless, "tgkill", PID | 1 << 32, PID, 6) == NOT_PERMITTED


def test_names_only(jitless: list[Instruction]) -> None:
    assert call(jitless, "prctl", 15) == ALLOW
    assert {call(jitless, "prctl", option) for option in (1, 4, 22, 35, 38)} == {NOT_PERMITTED}


def test_messages_on_the_launchers_channel_only(jitless: list[Instruction]) -> None:
    assert call(jitless, "sendmsg", CHANNEL) == ALLOW
    assert call(jitless, "sendmsg", 1) == NOT_PERMITTED


class TestMemory:
    @pytest.mark.parametrize(
        ("protection", "flags", "action"),
        [
            (READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ALLOW),
            (0, MAP_PRIVATE | MAP_ANONYMOUS | 0x4000, ALLOW),
            (READ_WRITE, MAP_PRIVATE, NOTIFY),
            (READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, NOT_PERMITTED),
            (READ_WRITE, 0x3 | MAP_ANONYMOUS, NOT_PERMITTED),
            (READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, NOT_PERMITTED),
            (READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, NOT_PERMITTED),
        ],
    )
    def test_private_and_counted_only(
        self, jitless: list[Instruction], jit: list[Instruction], protection: int, flags: int, action: int
    ) -> None:
        for program in (jitless, jit):
            assert call(program, "mmap", 0, 4096, protection, flags) == action

    @pytest.mark.parametrize("protection", [EXECUTE, EXECUTE | 1, EXECUTE | READ_WRITE])
    def test_code_only_while_starting_without_the_jit(
        self, jitless: list[Instruction], jit: list[Instruction], protection: int
    ) -> None:
        private = MAP_PRIVATE | MAP_ANONYMOUS
        for name in ("mmap", "mprotect", "pkey_mprotect"):
            assert call(jitless, name, 0, 4096, protection, private) == NOTIFY
            assert call(jit, name, 0, 4096, protection, private) == ALLOW
            assert call(jitless, name, 0, 4096, READ_WRITE, private) == ALLOW


def test_the_program_has_the_kernels_layout(jitless: list[Instruction]) -> None:
    packed = bpf.pack(jitless)
    assert len(packed) == 8 * len(jitless)
    assert len(jitless) < 4096
    assert struct.unpack("<HBBI", packed[:8]) == (0x20, 0, 0, 4)
