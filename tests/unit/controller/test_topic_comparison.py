"""Topics of all deployments are compared with their sources in batches."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.brokers.base import DeploymentResources, TopicSpec
from headwater.controller.actions import TopicSync
from headwater.controller.controller import COMPARE_TOPICS_EVERY_S
from headwater.controller.deployment_resources import topic_specs
from headwater.controller.deployment_sources import Sources
from headwater.controller.topic_comparison import TopicComparison
from headwater.model.access import KafkaAccess
from headwater.model.binding import Binding, Bindings, KafkaTopic, PubSubTopic
from headwater.model.deployment import Deployment, DesiredPhase, Phase
from headwater.model.sink import KafkaSink
from headwater.model.stream import STREAM_PARTITIONS
from tests.support.memory.broker import MemoryClusterAdmin
from tests.unit.controller.world import ACCESS, FLOW, TOPIC, World, deployment

OTHER_CLUSTER = KafkaAccess(bootstrap_servers="other")
OUTPUTS = (f"flow.{FLOW}.out", f"flow.{FLOW}.dlq")


class CountingAdmin(MemoryClusterAdmin):
    """Remembers the topics of each request."""

    def __init__(self) -> None:
        super().__init__()
        self.described: list[set[str]] = []

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int | None]:
        assert len(topics) == len(set(topics))
        self.described.append(set(topics))
        return super().partition_counts(topics)


def running(number: int = 0, **sink: object) -> Deployment:
    """Return a running deployment of a configuration of its own."""
    config_id = f"01jz0000000000000000000f{number:02}"
    base = deployment(f"01jz00000000000000000000{number:02}")
    sinks = [KafkaSink.model_validate({"uid": "s1", "type": "kafka", "name": "out", **sink})]
    config = base.config.model_copy(update={"sinks": sinks})
    return replace(base, config_id=config_id, config=config, phase=Phase.RUNNING, observed_generation=1)


def create(broker: MemoryClusterAdmin, name: str, partitions: int) -> None:
    broker.topics.pop(name, None)
    broker.logs.pop(name, None)
    broker.ensure(DeploymentResources((TopicSpec(name, partitions),), (), ()))


def comparison(
    broker: MemoryClusterAdmin, binding: Binding | None = None, other: MemoryClusterAdmin | None = None
) -> TopicComparison:
    bindings = Bindings({} if binding is None else {"base.log": binding})
    clusters = {} if other is None else {OTHER_CLUSTER: other}
    return TopicComparison(
        own_cluster=broker,
        sources=Sources(bindings=bindings, own_cluster=broker, active_deployments=list, clusters=clusters),
    )


@pytest.fixture
def broker() -> CountingAdmin:
    broker = CountingAdmin()
    create(broker, TOPIC, 4)
    return broker


@given(
    counts=st.lists(st.tuples(*[st.sampled_from([None, 1, 2, 3, 4, 5])] * 2), max_size=8),
    source=st.sampled_from([None, 1, 3, 4]),
    own_partitions=st.sampled_from([None, 2]),
)
def test_a_round_finds_the_same_as_a_comparison_of_each_deployment(
    counts: list[tuple[int | None, int | None]], source: int | None, own_partitions: int | None
) -> None:
    broker = CountingAdmin()
    if source is not None:
        create(broker, TOPIC, source)
    deployments = [running(number, partitions=own_partitions) for number in range(len(counts))]
    for each, existing in zip(deployments, counts, strict=True):
        for spec, count in zip(topic_specs(each, each.desired_revision_record, 1), existing, strict=True):
            if count is not None:
                create(broker, spec.name, count)
    expected = {
        each.id
        for each in deployments
        if source is not None
        for spec in topic_specs(each, each.desired_revision_record, source)
        if (broker.partition_count(spec.name) or 0) < spec.partitions
    }
    assert comparison(broker).run(deployments) == dict.fromkeys(expected, TopicSync.PARTITIONS_AND_SETTINGS)
    assert len(broker.described) == 1


def test_all_topics_of_all_deployments_are_described_together(broker: CountingAdmin) -> None:
    comparison(broker).run([running(number) for number in range(50)])
    [described] = broker.described
    assert len(described) == 1 + 2 * 50


def test_a_deployment_with_settings_is_synced_each_time(broker: CountingAdmin) -> None:
    compared = running(retention_ms=1000)
    for spec in topic_specs(compared, compared.desired_revision_record, 4):
        create(broker, spec.name, 4)
    assert comparison(broker).run([compared]) == {compared.id: TopicSync.SETTINGS}


@pytest.mark.parametrize(
    "changes",
    [
        {"desired": DesiredPhase.PAUSED},
        {"desired": DesiredPhase.ABSENT},
        {"generation": 2},
        {"phase": Phase.FAILED},
        {"phase": Phase.PENDING},
        {"unreadable_reason": "why"},
    ],
)
def test_only_deployments_that_run_as_desired_are_compared(broker: CountingAdmin, changes: dict[str, object]) -> None:
    compared = replace(running(), **changes)  # type: ignore[arg-type]
    assert comparison(broker).run([compared]) == {}


def test_a_source_on_pubsub_has_a_fixed_number(broker: CountingAdmin) -> None:
    compared = running()
    pubsub = comparison(broker, PubSubTopic("projects/project/topics/logs", ACCESS))
    for spec in topic_specs(compared, compared.desired_revision_record, STREAM_PARTITIONS):
        create(broker, spec.name, STREAM_PARTITIONS)
    assert pubsub.run([compared]) == {}
    create(broker, spec.name, STREAM_PARTITIONS - 1)
    assert pubsub.run([compared]) == {compared.id: TopicSync.PARTITIONS_AND_SETTINGS}


def test_a_source_on_another_cluster_is_described_there(broker: CountingAdmin) -> None:
    other, compared = CountingAdmin(), running()
    round_ = comparison(broker, KafkaTopic("theirs", OTHER_CLUSTER), other)
    create(other, "theirs", 6)
    for spec in topic_specs(compared, compared.desired_revision_record, 5):
        create(broker, spec.name, 5)
    assert round_.run([compared]) == {compared.id: TopicSync.PARTITIONS_AND_SETTINGS}
    assert other.described == [{"theirs"}]
    other.away = True
    assert round_.run([compared]) == {}


class TestTheController:
    """The comparison of a running controller."""

    @pytest.fixture
    def world(self) -> World:
        world = World()
        world.deploy()
        world.pass_time(100)
        return world

    def test_a_missing_topic_is_created_within_a_minute(self, world: World) -> None:
        for name in OUTPUTS:
            del world.broker.topics[name], world.broker.logs[name]
        world.run(ticks=int(COMPARE_TOPICS_EVERY_S / 2) + 1, step_s=2.0)
        assert set(OUTPUTS) <= set(world.broker.topics)

    def test_new_partitions_of_the_source_are_found_within_a_minute(self, world: World) -> None:
        world.broker.logs[TOPIC] += [[], []]
        world.run(ticks=int(COMPARE_TOPICS_EVERY_S / 2) + 1, step_s=2.0)
        assert {len(world.broker.logs[name]) for name in OUTPUTS} == {6}

    def test_the_next_comparison_follows_an_outage(self, world: World) -> None:
        world.broker.away = True
        world.run(ticks=int(COMPARE_TOPICS_EVERY_S / 2), step_s=2.0)
        world.broker.away = False
        del world.broker.logs[OUTPUTS[0]]
        world.run(ticks=int(COMPARE_TOPICS_EVERY_S / 2) + 1, step_s=2.0)
        assert OUTPUTS[0] in world.broker.logs

    def test_an_unexpected_error_is_shown_until_a_comparison_succeeds(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(topics: Collection[str]) -> Mapping[str, int | None]:
            raise ValueError

        monkeypatch.setattr(world.broker, "partition_counts", fail)
        world.run(ticks=int(COMPARE_TOPICS_EVERY_S / 2) + 1, step_s=2.0)
        assert world.controller.current_failure() == "comparing topics: ValueError"
        monkeypatch.undo()
        world.run(ticks=int(COMPARE_TOPICS_EVERY_S / 2) + 1, step_s=2.0)
        assert world.controller.current_failure() == ""
