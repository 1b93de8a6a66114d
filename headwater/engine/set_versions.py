"""Reads the versions of the sets that a worker uses, which heartbeats report.

A lookup reads a set as it is when the lookup starts, and the worker caches no result of a lookup from one batch to the
next. So when a worker has read a version, every batch that it starts later sees all writes up to this version. If a
worker's report has no version of a dataset, the worker has not looked the dataset up since its start, or it has looked
up MAX_REPORTED_DATASETS other datasets since then. Before the first read, a worker reports no versions at all.
"""

import threading
from collections.abc import Collection, Mapping, Sequence

import structlog

from headwater.errors import RedisUnavailable
from headwater.loop_health import LoopHealth
from headwater.model.value_sets import SetId, SetVersion
from headwater.stores.protocols.sets import SetLookup, SetVersions

READ_EVERY_S = 0.5
CLOSE_TIMEOUT_S = 1.0
MAX_REPORTED_DATASETS = 200
"""How many datasets a worker reports at most: the ones that were looked up last."""

log = structlog.get_logger(__name__)


class DatasetTracker:
    """A SetLookup that records which datasets are looked up. Thread-safe."""

    def __init__(self, sets: SetLookup) -> None:
        self._sets = sets
        self._used: dict[SetId, None] = {}
        self._lock = threading.Lock()

    def contains_many(self, set_id: SetId, values: Sequence[str]) -> list[bool]:
        """See SetLookup."""
        if set_id.kind == "ds":
            with self._lock:
                self._used.pop(set_id, None)
                self._used[set_id] = None
        return self._sets.contains_many(set_id, values)

    def last_used(self) -> list[SetId]:
        """Return the datasets that were looked up last, at most MAX_REPORTED_DATASETS."""
        with self._lock:
            for set_id in [*self._used][:-MAX_REPORTED_DATASETS]:
                del self._used[set_id]
            return [*self._used]


class SetVersionReader:
    """Reads the versions of a worker's sets on a thread of its own, from `start` until `close`.

    Args:
        store: Reads the versions from the servers that the lookups use.
        filters: The sets of the pipeline's filters.
        datasets: Knows the datasets that scripts have looked up.
    """

    def __init__(self, store: SetVersions, filters: Collection[SetId], datasets: DatasetTracker) -> None:
        self._store = store
        self._filters = tuple(filters)
        self._datasets = datasets
        self._latest: Mapping[str, SetVersion] | None = None
        self._health = LoopHealth("reading the versions of sets")
        self._is_available = True
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="set-versions", daemon=True)

    def latest(self) -> Mapping[str, SetVersion] | None:
        """Return the versions by SetId.name as they were read last; None before the first read.

        Returns the same object until a version changes. While Valkey is unavailable, the versions stay.
        """
        return self._latest

    def start(self) -> None:
        """Start to read."""
        self._thread.start()

    def close(self) -> None:
        """End the thread. A read that hangs is not awaited."""
        self._closed.set()
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        delay_s = 0.0
        while not self._closed.wait(delay_s):
            try:
                self.read()
                self._health.on_success()
                delay_s = READ_EVERY_S
            except Exception as error:  # noqa: BLE001  # without this thread, writes would never count as applied
                delay_s = self._health.on_error(error)

    def read(self) -> None:
        """Read the versions once. Log when Valkey becomes unavailable."""
        set_ids = [*self._filters, *self._datasets.last_used()]
        try:
            versions = self._store.versions(set_ids)
        except RedisUnavailable as error:
            if self._is_available:
                log.warning("the versions of sets can't be read", reason=error.detail)
            self._is_available = False
            return
        self._is_available = True
        latest = {set_id.name: version for set_id, version in zip(set_ids, versions, strict=True)}
        if latest != self._latest:
            self._latest = latest
