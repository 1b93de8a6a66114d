"""Reads the history of a configuration."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.model.flow import Flow
from headwater.model.revision import RevisionSummary
from headwater.services.revision_diff import RevisionDiff, diff_revisions
from headwater.stores.protocols.configurations import RevisionStore


@dataclass(frozen=True, slots=True)
class RevisionPage:
    """A page of revisions, newest first.

    Attributes:
        next_before: The number below which the next page begins; None on the last page.
    """

    revisions: Sequence[RevisionSummary]
    next_before: int | None


class Revisions:
    """Reads the history of a configuration.

    All methods may raise DatabaseUnavailable, and NotFound when the owner has no such configuration.
    """

    def __init__(self, store: RevisionStore) -> None:
        self._store = store

    def list(self, owner: str, config_id: str, before: int | None, limit: int) -> RevisionPage:
        """Return a page of the stored revisions, newest first.

        Args:
            before: The number below which the page begins; None for the first page.
            limit: The number of revisions on a page.
        """
        found = self._store.list(owner, config_id, before, limit + 1)
        page = found[:limit]
        return RevisionPage(page, page[-1].revision if len(found) > limit else None)

    def get(self, owner: str, config_id: str, revision: int) -> Flow:
        """Return a configuration as it was at a revision.

        Raises NotFound when the revision is not stored.
        """
        return self._store.get(owner, config_id, revision)

    def diff(self, owner: str, config_id: str, revision: int, against: int | None) -> RevisionDiff:
        """Return how a revision differs from an earlier or a later one.

        Raises NotFound when one of the two is not stored.

        Args:
            against: The other revision; None for the revision before. Revision 1 is then compared with nothing.
        """
        compared = self._store.get(owner, config_id, revision)
        other = revision - 1 if against is None else against
        return diff_revisions(self._store.get(owner, config_id, other) if other else None, compared)
