"""How a worker talks to its orchestrator.

The worker sends heartbeats. The orchestrator says when the worker joins its consumer group, and whether it leaves it.
The process orchestrator uses a socket pair, and the orchestrator for Kubernetes uses HTTP (http_channel.py).
"""

import contextlib
import os
import select
from typing import Protocol

import structlog

from headwater.errors import WorkerError
from headwater.model.reading_plan import READ_ALL, ReadingPlan
from headwater.model.worker_protocol import JOIN, LEAVE, Heartbeat

log = structlog.get_logger(__name__)


class OrchestratorChannel(Protocol):
    """The worker's end of the connection to its orchestrator."""

    @property
    def reading_plan(self) -> ReadingPlan:
        """How the worker reads its partitions; valid once `may_join` has returned True."""

    def may_join(self, timeout_s: float) -> bool:
        """Wait until the orchestrator lets this worker join its consumer group.

        Return whether it may join. Raises WorkerError when the orchestrator has ended and another one may have started
        another worker for the same slot.
        """

    def must_leave_group(self) -> bool:
        """Return whether this worker must leave its consumer group when it ends.

        The orchestrator sends this instruction when no worker follows in this slot.
        """

    def send(self, heartbeat: Heartbeat) -> bool:
        """Send one heartbeat, without blocking.

        Return whether the orchestrator will read the heartbeat's `isolation`, even if this process is killed now.
        """


class NoOrchestrator:
    """Implements OrchestratorChannel for a worker that was started by hand: it joins at once."""

    def __init__(self, reading_plan: ReadingPlan = READ_ALL) -> None:
        self.reading_plan = reading_plan

    def may_join(self, timeout_s: float) -> bool:  # noqa: ARG002 - the protocol has it
        return True

    def must_leave_group(self) -> bool:
        return False

    def send(self, heartbeat: Heartbeat) -> bool:  # noqa: ARG002 - the protocol has it
        return True


class SocketPairChannel:
    """Implements OrchestratorChannel over a socket pair, with one heartbeat per line.

    While the orchestrator does not read, heartbeats are dropped.

    Args:
        fd: The worker's end of the socket pair.
        reading_plan: How the worker reads its partitions.
    """

    def __init__(self, fd: int, reading_plan: ReadingPlan = READ_ALL) -> None:
        self.reading_plan = reading_plan
        self._fd: int | None = fd
        self._unsent = b""
        self._received = b""
        os.set_blocking(fd, False)

    def may_join(self, timeout_s: float) -> bool:
        if self._fd is None:
            raise _orchestrator_ended()
        if JOIN not in self._received and select.select([self._fd], [], [], timeout_s)[0]:
            self._receive(self._fd)
        return JOIN in self._received

    def _receive(self, fd: int) -> None:
        try:
            received = os.read(fd, 1 << 10)
        except ConnectionResetError:
            received = b""
        if not received:
            raise _orchestrator_ended()
        self._received += received

    def must_leave_group(self) -> bool:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                self._received += os.read(self._fd, 1 << 10)
        return LEAVE in self._received

    def send(self, heartbeat: Heartbeat) -> bool:
        self._write()
        if self._fd is None or self._unsent:  # the orchestrator has not read the last heartbeat
            return False
        self._unsent = heartbeat.model_dump_json().encode() + b"\n"
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
            log.warning("the orchestrator has ended; no more heartbeats are written", error=str(error))
            self._fd, self._unsent = None, b""


def _orchestrator_ended() -> WorkerError:
    return WorkerError("The process of the orchestrator has ended. The next one starts a new worker.")
