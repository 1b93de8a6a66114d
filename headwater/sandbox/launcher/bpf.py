"""Classic BPF for seccomp: instructions over `struct seccomp_data`, packed for the kernel.

The data that a filter sees: number (u32), architecture (u32), instruction pointer (u64), six arguments (u64 each).
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT = 0x15, 0x35, 0x45
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

ALLOW, NOTIFY, KILL = 0x7FFF0000, 0x7FC00000, 0x80000000


def refuse(errno: int) -> int:
    """The action: the call fails with this error number."""
    return 0x00050000 | errno


class Instruction(NamedTuple):
    """One BPF instruction; the jumps count instructions to skip."""

    code: int
    if_true: int
    if_false: int
    operand: int


def load_number() -> Instruction:
    """Take up the call's number."""
    return Instruction(_LOAD, 0, 0, _NUMBER)


def load_architecture() -> Instruction:
    """Take up the architecture that the call was made for."""
    return Instruction(_LOAD, 0, 0, _ARCHITECTURE)


def load_low(argument: int) -> Instruction:
    """Take up the low 32 bits of an argument (0 to 5)."""
    return Instruction(_LOAD, 0, 0, _ARGUMENTS + 8 * argument)


def load_high(argument: int) -> Instruction:
    """Take up the high 32 bits of an argument."""
    return Instruction(_LOAD, 0, 0, _ARGUMENTS + 8 * argument + 4)


def mask(bits: int) -> Instruction:
    """Keep these bits of what was taken up."""
    return Instruction(_AND, 0, 0, bits)


def act(action: int) -> Instruction:
    """End with an action."""
    return Instruction(_RETURN, 0, 0, action)


def when_equal(value: int, body: Iterable[Instruction]) -> list[Instruction]:
    """Run `body` when what was taken up equals `value`, else go on behind it."""
    steps = list(body)
    return [Instruction(_JUMP_EQUAL, 0, len(steps), value), *steps]


def unless_equal(value: int, body: Iterable[Instruction]) -> list[Instruction]:
    """Run `body` unless what was taken up equals `value`."""
    steps = list(body)
    return [Instruction(_JUMP_EQUAL, len(steps), 0, value), *steps]


def when_at_least(value: int, body: Iterable[Instruction]) -> list[Instruction]:
    """Run `body` when what was taken up is `value` or more."""
    steps = list(body)
    return [Instruction(_JUMP_AT_LEAST, 0, len(steps), value), *steps]


def when_any_bit(bits: int, body: Iterable[Instruction]) -> list[Instruction]:
    """Run `body` when one of these bits is set."""
    steps = list(body)
    return [Instruction(_JUMP_ANY_BIT, 0, len(steps), bits), *steps]


def pack(program: Iterable[Instruction]) -> bytes:
    """The array of `struct sock_filter`."""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
