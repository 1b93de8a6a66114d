"""A configuration is saved completely or not at all."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.errors import DatabaseUnavailable, NotFound, PreconditionFailed, RedisUnavailable
from headwater.model.binding import Bindings
from headwater.model.flow import Flow, NewFlow
from headwater.model.transforms.v8 import NewV8Transform, ValidatedScript
from headwater.model.value_sets import SetId, filter_set_id
from headwater.services.flows import Flows, FlowStores
from headwater.services.ids import new_id
from headwater.services.pipeline_checker import PipelineChecker
from headwater.stores import cleanup
from headwater.stores.sql.database import Database
from headwater.transforms import TRANSFORMS
from tests.support.memory.sets import MemoryPendingSets, MemorySetStore
from tests.support.sql import fresh_database

SENT = NewFlow.model_validate(
    {
        "name": "x",
        "pipeline_config": {
            "source": {"chain": "base", "entity": "log"},
            "transforms": [
                {"type": "redis_set_filter", "filter_expr": "root = this.from_address", "set_values": ["a", "b"]},
                {"type": "redis_set_filter", "filter_expr": "root = this.to_address", "set_values": ["c"]},
            ],
            "sinks": [{"type": "kafka", "name": "out"}],
        },
    }
)


NOW = datetime(2026, 1, 2, tzinfo=UTC)


def filter_sets(flow: Flow) -> list[SetId]:
    return [filter_set_id(flow.id, t.uid) for t in flow.pipeline_config.transforms if t.type == "redis_set_filter"]


@pytest.fixture
def database() -> Database:
    return fresh_database()


@pytest.fixture
def sets() -> MemorySetStore:
    return MemorySetStore()


@pytest.fixture
def compiled() -> list[str]:
    """Return the scripts that were compiled in the sandbox."""
    return []


@pytest.fixture
def pending_sets() -> MemoryPendingSets:
    return MemoryPendingSets()


@pytest.fixture
def flows(database: Database, sets: MemorySetStore, pending_sets: MemoryPendingSets, compiled: list[str]) -> Flows:
    def compile_(script: str, _example: str) -> ValidatedScript:
        compiled.append(script)
        return ValidatedScript([])

    checker = PipelineChecker(bindings=Bindings(), transform_types=TRANSFORMS, validate_script=compile_, new_id=new_id)
    stores = FlowStores(database.flows, database.revisions, sets, pending_sets)
    return Flows(stores, checker, lambda: NOW, new_id)


class TestCreate:
    def test_values_are_stored_before_the_configuration(
        self, flows: Flows, database: Database, sets: MemorySetStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[tuple[int, int]] = []
        monkeypatch.setattr(database.flows, "create", lambda flow: seen.extend(map(sets.count, filter_sets(flow))))
        flows.create("alice", SENT)
        assert [count for count, _ in seen] == [2, 1]

    def test_no_configuration_is_saved_while_the_set_store_is_unavailable(
        self, flows: Flows, sets: MemorySetStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object) -> None:
            raise RedisUnavailable("away")

        monkeypatch.setattr(sets, "add", away)
        with pytest.raises(RedisUnavailable):
            flows.create("alice", SENT)
        assert list(flows.list("alice").parts) == []


SCRIPTS = [NewV8Transform(type="v8", script=f"function process() {{ return {i}; }}") for i in range(2)]


class Interrupted:
    """A store with a concurrent save between read and save, a given number of times."""

    def __init__(self, database: Database, monkeypatch: pytest.MonkeyPatch, times: int = 3) -> None:
        self._database, self._times, self._save = database, times, database.flows.save
        monkeypatch.setattr(database.flows, "save", self.save)

    def save(self, flow: Flow, restored_revision: int | None = None) -> frozenset[str]:
        if self._times:
            self._times -= 1
            newest = self._database.flows.get(flow.owner, flow.id)
            self._save(replace(newest, revision=newest.revision + 1, name=f"other {self._times}"))
        return self._save(flow, restored_revision)


class TestChange:
    def test_values_are_stored_before_the_revision(
        self, flows: Flows, database: Database, sets: MemorySetStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        created_flow = flows.create("alice", SENT).flow
        seen: list[tuple[int, int]] = []
        save = database.flows.save

        def look(flow: Flow, **options: Any) -> None:
            seen.extend(map(sets.count, filter_sets(flow)))
            save(flow, **options)

        monkeypatch.setattr(database.flows, "save", look)
        flows.replace_transforms("alice", created_flow.id, SENT.pipeline_config.transforms)
        assert [count for count, _ in seen] == [2, 1]

    @pytest.mark.parametrize("is_saved", [True, False])
    def test_a_save_without_a_response_keeps_its_values_if_it_succeeded(
        self,
        flows: Flows,
        database: Database,
        sets: MemorySetStore,
        pending_sets: MemoryPendingSets,
        monkeypatch: pytest.MonkeyPatch,
        is_saved: bool,
    ) -> None:
        tried: list[SetId] = []
        create = database.flows.create

        def unanswered(flow: Flow) -> None:
            tried.extend(filter_sets(flow))
            if is_saved:
                create(flow)
            raise DatabaseUnavailable("away")

        monkeypatch.setattr(database.flows, "create", unanswered)
        with pytest.raises(DatabaseUnavailable):
            flows.create("alice", SENT)
        cleanup.remove_abandoned_sets(pending_sets, database.revisions, sets, NOW + timedelta(seconds=1))
        assert [sets.count(target).size for target in tried] == ([2, 1] if is_saved else [0, 0])

    def test_a_rejected_save_leaves_no_values(
        self, flows: Flows, database: Database, sets: MemorySetStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        created_flow = flows.create("alice", SENT).flow
        tried: list[SetId] = []

        def away(flow: Flow, **_: Any) -> None:
            tried.extend(filter_sets(flow))
            raise NotFound("deleted meanwhile")

        monkeypatch.setattr(database.flows, "save", away)
        with pytest.raises(NotFound):
            flows.replace_transforms("alice", created_flow.id, SENT.pipeline_config.transforms)
        assert [sets.count(target) for target in tried] == [(0, 0)] * 2
        assert [sets.count(target).size for target in filter_sets(created_flow)] == [2, 1]

    def test_concurrent_saves_are_not_lost(
        self,
        flows: Flows,
        database: Database,
        sets: MemorySetStore,
        compiled: list[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        flow = flows.create("alice", SENT).flow
        Interrupted(database, monkeypatch)
        sent = [*SCRIPTS, *SENT.pipeline_config.transforms]
        saved = flows.replace_transforms("alice", flow.id, sent).flow
        assert (saved.revision, saved.name) == (5, "other 0")
        assert compiled == [script.script for script in SCRIPTS]
        assert [sets.count(target).size for target in filter_sets(saved)] == [2, 1]
        assert len(sets._sets) == 4

    def test_if_match_is_held_until_the_save(
        self, flows: Flows, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flow = flows.create("alice", SENT).flow
        Interrupted(database, monkeypatch, times=1)
        with pytest.raises(PreconditionFailed):
            flows.replace_transforms("alice", flow.id, SCRIPTS, if_match=frozenset({1}))
        assert flows.get("alice", flow.id).name == "other 0"
        assert flows.replace_transforms("alice", flow.id, SCRIPTS, if_match=frozenset({1, 2})).flow.revision == 3

    def test_if_match_is_held_until_the_delete(
        self, flows: Flows, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flow = flows.create("alice", SENT).flow
        delete = database.flows.delete

        def late(owner: str, config_id: str, revision: int | None = None) -> bool:
            database.flows.save(replace(flow, revision=2))
            return delete(owner, config_id, revision)

        monkeypatch.setattr(database.flows, "delete", late)
        with pytest.raises(PreconditionFailed):
            flows.delete("alice", flow.id, if_match=frozenset({1}))
        assert flows.get("alice", flow.id).revision == 2


class TestRestore:
    """Revision 1 has two filters, revision 2 has none."""

    @pytest.fixture
    def first(self, flows: Flows) -> Flow:
        first = flows.create("alice", SENT).flow
        flows.replace_transforms("alice", first.id, SCRIPTS)
        return first

    def test_concurrent_saves_are_not_lost(
        self, flows: Flows, database: Database, monkeypatch: pytest.MonkeyPatch, first: Flow
    ) -> None:
        Interrupted(database, monkeypatch)
        saved = flows.restore("alice", first.id, first).flow
        assert (saved.revision, saved.name) == (6, "x")
        assert saved.pipeline_config == first.pipeline_config
        assert database.revisions.get("alice", first.id, 5).name == "other 0"

    def test_if_match_is_held_until_the_save(
        self, flows: Flows, database: Database, monkeypatch: pytest.MonkeyPatch, first: Flow
    ) -> None:
        Interrupted(database, monkeypatch, times=1)
        with pytest.raises(PreconditionFailed):
            flows.restore("alice", first.id, first, if_match=frozenset({2}))
        assert flows.get("alice", first.id).name == "other 0"

    def test_a_failed_save_keeps_the_values(
        self,
        flows: Flows,
        database: Database,
        sets: MemorySetStore,
        monkeypatch: pytest.MonkeyPatch,
        first: Flow,
    ) -> None:
        def away(*_: object, **__: object) -> None:
            raise DatabaseUnavailable("away")

        database.revisions.record_removed_filters(NOW)
        with monkeypatch.context() as patched:
            patched.setattr(database.flows, "save", away)
            with pytest.raises(DatabaseUnavailable):
                flows.restore("alice", first.id, first)
        assert len(database.revisions.removed_filters(first.id)) == 2
        assert flows.restore("alice", first.id, first).warnings == []
        assert [sets.count(target).size for target in filter_sets(first)] == [2, 1]
