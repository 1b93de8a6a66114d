"""Checks: that this machine can lock a sandbox, and that a script can run in one."""

import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.errors import HeadwaterError, SandboxFailed, SetupError
from headwater.model.record import RecordBatch
from headwater.model.transform import CheckedScript
from headwater.sandbox import hints, reading, trial
from headwater.sandbox.engine import deno_engine
from headwater.sandbox.launcher import landlock
from headwater.sandbox.supervisor import Answer, Question, Sandbox

MAX_CHECKS_AT_ONCE = 4
"""Each holds a process of some 60 MB."""
_EXAMPLE_TIME_MS = 1_767_323_045_678
_turns = threading.BoundedSemaphore(MAX_CHECKS_AT_ONCE)


@contextmanager
def sandbox_for_a_check(*, jit: bool = False, checking: bool = False) -> Iterator[Sandbox]:
    """A fresh sandbox for what a caller wants to know now. Blocks while others have their turn. Thread-safe.

    checking: it can read TypeScript, and is strict with what a script's top level does.
    """
    with _turns, Sandbox(engine=deno_engine(jit=jit, checking=checking), spare=False) as sandbox:
        yield sandbox


def validate(script: str, example: str, *, jit: bool = False) -> CheckedScript:
    """Load a script in a fresh sandbox and call it once on an example record (JSON text).

    `flow.contains` answers false. Blocks for some 0.1 s, and while others have their turn. Thread-safe.
    Raises ScriptRefused (with line and column where they are known), SandboxFailed.
    """
    batch = RecordBatch.of("example", [example.encode()], [None], [_EXAMPLE_TIME_MS], [0], [0], [0])
    with sandbox_for_a_check(jit=jit, checking=True) as sandbox:
        loaded = reading.load(sandbox, script, _nothing_is_member)
        job = sandbox.submit(loaded.number, batch)
        sandbox.wait(job)
    return CheckedScript([*trial.warnings(job, example), *hints.warnings(loaded.tree, loaded.free)], loaded.javascript)


def _nothing_is_member(question: Question) -> Answer:
    return [[False] * len(values) for _, values in question]


def check(*, jit: bool = False) -> None:
    """Lock a sandbox and run a script in it. Raises SetupError, with what to do, when the lock is not in force."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise SetupError("Scripts run in a sandbox made for Linux on x86-64; this machine is another.")
    _check_kernel()
    try:
        warnings = validate("function process(record: object) { return record }", "{}", jit=jit).warnings
    except HeadwaterError as error:
        raise SetupError(_advice(error)) from error
    if warnings:
        raise SetupError(f"The sandbox does not run scripts as it should: {warnings[0]}")


def _check_kernel() -> None:
    try:
        landlock.version()
    except OSError as error:
        raise SetupError(
            f"The kernel {os.uname().release} has no Landlock ({error.strerror}), which keeps scripts from files. Use "
            "Linux 5.13 or newer with `landlock` in the boot parameter `lsm=`, and a container profile that allows it."
        ) from error
    try:
        landlock.libraries()
    except FileNotFoundError as error:
        raise SetupError(
            f"The library {error.filename} is not where glibc systems have it. Scripts run on Linux with glibc; "
            "musl (Alpine) is not supported."
        ) from error
    if not landlock.LOADER.exists():
        raise SetupError(f"{landlock.LOADER} is missing: scripts run on Linux with glibc; musl is not supported.")


def _advice(error: HeadwaterError) -> str:
    if not isinstance(error, SandboxFailed):
        return f"The sandbox does not run scripts as it should: {error.detail}"
    if "seccomp" in error.detail:
        return (
            f"{error.detail} The kernel or the container's profile does not let a process filter its own system calls, "
            "or a filter with a listener is in force already. Run Headwater where seccomp user notification is allowed."
        )
    return error.detail
