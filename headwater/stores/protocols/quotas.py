"""The protocols of the store of quotas, and of the reservations of writes in progress."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from headwater.model.quota import Limits, QuotaName, Reservation, Usage
from headwater.model.value_sets import SetId


class QuotaStore(Protocol):
    """The limits and the usage of each owner's quotas.

    FlowStore, DeploymentStore and DatasetStore enforce the limits when they write.
    """

    @property
    def total_limits(self) -> Mapping[QuotaName, int]:
        """Return the limits for all owners together."""

    def limits(self, owner: str) -> Limits:
        """Return the limits of an owner."""

    def usage(self, owner: str) -> Usage:
        """Return the usage of an owner, except `set_values`, which SetCounts returns."""

    def set_limits(self, owner: str, limits: Limits, reset: Sequence[QuotaName]) -> None:
        """Set limits of an owner, and reset the limits in `reset` to the limits in the settings.

        None means unlimited.
        """

    def overrides(self) -> Mapping[str, Limits]:
        """Return by owner the limits that `set_limits` has set, also those equal to the settings."""

    def sets(self, owner: str | None = None) -> Sequence[SetId]:
        """Return the sets of an owner, or of all owners: datasets, and filters of revisions.

        Each set is returned once. A removed filter is included while its values are kept.
        """


class Reservations(Protocol):
    """Quota reservations: how many values each write in progress may still add.

    All API processes share them.
    """

    def put(self, reservation: Reservation) -> None:
        """Write a reservation; it replaces an earlier one with the same id."""

    def all(self) -> Sequence[Reservation]:
        """Return all reservations, also expired ones."""

    def remove(self, ids: Collection[str]) -> None:
        """Remove reservations. Unknown ids are no error."""
