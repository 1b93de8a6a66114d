"""SQLite and PostgreSQL return the same for random sequences of calls."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from headwater.errors import NotFound, RequestError, Unavailable
from headwater.model.audit import AuditQuery
from headwater.model.deployment import Condition, Observation, ObservedWorker, ObservedWorkerStatus, Phase
from headwater.model.stored_config import read_pipeline_config
from headwater.stores.sql.database import Database
from tests.examples import examples
from tests.support.postgres_server import PostgresServer
from tests.support.postgresql import empty_tables
from tests.support.sql import (
    FRESH_DATABASES,
    OWNER,
    T0,
    SqlStores,
    a_config,
    a_deployment,
    a_flow,
    a_line,
    at,
    next_revision,
    open_postgres,
)

IDS = ("f1", "f2")
FLOWS = st.sampled_from(IDS)
OWNERS = st.sampled_from([OWNER] * 9 + ["bob"])
FILTER = {"uid": "t2", "type": "redis_set_filter", "filter_expr": "root = this.a"}
UNREADABLE = read_pipeline_config(
    '{"source": {"chain": "x"}, "transforms": [{"uid": "t3", "type": "redis_set_filter"}]}'
)
CONFIGS = st.sampled_from(
    [a_config(), a_config(transforms=[FILTER]), a_config("solana", "nonvoting_transaction"), UNREADABLE]
)


class Twins(RuleBasedStateMachine):
    """Every rule calls both databases, and compares results and errors.

    The invariant compares all readable content.
    """

    open_empty: ClassVar[Callable[[], Database]]

    def __init__(self) -> None:
        super().__init__()
        self._database = type(self).open_empty()
        self._sqlite = FRESH_DATABASES.open()
        self._made = 0

    def teardown(self) -> None:
        self._database.close()
        FRESH_DATABASES.close()

    def both(self, call: Callable[[SqlStores], Any]) -> None:
        assert _outcome(call, self._database) == _outcome(call, self._sqlite)

    @initialize()
    def start(self) -> None:
        self.create()

    @rule()
    def create(self) -> None:
        """Create the configurations that do not exist."""
        known = {flow.id for flow in [*self._sqlite.flows.list(OWNER), *self._sqlite.flows.deleted()]}
        for config_id in IDS:
            if config_id not in known:
                self.both(partial(_create, config_id=config_id))

    @rule(
        owner=OWNERS,
        config_id=FLOWS,
        config=CONFIGS,
        external_id=st.sampled_from([None, "x"]),
        current=st.integers(0, 9),
    )
    def save(self, owner: str, config_id: str, config: Any, external_id: str | None, current: int) -> None:
        def call(stores: SqlStores) -> None:
            read = stores.flows.get(OWNER, config_id)
            saved = next_revision(read, owner=owner, pipeline_config=config, external_id=external_id)
            stores.flows.save(saved if current else replace(saved, revision=read.revision))

        self.both(call)

    @rule(owner=OWNERS, config_id=FLOWS)
    def deploy(self, owner: str, config_id: str) -> None:
        self._made += 1
        new = a_deployment(f"d{self._made}", created_at=at(self._made))
        self.both(lambda stores: stores.deployments.request_deploy(owner, config_id, new))

    @rule(owner=OWNERS, config_id=FLOWS)
    def rotate(self, owner: str, config_id: str) -> None:
        self._made += 1
        password = f"password-{self._made}"
        self.both(lambda stores: stores.deployments.request_credential_rotation(owner, config_id, password))

    @rule(newest=st.integers(0, 2), count=st.integers(0, 3))
    def log(self, newest: int, count: int) -> None:
        lines = [a_line(number) for number in range(count)]
        self.both(lambda stores: stores.deployments.write_logs({f"d{self._made - newest}": lines}))

    @rule(config_id=FLOWS)
    def tear_down(self, config_id: str) -> None:
        self.both(lambda stores: stores.deployments.request_teardown(config_id))

    @rule(
        newest=st.integers(0, 2),
        phase=st.sampled_from(Phase),
        condition=st.sampled_from(Condition),
        behind=st.integers(0, 2),
    )
    def observe(self, newest: int, phase: Phase, condition: Condition, behind: int) -> None:
        """Observe one of the three newest deployments, perhaps in an old state.

        The state is its current state, or one of its last two states.
        """
        name = f"d{self._made - newest}"
        known = {deployment.id: deployment for deployment in self._sqlite.deployments.list_active()}
        current = known.get(name, a_deployment(name))
        revision = max(1, current.desired_revision - behind)
        news = Observation(name, phase, revision, current.generation - behind, condition, "why")
        self.both(lambda stores: stores.deployments.write_observations([news]))

    @rule(newest=st.integers(0, 2), restarts=st.integers(0, 3))
    def report(self, newest: int, restarts: int) -> None:
        state = ObservedWorker(
            name="w",
            status=ObservedWorkerStatus.RUNNING,
            is_ready=True,
            restart_count=restarts,
            start_time=T0,
            reason="é",
        )
        self.both(lambda stores: stores.deployments.report_workers({f"d{self._made - newest}": [state]}))

    @rule(owner=OWNERS, config_id=FLOWS, revision=st.sampled_from([None] * 3 + [1, 2]))
    def delete(self, owner: str, config_id: str, revision: int | None) -> None:
        self.both(lambda stores: stores.flows.delete(owner, config_id, revision))

    @rule(seconds=st.integers(0, 9), kept=st.integers(1, 3))
    def remove_superseded(self, seconds: int, kept: int) -> None:
        def call(stores: SqlStores) -> Any:
            stores.revisions.record_removed_filters(at(seconds))
            superseded = stores.revisions.superseded(at(seconds), kept)
            found = {config_id: list(revisions) for config_id, revisions in superseded.items()}
            for config_id, revisions in found.items():
                stores.revisions.remove(config_id, revisions, at(seconds))
            return found

        self.both(call)

    @rule(seconds=st.integers(0, 9), finished=st.booleans())
    def drop_values(self, seconds: int, finished: bool) -> None:
        def call(stores: SqlStores) -> Any:
            dropping = dict(stores.revisions.begin_drop(at(seconds)))
            for config_id, uids in dropping.items() if finished else ():
                stores.revisions.finish_drop(config_id, uids)
            return dropping

        self.both(call)

    @rule(config_id=FLOWS)
    def purge(self, config_id: str) -> None:
        self.both(lambda stores: stores.flows.purge(config_id))

    @invariant()
    def same_content(self) -> None:
        self.both(lambda stores: list(stores.flows.list(OWNER)))
        self.both(lambda stores: list(stores.flows.deleted()))
        self.both(lambda stores: list(stores.deployments.list_active()))
        self.both(
            lambda stores: list(stores.deployments.ended_among([f"d{number}" for number in range(self._made + 1)]))
        )
        self.both(lambda stores: list(stores.deployments.undeployed_among(["f1", "f2", "f3"])))
        self.both(lambda stores: sorted(stores.deployments.active_versions(), key=lambda marker: marker.id))
        self.both(lambda stores: dict(stores.deployments.progress(["f1", "f2", "f3"])))
        self.both(lambda stores: list(stores.deployments.read_logs(f"d{self._made}", 5)))
        self.both(lambda stores: [dict(stores.revisions.filters(config_id)) for config_id in IDS])
        self.both(lambda stores: list(stores.revisions.removed_filters()))
        self.both(lambda stores: [_history(stores, config_id) for config_id in IDS])
        self.both(lambda stores: list(stores.flows.with_external_id(OWNER, "x")))
        self.both(lambda stores: stores.change_counter.value())
        self.both(lambda stores: [entry.change for entry in stores.audit.read(AuditQuery(limit=1000))])


def _history(stores: SqlStores, config_id: str) -> list[Any]:
    """Return the history of a configuration without the times of deploys."""
    try:
        items = stores.revisions.list(OWNER, config_id, None, 100)
    except NotFound:
        return []
    flows = [stores.revisions.get(OWNER, config_id, item.revision) for item in items]
    return [
        (flow, replace(item, deployed_at=None), item.deployed_at is None)
        for flow, item in zip(flows, items, strict=True)
    ]


def _create(stores: SqlStores, config_id: str) -> None:
    stores.flows.create(a_flow(config_id))


def _outcome(call: Callable[[SqlStores], Any], stores: SqlStores) -> Any:
    try:
        return call(stores)
    except (RequestError, Unavailable) as error:
        return type(error), error.detail


@pytest.mark.slow
def test_random_calls(shared_postgres: PostgresServer, postgres_url: str) -> None:
    def open_empty() -> Database:
        empty_tables(shared_postgres)
        return open_postgres(postgres_url)

    few = settings(max_examples=examples(4), stateful_step_count=30)
    twins: type[Twins] = type("OpenedTwins", (Twins,), {"open_empty": staticmethod(open_empty)})
    run_state_machine_as_test(twins, settings=few)
