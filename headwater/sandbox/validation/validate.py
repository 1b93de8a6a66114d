"""Validates a script before it is saved."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.model.record import RecordBatch
from headwater.model.transforms.v8 import ValidatedScript
from headwater.sandbox.deno_command import deno_command
from headwater.sandbox.lookups import LookupRequest, LookupResult
from headwater.sandbox.sandbox import Sandbox
from headwater.sandbox.validation import example_run, lint, loader

MAX_CONCURRENT_VALIDATIONS = 4
"""The most validations at once; each needs a process of about 60 MB."""
TRIAL_NICENESS = 15
"""The niceness of the child of a trial, so that deploys and requests precede trials on a busy machine.

A trial processes sample records with a configuration that is not saved (see model/trial.py).
"""
_EXAMPLE_TIME_MS = 1_767_323_045_678
"""The timestamp of the example record."""
_slots = threading.BoundedSemaphore(MAX_CONCURRENT_VALIDATIONS)


@contextmanager
def short_lived_sandbox(*, jit: bool = False, for_validation: bool = False) -> Iterator[Sandbox]:
    """Open a short-lived sandbox.

    Blocks while MAX_CONCURRENT_VALIDATIONS others are open. Thread-safe.

    With `for_validation`, the child strips TypeScript types, and rejects a script whose top level reads the time or a
    random number.
    """
    with _slots, Sandbox(command=deno_command(jit=jit, for_validation=for_validation), spare=False) as sandbox:
        yield sandbox


def trial_sandbox(*, jit: bool = False) -> Sandbox:
    """Return a sandbox for a trial (see model/trial.py), whose child has a low CPU priority.

    The caller closes it, and limits how many are open.
    """
    return Sandbox(command=deno_command(jit=jit, niceness=TRIAL_NICENESS), spare=False)


def validate_script(script: str, example: str, *, jit: bool = False) -> ValidatedScript:
    """Load a script in a fresh sandbox, and call it once with an example record (JSON text).

    `flow.contains` returns false. Blocks for about 0.1 s, plus the time that it waits for a free slot. Thread-safe.
    Raises InvalidScript (with line and column where they are known), SandboxFailed.
    """
    batch = RecordBatch.of("example", [example.encode()], [None], [_EXAMPLE_TIME_MS], [0], [0], [0])
    with short_lived_sandbox(jit=jit, for_validation=True) as sandbox:
        loaded = loader.load(sandbox, script, _empty_lookup)
        script_batch = sandbox.submit(loaded.script_number, batch)
        sandbox.wait(script_batch)
    return ValidatedScript(
        [*example_run.warnings(script_batch, example), *lint.warnings(loaded.script, loaded.free_names)],
        loaded.javascript,
    )


def _empty_lookup(request: LookupRequest) -> LookupResult:
    return [[False] * len(values) for _, values in request]
