"""The command line of Deno."""

from headwater.sandbox.deno_command import deno_command

MAX_ARGUMENT_BYTES = 128 << 10
"""Linux's limit for one argument of a program."""


def test_the_harness_leaves_room_in_its_argument() -> None:
    harness = deno_command(jit=False).argv[-1]
    assert len(harness) <= MAX_ARGUMENT_BYTES - (8 << 10)
