"""Configurations: create, read, delete."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headwater.errors import Problem
from headwater.model.dataset import SetId, filter_set
from headwater.model.flow import Flow, NewFlow
from headwater.model.transform import RedisSetFilterTransform
from headwater.services.checks import PipelineChecker
from headwater.services.ids import Clock, NewId
from headwater.stores.base import FlowStore, SetStore


@dataclass(frozen=True, slots=True)
class Created:
    """A new configuration, and what its scripts threw on the stream's example record."""

    flow: Flow
    warnings: list[Problem]


def filter_sets(flow: Flow) -> list[SetId]:
    """The sets that belong to a configuration's filters."""
    transforms = flow.pipeline_config.transforms
    return [filter_set(flow.id, t.uid) for t in transforms if isinstance(t, RedisSetFilterTransform)]


class Flows:
    """All methods may block on the stores and raise StoreUnavailable or SetStoreUnavailable."""

    def __init__(self, store: FlowStore, sets: SetStore, checker: PipelineChecker, now: Clock, new_id: NewId) -> None:
        self._store = store
        self._sets = sets
        self._checker = checker
        self._now = now
        self._new_id = new_id

    def create(self, owner: str, sent: NewFlow) -> Created:
        """Check and store a configuration and the first values of its filters, or leave nothing behind.

        Blocks while the sandbox compiles scripts. Raises InvalidInput, SandboxFailed.
        """
        checked = self._checker.check(sent.pipeline_config)
        now = self._now()
        flow = Flow(
            id=self._new_id(),
            owner=owner,
            name=sent.name,
            description=sent.description,
            tags=tuple(sent.tags),
            pipeline_config=checked.config,
            revision=1,
            created_at=now,
            updated_at=now,
        )
        self._save(flow, checked.values)
        return Created(flow, checked.warnings)

    def _save(self, flow: Flow, values: dict[str, list[str]]) -> None:
        """Values first: a configuration that can be seen has its values."""
        sets = {filter_set(flow.id, uid): first for uid, first in values.items()}
        try:
            for target, first in sets.items():
                self._sets.add(target, first)
            self._store.create(flow)
        except Exception:
            self._drop(sets)
            raise

    def _drop(self, sets: Iterable[SetId]) -> None:
        for target in sets:
            self._sets.drop(target)

    def get(self, owner: str, flow_id: str) -> Flow:
        """The newest revision. Raises NotFound."""
        return self._store.get(owner, flow_id)

    def list(self, owner: str) -> Sequence[Flow]:
        """All configurations of an owner, newest first."""
        return self._store.list(owner)

    def delete(self, owner: str, flow_id: str) -> Flow:
        """Make a configuration invisible and ask for its deployment to go. `forget` ends it. Raises NotFound."""
        flow = self._store.get(owner, flow_id)
        self._store.delete(owner, flow_id)
        return flow

    def forget(self, flow: Flow) -> None:
        """Remove a deleted configuration that has no deployment any more, with its filter values. Idempotent."""
        self._drop(filter_sets(flow))
        self._store.purge(flow.id)
