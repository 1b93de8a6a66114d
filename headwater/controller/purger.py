"""Removes deleted configurations that have no deployment any more."""

from collections.abc import Callable
from dataclasses import dataclass

from headwater.model.flow import Flow
from headwater.stores import removal
from headwater.stores.base import FlowStore, RevisionStore, SetStore


@dataclass(frozen=True, slots=True)
class Purger:
    """confirm: returns while this controller leads, and raises otherwise."""

    flows: FlowStore
    revisions: RevisionStore
    sets: SetStore
    confirm: Callable[[], None]

    def purge(self, flow: Flow) -> None:
        """Remove a deleted configuration: its filter values, then its rows."""
        self.confirm()
        removal.purge(flow.id, self.flows, self.revisions, self.sets)
