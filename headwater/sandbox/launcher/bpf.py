"""Classic BPF for seccomp: instructions over `struct seccomp_data`, packed for the kernel.

The fields of `struct seccomp_data` that a filter can load: number (u32), architecture (u32), instruction pointer (u64),
six arguments (u64 each).

libseccomp is not used, because it would have to be installed beside Headwater.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT = 0x15, 0x35, 0x45
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

ALLOW, NOTIFY, KILL = 0x7FFF0000, 0x7FC00000, 0x80000000


def refuse(errno: int) -> int:
    """Return the action SECCOMP_RET_ERRNO: the system call fails with this errno."""
    return 0x00050000 | errno


class Instruction(NamedTuple):
    """One BPF instruction, `struct sock_filter`.

    Attributes:
        code: The operation.
        if_true: How many instructions to skip when a comparison is true.
        if_false: How many instructions to skip when a comparison is false.
        operand: The constant of the operation.
    """

    code: int
    if_true: int
    if_false: int
    operand: int


def load_number() -> Instruction:
    """Load the system call number into the accumulator."""
    return Instruction(_LOAD, 0, 0, _NUMBER)


def load_architecture() -> Instruction:
    """Load the architecture of the system call into the accumulator."""
    return Instruction(_LOAD, 0, 0, _ARCHITECTURE)


def load_low(argument: int) -> Instruction:
    """Load the low 32 bits of an argument (0 to 5) into the accumulator."""
    return Instruction(_LOAD, 0, 0, _ARGUMENTS + 8 * argument)


def load_high(argument: int) -> Instruction:
    """Load the high 32 bits of an argument (0 to 5) into the accumulator."""
    return Instruction(_LOAD, 0, 0, _ARGUMENTS + 8 * argument + 4)


def mask(bits: int) -> Instruction:
    """Mask the accumulator with these bits."""
    return Instruction(_AND, 0, 0, bits)


def return_action(action: int) -> Instruction:
    """End the filter with an action."""
    return Instruction(_RETURN, 0, 0, action)


def if_equal(value: int, body: Iterable[Instruction]) -> list[Instruction]:
    """Run `body` if the accumulator equals `value`; otherwise skip it."""
    steps = list(body)
    return [Instruction(_JUMP_EQUAL, 0, len(steps), value), *steps]


def if_not_equal(value: int, body: Iterable[Instruction]) -> list[Instruction]:
    """Run `body` if the accumulator does not equal `value`; otherwise skip it."""
    steps = list(body)
    return [Instruction(_JUMP_EQUAL, len(steps), 0, value), *steps]


def if_at_least(value: int, body: Iterable[Instruction]) -> list[Instruction]:
    """Run `body` if the accumulator is `value` or more; otherwise skip it."""
    steps = list(body)
    return [Instruction(_JUMP_AT_LEAST, 0, len(steps), value), *steps]


def if_any_bit(bits: int, body: Iterable[Instruction]) -> list[Instruction]:
    """Run `body` if any of these bits is set in the accumulator; otherwise skip it."""
    steps = list(body)
    return [Instruction(_JUMP_ANY_BIT, 0, len(steps), bits), *steps]


def pack(program: Iterable[Instruction]) -> bytes:
    """Return the array of `struct sock_filter`."""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
