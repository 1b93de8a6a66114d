"""Saving a configuration: everything or nothing."""

from datetime import UTC, datetime

import pytest

from headwater.errors import SetStoreUnavailable, StoreUnavailable
from headwater.model.dataset import SetId, filter_set
from headwater.model.flow import Flow, NewFlow
from headwater.model.stream import Bindings
from headwater.services.checks import PipelineChecker
from headwater.services.flows import Flows, FlowStores
from headwater.services.ids import new_id
from headwater.stores.memory.control import MemoryDatabase
from headwater.stores.memory.sets import MemorySetStore

SENT = NewFlow.model_validate(
    {
        "name": "x",
        "pipeline_config": {
            "source": {"chain": "base", "entity": "log"},
            "transforms": [
                {"type": "redis_set_filter", "filter_expr": "root = this.a", "set_values": ["a", "b"]},
                {"type": "redis_set_filter", "filter_expr": "root = this.b", "set_values": ["c"]},
            ],
            "sinks": [{"type": "kafka", "name": "out"}],
        },
    }
)


def filter_sets(flow: Flow) -> list[SetId]:
    return [filter_set(flow.id, t.uid) for t in flow.pipeline_config.transforms if t.type == "redis_set_filter"]


@pytest.fixture
def database() -> MemoryDatabase:
    return MemoryDatabase()


@pytest.fixture
def sets() -> MemorySetStore:
    return MemorySetStore()


@pytest.fixture
def flows(database: MemoryDatabase, sets: MemorySetStore) -> Flows:
    checker = PipelineChecker(Bindings(), lambda _script, _example: [], lambda _: None, new_id)
    stores = FlowStores(database.flows, database.revisions, sets)
    return Flows(stores, checker, lambda: datetime(2026, 1, 2, tzinfo=UTC), new_id)


class TestCreate:
    def test_values_are_there_before_the_configuration(
        self, flows: Flows, database: MemoryDatabase, sets: MemorySetStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[tuple[int, int]] = []
        monkeypatch.setattr(database.flows, "create", lambda flow: seen.extend(map(sets.count, filter_sets(flow))))
        flows.create("alice", SENT)
        assert [count for count, _ in seen] == [2, 1]

    def test_the_database_away_leaves_no_values(
        self, flows: Flows, database: MemoryDatabase, sets: MemorySetStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tried = []

        def away(flow: Flow) -> None:
            tried.extend(filter_sets(flow))
            raise StoreUnavailable("away")

        monkeypatch.setattr(database.flows, "create", away)
        with pytest.raises(StoreUnavailable):
            flows.create("alice", SENT)
        assert [sets.count(target) for target in tried] == [(0, 0)] * 2

    def test_the_set_store_away_leaves_no_configuration(
        self, flows: Flows, sets: MemorySetStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object) -> None:
            raise SetStoreUnavailable("away")

        monkeypatch.setattr(sets, "add", away)
        with pytest.raises(SetStoreUnavailable):
            flows.create("alice", SENT)
        assert flows.list("alice") == []
