"""Starts sandboxed children in the background, so that a child that died is replaced without a pause."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait

from headwater.errors import SandboxFailed
from headwater.sandbox.child import ChildExited, SandboxedChild
from headwater.sandbox.deno_command import DenoCommand
from headwater.sandbox.loadable_script import LoadableScript
from headwater.sandbox.script_refusal import script_refused

_START_ATTEMPTS = 3


class ChildStarter:
    """Starts children on a background thread, one at a time. One thread calls its methods.

    With `keep_spare`, the next child is started as soon as one is taken, so that a replacement is ready.
    """

    def __init__(self, engine: DenoCommand, *, keep_spare: bool) -> None:
        self._engine = engine
        self._keep_spare = keep_spare
        self._executor = ThreadPoolExecutor(1, "sandbox-start")
        self._starting: Future[SandboxedChild] | None = None
        self._failures = 0

    def take(self, scripts: Mapping[int, LoadableScript]) -> SandboxedChild | None:
        """Return the started child, or None while it is not ready; then call `wait` and try again.

        `scripts` are the scripts that the next child loads. Raises SandboxFailed when three starts in a row fail.
        """
        starting = self._starting
        if starting is None or not starting.done():
            self._start(scripts)
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
        if self._keep_spare or not child.alive():
            self._start(scripts)
        if child.alive():
            return child
        child.kill()
        return None

    def ready(self) -> bool:
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

    def _start(self, scripts: Mapping[int, LoadableScript]) -> None:
        if self._starting is None:
            self._starting = self._executor.submit(_start, self._engine, dict(scripts))


def _start(engine: DenoCommand, scripts: Mapping[int, LoadableScript]) -> SandboxedChild:
    """Start a child, and load these scripts in it. Raises SandboxFailed."""
    child = SandboxedChild.start(engine)
    try:
        for number, script in scripts.items():
            error = child.load(number, script)
            if error is not None:
                child.kill()
                raise SandboxFailed(f"A script that was accepted before is refused: {script_refused(error).detail}")
    except ChildExited as died:
        raise SandboxFailed(f"The sandbox ended while it loaded a script ({died}).") from died
    return child
