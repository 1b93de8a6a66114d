"""Starts sandboxed children in the background, to replace a dead child without a pause."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait

import structlog

from headwater.errors import SandboxFailed
from headwater.sandbox.analysed_script import AnalysedScript
from headwater.sandbox.child import ChildExited, SandboxedChild
from headwater.sandbox.deno_command import DenoCommand
from headwater.sandbox.invalid_script import invalid_script

log = structlog.get_logger(__name__)

_START_ATTEMPTS = 3
_LOAD_ATTEMPTS = 5
"""A start fails when this many children in a row have not loaded a script in time."""


class ChildStarter:
    """Starts children on a background thread, one at a time. One thread calls its methods.

    With `keep_spare`, the next child is started as soon as one is taken, so that a replacement is ready.
    """

    def __init__(self, command: DenoCommand, *, keep_spare: bool) -> None:
        self._command = command
        self._keep_spare = keep_spare
        self._executor = ThreadPoolExecutor(1, "sandbox-start")
        self._starting: Future[SandboxedChild] | None = None
        self._failures = 0

    def take(self, scripts: Mapping[int, AnalysedScript]) -> SandboxedChild | None:
        """Return the started child, or None while it is not ready; then call `wait` and try again.

        `scripts` are the scripts that the next child loads. Raises SandboxFailed when three starts in a row fail.
        """
        starting = self._starting
        if starting is None or not starting.done():
            self._start_next(scripts)
            return None
        self._starting = None
        try:
            child = starting.result()
        except SandboxFailed:
            self._failures += 1
            if self._failures < _START_ATTEMPTS:
                return None
            self._failures = 0
            raise
        self._failures = 0
        if self._keep_spare or not child.is_alive():
            self._start_next(scripts)
        if child.is_alive():
            return child
        child.kill()
        return None

    def is_ready(self) -> bool:
        """Return whether a started child can be taken."""
        return self._starting is not None and self._starting.done()

    def wait(self, timeout_s: float) -> None:
        """Block until the child that is being started is ready, for at most `timeout_s`."""
        if self._starting is not None:
            wait([self._starting], timeout_s)

    def close(self) -> None:
        """Kill the spare child, or the child that is being started."""
        self._executor.shutdown()
        if self._starting is not None and self._starting.exception() is None:
            self._starting.result().kill()
        self._starting = None

    def _start_next(self, scripts: Mapping[int, AnalysedScript]) -> None:
        if self._starting is None:
            self._starting = self._executor.submit(_start_child, self._command, dict(scripts))


def _start_child(command: DenoCommand, scripts: Mapping[int, AnalysedScript]) -> SandboxedChild:
    """Start a child, and load these scripts in it. Raises SandboxFailed.

    The scripts were loaded before. So a timeout means only that the machine is busy, and another child tries.
    """
    for _ in range(_LOAD_ATTEMPTS):
        child = SandboxedChild.start(command)
        if _load(child, scripts):
            return child
        log.warning("a script was not loaded in time; another child tries")
    raise SandboxFailed(f"The top level of a script took more than 1 s in {_LOAD_ATTEMPTS} children in a row.")


def _load(child: SandboxedChild, scripts: Mapping[int, AnalysedScript]) -> bool:
    """Load scripts. Returns False when a script is not loaded in time; then the child is dead."""
    try:
        for number, script in scripts.items():
            failure = child.load(number, script)
            if failure is not None:
                child.kill()
                if failure.error == "Timeout":
                    return False
                raise SandboxFailed(f"A script that was accepted before is refused: {invalid_script(failure).detail}")
    except ChildExited as exited:
        raise SandboxFailed(f"The sandbox ended while it loaded a script ({exited}).") from exited
    return True
