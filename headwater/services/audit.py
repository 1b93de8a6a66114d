"""Records writes to the set store in the audit log."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import structlog

from headwater.errors import DatabaseUnavailable, RedisUnavailable, UploadAborted
from headwater.model.audit import Action, Change, current_actor
from headwater.model.value_sets import DATASET, FILTER_SET, SetId
from headwater.stores.protocols.audit import AuditLog
from headwater.stores.protocols.sets import SetStore, SetWriteResult, ValuePage

log = structlog.get_logger(__name__)

_ACTIONS: dict[tuple[str, str], Action] = {
    (FILTER_SET, "add"): "filter_values.add",
    (FILTER_SET, "remove"): "filter_values.remove",
    (FILTER_SET, "replace"): "filter_values.replace",
    (DATASET, "add"): "dataset_entries.add",
    (DATASET, "remove"): "dataset_entries.remove",
}


class AuditedSets:
    """A SetStore that records writes in the audit log.

    It adds an entry before the write and completes the entry afterwards. `drop` is not recorded, because the deletion
    that calls it has its own entry. Reads pass through. When the entry can't be stored, a write raises
    DatabaseUnavailable and changes nothing. When the set store does not reply, the entry stays pending, since the write
    may have been carried out.
    """

    def __init__(self, sets: SetStore, audit: AuditLog) -> None:
        self._sets = sets
        self._audit = audit
        self.contains_many = sets.contains_many
        self.count = sets.count
        self.summary = sets.summary
        self.drop = sets.drop
        self.sweep = sets.sweep

    def add(self, set_id: SetId, values: Sequence[str]) -> SetWriteResult:
        return self._write("add", set_id, lambda: self._sets.add(set_id, values))

    def remove(self, set_id: SetId, values: Sequence[str]) -> SetWriteResult:
        return self._write("remove", set_id, lambda: self._sets.remove(set_id, values))

    def replace(self, set_id: SetId, values: Iterable[str]) -> SetWriteResult:
        return self._write("replace", set_id, lambda: self._sets.replace(set_id, values))

    def page(self, set_id: SetId, cursor: int | None, count: int) -> ValuePage:
        return self._sets.page(set_id, cursor, count)

    def _write(self, verb: str, set_id: SetId, write: Callable[[], SetWriteResult]) -> SetWriteResult:
        entry_id = self._audit.begin(Change(_ACTIONS[set_id.kind, verb], current_actor().owner, set_id.id))
        try:
            written = write()
        except RedisUnavailable as error:
            if isinstance(error, UploadAborted):  # the set is known to be unchanged
                self._complete(entry_id, "failed")
            raise
        except BaseException:
            self._complete(entry_id, "failed")
            raise
        self._complete(entry_id, "done", f"version {written.version} changed {written.changed} count {written.count}")
        return written

    def _complete(self, entry_id: int, state: Literal["done", "failed"], after: str = "") -> None:
        """Complete the entry.

        When the database is unavailable, the entry stays pending, and no error is raised.

        Args:
            after: A text with the set's version and count after the write, and the number of changed values.
        """
        try:
            self._audit.close(entry_id, state, after)
        except DatabaseUnavailable as error:
            log.warning("an audit entry stays pending", entry=entry_id, reason=error.detail)
