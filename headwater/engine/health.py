"""What a worker tells its supervisor: heartbeats as JSON lines on an inherited file descriptor."""

import os
import time
from collections import deque
from collections.abc import Callable

import structlog

from headwater.model.worker import Heartbeat

log = structlog.get_logger(__name__)

BEAT_S = 1.0
MAX_LINES_PER_BEAT = 20
MAX_LINE_CHARS = 1000


class ScriptLog:
    """Lines of the scripts' `console.log`: at most MAX_LINES_PER_BEAT between two heartbeats, the rest is counted."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque()
        self._dropped = 0

    def write(self, line: str) -> None:
        """Take one line."""
        if len(self._lines) >= MAX_LINES_PER_BEAT:
            self._dropped += 1
            return
        self._lines.append(line[:MAX_LINE_CHARS])
        log.info("console.log", line=line[:MAX_LINE_CHARS])

    def take(self) -> list[str]:
        """The lines since the last call."""
        lines = list(self._lines)
        if self._dropped:
            lines.append(f"({self._dropped} more lines were dropped)")
        self._lines.clear()
        self._dropped = 0
        return lines


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
        if fd is not None:
            os.set_blocking(fd, False)

    def due(self, state: str, reason: str) -> bool:
        """True when it is time to call `send`."""
        return (state, reason) != self._said or self._clock() >= self._due

    def send(self, beat: Heartbeat) -> None:
        """Write one heartbeat."""
        self._said = (beat.state, beat.reason)
        self._due = self._clock() + BEAT_S
        self._write()
        if self._fd is not None and not self._unsent:  # else the supervisor has not read the last one
            self._unsent = beat.model_dump_json().encode() + b"\n"
            self._write()

    def _write(self) -> None:
        if self._fd is None or not self._unsent:
            return
        try:
            self._unsent = self._unsent[os.write(self._fd, self._unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            log.warning("the supervisor has gone; no more heartbeats are written", error=str(error))
            self._fd, self._unsent = None, b""
