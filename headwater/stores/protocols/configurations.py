"""The protocols of the stores of configurations and of their revisions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from headwater.model.flow import Flow
from headwater.model.pagination import ListPosition


class FlowStore(Protocol):
    """The configurations of all owners.

    A Flow is one revision of a configuration, together with the configuration's id, name and tags.
    A configuration that this version can't read is returned like any other; its `unreadable_reason` says why.
    """

    def create(self, flow: Flow) -> None:
        """Store a new configuration at revision 1.

        Raises Conflict when another configuration of the owner has the same external_id.
        """

    def save(self, flow: Flow) -> None:
        """Store the next revision. `flow.revision` is the revision that the caller read, plus 1.

        `created_at` and earlier revisions are kept. A removed filter that the new revision contains again is no longer
        recorded as removed. If the passwords of the active deployment can't be decrypted, the deployment gets new
        passwords, and the rollout of its revision is requested again.

        Raises NotFound, ConcurrentUpdate when another request saved a revision in between, and Conflict when another
        configuration of the owner has the same external_id.
        """

    def get(self, owner: str, config_id: str) -> Flow:
        """Return the newest revision.

        Raises NotFound when the configuration is unknown, belongs to another owner, or is marked as deleted.
        """

    def list(self, owner: str) -> Sequence[Flow]:
        """Return all configurations of an owner, newest first."""

    def list_positions(self, owner: str, after: ListPosition | None, limit: int) -> Sequence[ListPosition]:
        """Return the list positions of an owner's next configurations, newest first.

        The list starts behind the position `after`, or at the newest configuration when `after` is None.
        """

    def get_many(self, owner: str, config_ids: Collection[str]) -> Sequence[Flow]:
        """Return the configurations with these ids that belong to the owner, newest first."""

    def with_external_id(self, owner: str, external_id: str) -> Sequence[Flow]:
        """Return the owner's configuration with this external_id, as a list of at most one."""

    def delete(self, owner: str, config_id: str, revision: int | None = None) -> bool:
        """Mark a configuration as deleted.

        From then on it is invisible, and its external_id is free. In the same transaction, the desired state of an
        active deployment becomes ABSENT, with delete_configuration set; the controller calls `purge` after the
        teardown. Return False when no deployment is active: then the caller must call `purge`.

        Raises NotFound, and ConcurrentUpdate when `revision` is given and is not the newest one.
        """

    def purge(self, config_id: str) -> None:
        """Remove a deleted configuration and all its revisions. Unknown ids are no error."""

    def deleted(self) -> Sequence[Flow]:
        """Return the configurations that are marked as deleted and not purged yet."""


@dataclass(frozen=True, slots=True)
class RemovedFilter:
    """A filter that no stored revision contains, and whose values are kept for some time."""

    config_id: str
    uid: str
    removed_at: datetime


class RevisionStore(Protocol):
    """The stored revisions of configurations, and the filters of deleted revisions."""

    def filters(self, config_id: str) -> Mapping[int, frozenset[str]]:
        """Return the uids of the filters in each stored revision, by revision.

        The configuration may be deleted.
        """

    def superseded(self, before: datetime) -> Mapping[str, Sequence[int]]:
        """Return by configuration the revisions that can be removed, in order.

        Such a revision was superseded by a newer revision before `before`, and no active deployment runs it or may roll
        back to it. Deleted configurations are left to `purge`.
        """

    def remove(self, config_id: str, revisions: Collection[int], now: datetime) -> None:
        """Remove revisions that `superseded` returned.

        Filters that only these revisions contained are recorded as removed at `now`. Unknown revisions are no error.
        """

    def removed_filters(
        self, *, config_id: str | None = None, before: datetime | None = None
    ) -> Sequence[RemovedFilter]:
        """Return the removed filters, of all configurations or of one, oldest first.

        With `before`, return only filters that were removed before this time. The removed filters of a deleted
        configuration are kept until `purge`.
        """

    def delete_removed_filters(self, config_id: str, uids: Collection[str]) -> None:
        """Delete the rows of removed filters whose values were dropped. Unknown uids are no error."""
