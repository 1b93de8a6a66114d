"""The numbers of workers that a controller with dependencies in memory chooses."""

from dataclasses import replace

import pytest

from headwater.controller.load_history import LoadHistory
from headwater.model.deployment import Condition, Deployment, Phase
from headwater.model.flow import Flow
from headwater.model.metric import CountType
from headwater.model.worker_protocol import Heartbeat
from tests.unit.controller.world import DEPLOYMENT, FLOW, TOPIC, World, deployment, flow

GROUP = f"wrk-{DEPLOYMENT}.1"


def elastic(low: int = 1, high: int = 3, revision: int = 1) -> Flow:
    config = flow().pipeline_config.model_validate(
        flow().pipeline_config.model_dump() | {"parallelism": {"min": low, "max": high}}
    )
    return replace(flow(), pipeline_config=config, revision=revision)


class Load:
    """The load of the pipeline, whose workers each process `capacity` records per second."""

    def __init__(self, world: World, capacity: float = 100.0) -> None:
        self.world, self.capacity = world, capacity
        self.arriving, self.lag = 0.0, 0.0
        self.processed: dict[str, float] = {}
        self.cpu_s: dict[str, float] = {}

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            names = [each.name for each in self.world.orchestrator.status(DEPLOYMENT)]
            done = min(self.lag + self.arriving, self.capacity * len(names))
            self.lag += self.arriving - done
            for name in names:
                self.processed[name] = self.processed.get(name, 0.0) + done / len(names)
                self.cpu_s[name] = self.cpu_s.get(name, 0.0) + done / len(names) / self.capacity
                self.world.orchestrator.heartbeats[name] = Heartbeat(
                    state="ready",
                    spec_hash="h",
                    counters={"messages_received": int(self.processed[name])},
                    uptime_s=self.world.now,
                    scripts_cpu_s=self.cpu_s[name],
                )
            log = self.world.broker.logs[TOPIC]
            committed = self.world.broker.commits[GROUP]
            committed[TOPIC, 0] = len(log[0]) - int(self.lag)
            self.world.run(ticks=2, step_s=0.5)


@pytest.fixture
def load(world: World) -> Load:
    for _ in range(100_000):
        world.broker.logs[TOPIC][0].append(0)
    world.database.flows.create(elastic())
    world.database.deployments.request_deploy("owner", FLOW, deployment())
    world.pass_time(40)
    assert active(world).condition is Condition.STABLE
    return Load(world)


def active(world: World) -> Deployment:
    found = world.active
    assert found is not None
    return found


def running(world: World) -> int:
    return len(world.orchestrator.status(DEPLOYMENT))


class TestFollowingTheLoad:
    def test_it_begins_with_the_minimum(self, world: World, load: Load) -> None:
        load.run(30)
        assert (running(world), active(world).scaling) == (1, None)

    def test_up_within_a_minute_and_down_within_ten(self, world: World, load: Load) -> None:
        load.arriving = 50
        load.run(30)
        hashes = {each.spec_hash for each in world.orchestrator.status(DEPLOYMENT)}
        load.arriving = 250
        load.run(40)
        scaling = active(world).scaling
        assert scaling is not None
        assert (running(world), scaling.workers) == (3, 3)
        assert "fell behind" in scaling.reason
        assert scaling.capacity is not None
        assert {each.spec_hash for each in world.orchestrator.status(DEPLOYMENT)} == hashes
        assert active(world).condition is Condition.STABLE
        load.arriving = 10
        load.run(400)
        lowered = active(world).scaling
        assert lowered is not None
        assert (running(world), lowered.workers) == (1, 1)
        assert lowered.changed_at > scaling.changed_at
        assert "can do the work" in lowered.reason

    def test_no_worker_without_a_partition(self, world: World, load: Load) -> None:
        world.database.flows.save(elastic(high=64, revision=2))
        world.database.deployments.request_redeploy("owner", FLOW)
        world.pass_time(40)
        load.arriving = 10_000
        load.run(90)
        assert running(world) == 4

    def test_a_minimum_above_the_number_of_partitions(self, world: World, load: Load) -> None:
        world.database.flows.save(elastic(low=6, high=8, revision=2))
        world.database.deployments.request_redeploy("owner", FLOW)
        world.pass_time(40)
        load.run(60)
        scaling = active(world).scaling
        assert scaling is not None
        assert (running(world), scaling.workers) == (4, 4)
        load.run(30)
        assert active(world).scaling == scaling

    def test_a_fixed_number_reads_no_lag(self, world: World) -> None:
        world.deploy()
        world.pass_time(40)
        world.broker.lag = None  # type: ignore[method-assign,assignment]
        world.run(ticks=30)
        assert world.controller.scaling_loop.error == ""
        assert active(world).scaling is None


class TestItStays:
    def test_while_a_worker_waits_for_a_store(self, world: World, load: Load) -> None:
        load.arriving = 300
        for _ in range(40):
            load.run(1)
            for name in load.processed:
                beat = world.orchestrator.heartbeats[name]
                world.orchestrator.heartbeats[name] = beat.model_copy(update={"state": "waiting"})
            world.run(ticks=2)
        assert running(world) == 1

    def test_while_the_broker_is_unavailable(self, world: World, load: Load) -> None:
        load.arriving = 300
        load.run(5)
        world.broker.away = True
        load.run(30)
        assert running(world) == 1
        world.broker.away = False
        load.run(60)
        assert running(world) == 3

    def test_for_the_next_controller(self, world: World, load: Load) -> None:
        load.arriving = 250
        load.run(40)
        before = active(world).scaling
        world.start_controller()
        load.world.run(ticks=10)
        assert (running(world), active(world).scaling) == (3, before)

    def test_for_the_next_revision_and_after_a_pause(self, world: World, load: Load) -> None:
        load.arriving = 250
        load.run(40)
        world.database.flows.save(elastic(high=2, revision=2))
        world.database.deployments.request_redeploy("owner", FLOW)
        world.run(ticks=10)
        assert (active(world).observed_revision, running(world)) == (2, 2)
        world.database.deployments.request_pause("owner", FLOW)
        world.run(ticks=10)
        assert (active(world).phase, running(world)) == (Phase.PAUSED, 0)
        world.database.deployments.request_resume("owner", FLOW)
        world.run(ticks=10)
        assert running(world) == 2

    def test_not_after_a_teardown(self, world: World, load: Load) -> None:
        load.arriving = 250
        load.run(40)
        world.database.deployments.request_teardown(FLOW)
        world.run(ticks=10)
        assert world.active is None
        world.database.deployments.request_deploy("owner", FLOW, deployment("01jz0000000000000000000001"))
        assert active(world).scaling is None


class TestLoadHistory:
    def beat(self, uptime_s: float, processed: int, cpu_s: float, scripts_cpu_s: float = 0.0) -> Heartbeat:
        counters: dict[CountType, int] = {"messages_received": processed}
        return Heartbeat(
            state="ready",
            spec_hash="h",
            counters=counters,
            uptime_s=uptime_s,
            cpu_s=cpu_s,
            scripts_cpu_s=scripts_cpu_s,
        )

    def test_the_busier_process_of_each_worker_counts(self) -> None:
        history = LoadHistory()
        history.add(0, 1, {"a": self.beat(0, 10, 1, 1), "b": self.beat(0, 10, 1, 1)})
        history.add(10, 2, {"a": self.beat(10, 20, 1, 4), "b": self.beat(10, 10, 2, 1)})
        samples = history.add(13, 3, {"a": self.beat(13, 25, 2, 4), "b": self.beat(13, 12, 2, 1)})
        assert [(each.at, each.lag) for each in samples] == [(10, 2), (13, 3)]
        assert samples[1].total_records - samples[0].total_records == pytest.approx(7)
        assert samples[1].busy_s - samples[0].busy_s == pytest.approx(1)

    def test_rates_follow_the_clock_of_the_worker(self) -> None:
        history = LoadHistory()
        history.add(0, 0, {"a": self.beat(0, 0, 0)})
        history.add(10, 0, {"a": self.beat(5, 500, 2)})
        history.add(13, 0, {"a": self.beat(5, 500, 2)})
        samples = history.add(16, 0, {"a": self.beat(10, 1_000, 4)})
        assert [each.total_records for each in samples] == pytest.approx([0, 300, 600])
        assert [each.busy_s for each in samples] == pytest.approx([0, 1.2, 2.4])

    def test_a_restarted_worker_begins_at_0(self) -> None:
        history = LoadHistory()
        history.add(0, 0, {"a": self.beat(100, 1_000, 50)})
        history.add(10, 0, {"a": self.beat(110, 1_100, 55)})
        samples = history.add(20, 0, {"a": self.beat(5, 30, 2)})
        assert samples[1].total_records - samples[0].total_records == pytest.approx(60)
        assert samples[1].busy_s - samples[0].busy_s == pytest.approx(4)

    def test_a_change_of_the_workers_begins_anew(self) -> None:
        history = LoadHistory()
        for at in (0, 10, 20):
            history.add(at, 0, {"a": self.beat(at, at, 0)})
        both = {"a": self.beat(30, 1, 0), "b": self.beat(1, 1, 0)}
        assert len(history.add(30, 0, both)) == 0
        assert len(history.add(33, 0, both)) == 0
        assert len(history.add(36, 0, both)) == 1

    def test_old_samples_are_dropped(self) -> None:
        history = LoadHistory()
        for at in range(0, 1_000, 10):
            samples = history.add(at, 0, {"a": self.beat(at, at, 0)})
        assert samples[0].at >= 990 - 120
