"""One worker process of the process orchestrator, and the socket pair over which the two talk."""

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError

from headwater.children import Child
from headwater.model.worker import Heartbeat
from headwater.orchestrators.cgroups import WorkerGroup
from headwater.orchestrators.usage import KernelKills

MAX_HEARTBEAT_BYTES = 1 << 20

QUIET_AFTER_S = 3.0
"""After how long without progress a worker is shown as not ready. A batch normally lasts under 0.25 s."""
STUCK_AFTER_S = 60.0
"""After how long it is killed. Nothing that a worker may wait for in silence lasts longer than half of it."""


@dataclass(slots=True)
class Running:
    """A process, what it runs, and what it said last.

    kills: the kernel's kills for memory in the group that it is in. group: its own, where it has one.
    stop_by: set once it was asked to stop; monotonic seconds. over_limit: it was killed because it used too much.
    moved_at: when it last made progress, or said that it waits. stuck: it was killed because it made none.
    """

    spec_hash: str
    child: Child
    probe: socket.socket
    on_beat: Callable[[Heartbeat], None]
    clock: Callable[[], float]
    kills: KernelKills
    group: WorkerGroup | None = None
    heartbeat: Heartbeat | None = None
    reason: str = ""
    stop_by: float | None = None
    over_limit: bool = False
    stuck: bool = False
    moved_at: float = 0.0
    pidfd: int = -1
    start_time: datetime = field(default_factory=lambda: datetime.now(UTC))
    _unread: bytes = b""

    def __post_init__(self) -> None:
        self.pidfd = os.pidfd_open(self.child.pid)
        self.moved_at = self.clock()

    @property
    def is_prepared(self) -> bool:
        """True when it could join at once."""
        said = self.heartbeat is not None and self.heartbeat.state == "prepared"
        return said and self.stop_by is None and not self.is_quiet

    @property
    def is_quiet(self) -> bool:
        """True when it has made no progress for QUIET_AFTER_S, and not said why."""
        return self.clock() - self.moved_at >= QUIET_AFTER_S

    @property
    def is_stuck(self) -> bool:
        """True when that has lasted for STUCK_AFTER_S."""
        return self.clock() - self.moved_at >= STUCK_AFTER_S

    def send(self, word: bytes) -> None:
        """Write JOIN or LEAVE to its probe. A process that has just died hears nothing."""
        with contextlib.suppress(OSError):
            self.probe.send(word)

    def read_heartbeats(self) -> bool:
        """Take in what the worker wrote. False at the end of the stream."""
        try:
            data = self.probe.recv(1 << 16)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        self._take(data)
        return bool(data)

    def read_last_heartbeats(self) -> None:
        """Take in all that a worker wrote before it ended."""
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while data := self.probe.recv(1 << 16):
                self._take(data)

    def _take(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._note(line)
        if len(self._unread) > MAX_HEARTBEAT_BYTES:
            self._unread = b""

    def _note(self, line: bytes) -> None:
        try:
            beat = Heartbeat.model_validate_json(line)
        except ValidationError as error:
            self.reason = f"the worker wrote a heartbeat that can't be read: {error.error_count()} faults"
            return
        if self.heartbeat is None or beat.state != "ready" or beat.progress != self.heartbeat.progress:
            self.moved_at = self.clock()
        self.heartbeat, self.reason = beat, beat.reason
        self.on_beat(beat)

    def close(self) -> None:
        """Free the descriptors."""
        self.probe.close()
        os.close(self.pidfd)
