"""Removes deleted configurations that no longer have a deployment."""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.model.flow import Flow
from headwater.stores import cleanup
from headwater.stores.protocols.configurations import FlowStore, RevisionStore
from headwater.stores.protocols.sets import SetStore


@dataclass(frozen=True, slots=True)
class Purger:
    """Removes deleted configurations.

    Attributes:
        require_lease: Raises LeaseLost unless this controller leads.
    """

    flows: FlowStore
    revisions: RevisionStore
    sets: SetStore
    require_lease: Callable[[], None]

    def purge(self, flow: Flow) -> None:
        """Remove the filter values of a deleted configuration, and then its rows."""
        self.require_lease()
        cleanup.purge_configuration(flow.id, self.flows, self.revisions, self.sets)
