"""Locked children that are started in the background, so that a dead one is replaced without a pause."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait

from headwater.errors import SandboxFailed, ScriptRefused
from headwater.sandbox.child import Died, LockedChild
from headwater.sandbox.engine import Engine
from headwater.sandbox.program import Program
from headwater.sandbox.results import ScriptError

_OUTSIDE = {
    "time": "The script asks for the time outside of `process(record)`",
    "random": "The script asks for a random number outside of `process(record)`",
}
_MOVE = (
    "the top level runs once for each start of a worker, so its results would differ from worker to worker. Ask inside "
    "of `process(record)`, where the time and random numbers follow the record."
)
_START_ATTEMPTS = 3


class ChildPool:
    """Starts children, one at a time. Used by one thread.

    keep_spare: a further child is started, with the scripts loaded, as soon as one is taken.
    """

    def __init__(self, engine: Engine, *, keep_spare: bool) -> None:
        self._engine = engine
        self._keep_spare = keep_spare
        self._executor = ThreadPoolExecutor(1, "sandbox-start")
        self._starting: Future[LockedChild] | None = None
        self._failures = 0

    def take(self, scripts: Mapping[int, Program]) -> LockedChild | None:
        """A child, or None while there is none: call again after `wait`. scripts: what the next one shall load.

        Raises SandboxFailed when three starts in a row fail.
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
        """True when a spare child stands by."""
        return self._starting is not None and self._starting.done()

    def wait(self, timeout_s: float) -> None:
        """Wait for the child that is being started."""
        if self._starting is not None:
            wait([self._starting], timeout_s)

    def close(self) -> None:
        """End the spare child, and the one that is being started."""
        self._executor.shutdown()
        if self._starting is not None and self._starting.exception() is None:
            self._starting.result().kill()
        self._starting = None

    def _start(self, scripts: Mapping[int, Program]) -> None:
        if self._starting is None:
            self._starting = self._executor.submit(_start, self._engine, dict(scripts))


def _start(engine: Engine, scripts: Mapping[int, Program]) -> LockedChild:
    """A started child with these scripts loaded. Raises SandboxFailed."""
    child = LockedChild.start(engine)
    try:
        for number, program in scripts.items():
            error = child.load(number, program)
            if error is not None:
                child.kill()
                raise SandboxFailed(f"A script that was accepted before is refused: {refused(error).detail}")
    except Died as died:
        raise SandboxFailed(f"The sandbox ended while it loaded a script ({died}).") from died
    return child


def refused(error: ScriptError) -> ScriptRefused:
    """The error for a script that can't be loaded."""
    return ScriptRefused(_detail(error), error.line, error.column, error=error.error, reason=error.message)


def _detail(error: ScriptError) -> str:
    if error.error == "NoProcess":
        return "The script defines no function `process(record)` (or `transform`). Add one."
    if error.error == "Timeout":
        return f"The script can't be loaded: {error.message}."
    place = f" in line {error.line}, column {error.column}" if error.line else ""
    if error.error == "OutsideOfRecord":
        return f"{_OUTSIDE.get(error.message, error.message)}{place}: {_MOVE}"
    return f"The script can't be loaded: {error.error}: {error.message}{place}."
