"""Checks that this machine can run the sandbox, and validates scripts before a save."""

import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.errors import HeadwaterError, SandboxFailed, SetupError
from headwater.model.record import RecordBatch
from headwater.model.transforms.v8 import CheckedScript
from headwater.sandbox.deno_command import deno_command
from headwater.sandbox.launcher import landlock
from headwater.sandbox.sandbox import MembershipQuery, MembershipResult, Sandbox
from headwater.sandbox.validation import example_run, lint, loader

MAX_CONCURRENT_VALIDATIONS = 4
"""The most validations at once; each needs a process of about 60 MB."""
_EXAMPLE_TIME_MS = 1_767_323_045_678
_slots = threading.BoundedSemaphore(MAX_CONCURRENT_VALIDATIONS)


@contextmanager
def validation_sandbox(*, jit: bool = False, validates: bool = False) -> Iterator[Sandbox]:
    """Open a short-lived sandbox.

    Blocks while MAX_CONCURRENT_VALIDATIONS others are open. Thread-safe.

    With `validates`, the child strips TypeScript types, and refuses a script whose top level reads the time or a random
    number.
    """
    with _slots, Sandbox(engine=deno_command(jit=jit, validates=validates), spare=False) as sandbox:
        yield sandbox


def validate(script: str, example: str, *, jit: bool = False) -> CheckedScript:
    """Load a script in a fresh sandbox, and call it once with an example record (JSON text).

    `flow.contains` returns false. Blocks for about 0.1 s, plus the time that it waits for a free slot. Thread-safe.
    Raises InvalidScript (with line and column where they are known), SandboxFailed.
    """
    batch = RecordBatch.of("example", [example.encode()], [None], [_EXAMPLE_TIME_MS], [0], [0], [0])
    with validation_sandbox(jit=jit, validates=True) as sandbox:
        loaded = loader.load(sandbox, script, _empty_lookup)
        script_batch = sandbox.submit(loaded.number, batch)
        sandbox.wait(script_batch)
    return CheckedScript(
        [*example_run.warnings(script_batch, example), *lint.warnings(loaded.tree, loaded.free)], loaded.javascript
    )


def _empty_lookup(question: MembershipQuery) -> MembershipResult:
    return [[False] * len(values) for _, values in question]


def check(*, jit: bool = False) -> None:
    """Start a sandbox and run a script in it.

    Raises SetupError, with advice, when the sandbox can't be set up.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise SetupError(
            "Scripts run in a sandbox that needs Linux on x86-64; "
            f"this machine is {sys.platform} on {platform.machine()}. Run Headwater on Linux on x86-64."
        )
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
