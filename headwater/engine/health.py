"""What a worker tells its supervisor: heartbeats as JSON lines on an inherited file descriptor."""

import contextlib
import os
import select
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from headwater.errors import WorkerError
from headwater.model.worker import JOIN, LEAVE, Heartbeat, WrittenLine

log = structlog.get_logger(__name__)

BEAT_S = 1.0
MAX_LINES_PER_BEAT = 20
MAX_LINE_CHARS = 1000

Source = Literal["worker", "script"]


class WorkerLog:
    """Lines of the worker and of its scripts, on their way to `GET …/deploy/logs`.

    At most MAX_LINES_PER_BEAT of each source between two heartbeats; the rest is counted. Used by several threads.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._lines: list[WrittenLine] = []
        self._taken: Counter[Source] = Counter()
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        """Take one line of `console.log`."""
        self._add("script", "info", line)

    def note(self, level: str, message: str) -> None:
        """Take one line of the worker itself."""
        self._add("worker", level, message)

    def _add(self, source: Source, level: str, message: str) -> None:
        line = WrittenLine(time=self._now(), source=source, level=level, message=message[:MAX_LINE_CHARS])
        with self._lock:
            self._taken[source] += 1
            if self._taken[source] <= MAX_LINES_PER_BEAT:
                self._lines.append(line)

    def take(self) -> list[WrittenLine]:
        """The lines since the last call."""
        with self._lock:
            lines, taken = self._lines, self._taken
            self._lines, self._taken = [], Counter()
        dropped = {source: count - MAX_LINES_PER_BEAT for source, count in taken.items()}
        return lines + [
            WrittenLine(time=self._now(), source=source, level="warning", message=f"({count} more lines were dropped)")
            for source, count in dropped.items()
            if count > 0
        ]


class Probe:
    """Writes heartbeats once a second and at every change of state. Never blocks: with the pipe full, a beat is lost.

    fd: None for a worker without a supervisor.
    """

    def __init__(self, fd: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._fd = fd
        self._clock = clock
        self._due = float("-inf")
        self._said: tuple[str, str] | None = None
        self._unsent = b""
        self._joined = self._gone = False
        if fd is not None:
            os.set_blocking(fd, False)

    def may_join(self, timeout_s: float) -> bool:
        """Wait until the supervisor lets this worker read records; True as well for one without a supervisor.

        Raises WorkerError when the supervisor has gone: another worker may be in this one's place.
        """
        if self._gone:
            raise _supervisor_gone()
        if self._fd is None or self._joined:
            return True
        if select.select([self._fd], [], [], timeout_s)[0]:
            self._joined = JOIN in self._heard(self._fd)
        return self._joined

    def may_leave(self) -> bool:
        """True when the supervisor has said that nobody takes this worker's place."""
        with contextlib.suppress(OSError):
            return self._fd is not None and LEAVE in os.read(self._fd, 1 << 10)
        return False

    def _heard(self, fd: int) -> bytes:
        try:
            heard = os.read(fd, 1 << 10)
        except ConnectionResetError:
            heard = b""
        if not heard:
            raise _supervisor_gone()
        return heard

    def due(self, state: str, reason: str) -> bool:
        """True when it is time to call `send`."""
        return (state, reason) != self._said or self._clock() >= self._due

    def send(self, beat: Heartbeat) -> bool:
        """Write one heartbeat. Returns whether the supervisor will read it, even if this process is killed now."""
        self._said = (beat.state, beat.reason)
        self._due = self._clock() + BEAT_S
        self._write()
        if self._fd is None:
            return True
        if self._unsent:  # the supervisor has not read the last one
            return False
        self._unsent = beat.model_dump_json().encode() + b"\n"
        self._write()
        return not self._unsent

    def _write(self) -> None:
        if self._fd is None or not self._unsent:
            return
        try:
            self._unsent = self._unsent[os.write(self._fd, self._unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            log.warning("the supervisor has gone; no more heartbeats are written", error=str(error))
            self._fd, self._unsent, self._gone = None, b"", True


def _supervisor_gone() -> WorkerError:
    return WorkerError("The supervisor has gone; the next one starts a worker of its own.")


class Reporter:
    """What a worker says of itself. probe: None for a worker without a supervisor. log: goes with the heartbeats."""

    def __init__(self, probe: Probe | None = None, spec_hash: str = "") -> None:
        self.probe = probe or Probe(None)
        self.log = WorkerLog()
        self._spec_hash = spec_hash

    def due(self, state: str, reason: str) -> bool:
        """See Probe."""
        return self.probe.due(state, reason)

    def report(self, state: str, reason: str = "", **figures: Any) -> bool:
        """Send a heartbeat. figures: its other members. Returns what Probe.send returns."""
        beat = Heartbeat(state=state, spec_hash=self._spec_hash, reason=reason, logs=self.log.take(), **figures)
        return self.probe.send(beat)
