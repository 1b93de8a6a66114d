"""Keeps the state of a worker across restarts of its container, in files of its Pod."""

from pathlib import Path

from pydantic import TypeAdapter

from headwater.model.reading_plan import IsolationStatus, ReadingPlan

_READING_PLAN = TypeAdapter(ReadingPlan)


class RestartState:
    """The files of a worker. A new Pod begins with an empty directory.

    Attributes:
        joined_plan: The plan with which an earlier container of the Pod joined its consumer group; None if none did.
        is_stopped: Whether an earlier container was asked to stop.
        isolation: Which partition the previous container read alone, and which ones it had quarantined, as in its last
            heartbeat (see partition_isolation.py).

    Args:
        directory: The directory of the files.
    """

    def __init__(self, directory: Path) -> None:
        self._joined, self._stopped = directory / "joined.json", directory / "stopped"
        self._isolation = directory / "isolation.json"
        self.joined_plan = _READING_PLAN.validate_json(self._joined.read_bytes()) if self._joined.exists() else None
        self.is_stopped = self._stopped.exists()
        self.isolation = (
            IsolationStatus.model_validate_json(self._isolation.read_bytes()) if self._isolation.exists() else None
        )

    def save_joined(self, reading_plan: ReadingPlan) -> None:
        """Remember that the worker may join its consumer group, and its plan."""
        _replace(self._joined, _READING_PLAN.dump_json(reading_plan))

    def save_stopped(self) -> None:
        """Remember that the worker was asked to stop."""
        _replace(self._stopped, b"")

    def save_isolation(self, status: IsolationStatus) -> None:
        """Remember the isolation status. After a kill, the next container knows it."""
        _replace(self._isolation, status.model_dump_json().encode())


def _replace(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(content)
    unfinished.rename(path)
