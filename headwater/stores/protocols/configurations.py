"""The protocols of the stores of configurations and of their revisions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from headwater.model.flow import Flow
from headwater.model.pagination import ListPosition
from headwater.model.revision import RevisionSummary


class FlowStore(Protocol):
    """The configurations of all owners.

    "Flow" is the word of paths, scopes and topics for a configuration. An object of the class Flow is one revision of a
    configuration, together with the configuration's id, name and tags. A configuration that this version can't read is
    returned like any other; its `unreadable_reason` says why.
    """

    def create(self, flow: Flow) -> None:
        """Store a new configuration at revision 1.

        Raises Conflict when another configuration of the owner has the same external_id.
        """

    def save(self, flow: Flow, restored_revision: int | None = None) -> frozenset[str]:
        """Store the next revision. `flow.revision` is the revision that the caller read, plus 1.

        `created_at` and earlier revisions are kept. A removed filter that the new revision contains again is no longer
        recorded as removed. If the passwords of the active deployment can't be decrypted, the deployment gets new
        passwords. The revision of a running deployment is then rolled out again; a paused deployment stays paused.

        Return the uids of the removed filters that the new revision contains again and whose values are gone. Raises
        NotFound, and ConcurrentUpdate when another request saved a revision in between. Raises Conflict when another
        configuration of the owner has the same external_id, and Unavailable while the values of a filter of the new
        revision are being dropped.

        Args:
            flow: The configuration to store.
            restored_revision: The earlier revision that a rollback saves again; None for all other saves.
        """

    def get(self, owner: str, config_id: str) -> Flow:
        """Return the newest revision.

        Raises NotFound when the configuration is unknown, belongs to another owner, or is marked as deleted.
        """

    def list(self, owner: str) -> Sequence[Flow]:
        """Return all configurations of an owner, newest first."""

    def list_positions(self, owner: str, after: ListPosition | None, limit: int) -> Sequence[ListPosition]:
        """Return the list positions of an owner's next configurations, newest first.

        The list starts after the position `after`, or at the newest configuration when `after` is None.
        """

    def get_many(self, owner: str, config_ids: Collection[str]) -> Sequence[Flow]:
        """Return the configurations with these ids that belong to the owner, newest first."""

    def with_external_id(self, owner: str, external_id: str) -> Sequence[Flow]:
        """Return the owner's configuration with this external_id, as a list of at most one."""

    def delete(self, owner: str, config_id: str, revision: int | None = None) -> bool:
        """Mark a configuration as deleted.

        From then on the configuration is invisible, and its external_id is free. In the same transaction, the desired
        state of an active deployment becomes ABSENT, with delete_configuration set; the controller calls `purge` after
        the teardown. Return False when no deployment is active: then the caller must call `purge`.

        Raises NotFound, and ConcurrentUpdate when `revision` is given and is not the newest one.
        """

    def purge(self, config_id: str) -> None:
        """Remove a deleted configuration and all its revisions.

        Nothing changes when the id is unknown, the configuration is not marked as deleted, or a deployment is active.
        """

    def deleted(self) -> Sequence[Flow]:
        """Return the configurations that are marked as deleted and not purged yet."""


ValuesState = Literal["kept", "dropping", "dropped"]
"""The state of the values of a removed filter.

The values are kept for some time, then dropped. A filter whose values have been dropped is recorded for as long as a
stored revision contains it, so that a rollback to this revision knows that the values are gone.
"""


@dataclass(frozen=True, slots=True)
class RemovedFilter:
    """A filter of an earlier revision that is not used any more.

    It is neither in the newest revision nor in a revision of a deployment.

    Attributes:
        state: The state of the filter's values.
    """

    config_id: str
    uid: str
    removed_at: datetime
    state: ValuesState = "kept"


class RevisionStore(Protocol):
    """The stored revisions of configurations, and their removed filters."""

    def list(self, owner: str, config_id: str, before: int | None, limit: int) -> Sequence[RevisionSummary]:
        """Return the newest stored revisions with numbers below `before`, newest first.

        With `before` None, the list starts with the newest revision. Raises NotFound when there is no such
        configuration.
        """

    def get(self, owner: str, config_id: str, revision: int) -> Flow:
        """Return a configuration as it was at a revision.

        Its `updated_at` is the time of that save. Raises NotFound when there is no such configuration, or when the
        revision is not stored.
        """

    def filters(self, config_id: str) -> Mapping[int, frozenset[str]]:
        """Return the uids of the filters in each stored revision, by revision.

        The configuration may be deleted.
        """

    def superseded(self, before: datetime, kept: int) -> Mapping[str, Sequence[int]]:
        """Return by configuration the revisions that can be removed, in order.

        Such a revision is not one of the `kept` newest ones, and was superseded by a newer revision before `before`. No
        active deployment runs it, or would run it again after a failed rollout. Deleted configurations are left to
        `purge`.
        """

    def remove(self, config_id: str, revisions: Collection[int], now: datetime) -> None:
        """Remove revisions that `superseded` returned.

        Their filters that are not recorded yet are recorded as removed at `now`, unless they are in the newest revision
        or in a revision of a deployment. Unknown revisions are no error.
        """

    def record_removed_filters(self, now: datetime) -> None:
        """Record new removed filters, of all configurations, as removed at `now`.

        These are the filters of stored revisions that are neither in the newest revision nor in a revision of a
        deployment. Deleted configurations are left to `purge`.
        """

    def removed_filters(self, config_id: str | None = None) -> Sequence[RemovedFilter]:
        """Return the removed filters, of all configurations or of one, oldest first.

        The removed filters of a deleted configuration are kept until `purge`.
        """

    def begin_drop(self, before: datetime) -> Mapping[str, frozenset[str]]:
        """Return by configuration the removed filters whose values must be dropped now.

        These are the filters that were removed before `before`, and the filters that an interrupted call left behind.
        From now on, no revision with one of them can be saved until `finish_drop`.
        """

    def finish_drop(self, config_id: str, uids: Collection[str]) -> None:
        """Record that the values of filters that `begin_drop` returned have been dropped.

        The row of a filter that no stored revision contains is deleted. Unknown uids are no error.
        """
