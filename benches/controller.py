"""Measures the CPU time of the controller's resync when nothing has changed.

`python -m benches.controller` runs it.

A thousand deployed configurations of 30 kB are in SQLite; workers are simulated in memory, and there is no Kafka. Every
five seconds one tick is a resync, which reads the database's versions, plans every deployment and compares the states
of the workers. The benchmark prints the CPU time of the process for that tick, and for all ticks of the five seconds.
The reference is reading all deployments with their configurations in the same run.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import typer

from headwater.brokers.base import DeploymentResources, TopicSpec
from headwater.controller.autoscaler import Autoscaler
from headwater.controller.controller import RESYNC_EVERY_S, TICK_S, Controller
from headwater.controller.deployment_resources import WorkerSettings
from headwater.controller.deployment_sources import Sources
from headwater.controller.executor import Executor
from headwater.controller.flow_locks import FlowLocks
from headwater.controller.leadership import Leadership
from headwater.controller.purger import Purger
from headwater.controller.reconciler import Reconciler
from headwater.controller.redrives import RedriveRunner
from headwater.controller.source_positions import SourcePositions
from headwater.controller.sweeper import Sweeper
from headwater.controller.topic_comparison import TopicComparison
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings
from headwater.model.deployment import Condition, Deployment
from headwater.model.flow import Flow, PipelineConfig
from headwater.stores.sql.database import Database, open_database
from headwater.stores.sql.encryption import FieldCipher
from tests.support.memory.broker import MemoryClusterAdmin
from tests.support.memory.metrics import MemoryMetrics
from tests.support.memory.orchestrator import MemoryOrchestrator
from tests.support.memory.redrives import MemoryRedriveOutcomes
from tests.support.memory.sets import MemoryDatasetNames, MemoryPendingSets, MemorySetStore
from tests.unit.controller.world import NOW, deployment, flow

TICKS = round(RESYNC_EVERY_S / TICK_S)
SETTLE_S = 75.0
"""This is longer than a revision's probation and than the first comparison of its partitions."""


class Clock:
    """A clock, in seconds, that only the benchmark advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def controller_of(database: Database, clock: Clock) -> Controller:
    """Return a controller whose broker, sets and workers are in memory."""
    broker, orchestrator, locks = MemoryClusterAdmin(), MemoryOrchestrator(), FlowLocks()
    broker.ensure(DeploymentResources((TopicSpec("stream.base.log", 4),), (), ()))
    sources = Sources(bindings=Bindings(), own_cluster=broker, active_deployments=database.deployments.list_active)
    leadership, sets = Leadership(database.leases, "bench", clock), MemorySetStore()
    metrics, outcomes = MemoryMetrics(), MemoryRedriveOutcomes()
    executor = Executor(
        own_cluster=broker,
        sources=sources,
        positions=SourcePositions(sources=sources, metrics=metrics, require_lease=leadership.require_lease),
        orchestrator=orchestrator,
        metrics=metrics,
        redrive_outcomes=outcomes,
        flow_locks=locks,
        require_lease=leadership.require_lease,
    )
    settings = WorkerSettings(KafkaAccess(bootstrap_servers="b"), "redis", jit=False)
    return Controller(
        leadership=leadership,
        stores=database,
        orchestrator=orchestrator,
        reconciler=Reconciler(
            orchestrator=orchestrator, executor=executor, settings=settings, sources=sources, clock=clock
        ),
        sweeper=Sweeper(
            own_cluster=broker,
            sources=sources,
            orchestrator=orchestrator,
            flow_locks=locks,
            deployments=database.deployments,
            revisions=database.revisions,
            datasets=database.datasets,
            dataset_names=MemoryDatasetNames(),
            sets=sets,
            pending_sets=MemoryPendingSets(),
            require_lease=leadership.require_lease,
            now=lambda: NOW,
        ),
        purger=Purger(database.flows, database.revisions, sets, leadership.require_lease),
        redrives=RedriveRunner(
            store=database.redrives,
            outcomes=outcomes,
            metrics=metrics,
            deployments=database.deployments,
            own_cluster=broker,
            sources=sources,
            orchestrator=orchestrator,
            flow_locks=locks,
            settings=settings,
            clock=clock,
            now=lambda: NOW,
        ),
        autoscaler=Autoscaler(
            deployments=database.deployments,
            orchestrator=orchestrator,
            sources=sources,
            clock=clock,
            now=lambda: NOW,
        ),
        topic_comparison=TopicComparison(own_cluster=broker, sources=sources),
        clock=clock,
        now=lambda: NOW,
    )


def fill(database: Database, count: int, script_bytes: int) -> None:
    """Create `count` configurations and request their deployment."""
    script = f"function process(record) {{ return record }} // {'x' * script_bytes}"
    body = flow().pipeline_config.model_dump(mode="json") | {
        "transforms": [{"uid": "t1", "type": "v8", "script": script}]
    }
    config = PipelineConfig.model_validate(body)
    for number in range(count):
        created: Flow = replace(flow(), id=f"01jz0000000000000000{number:06}", pipeline_config=config)
        database.flows.create(created)
        requested: Deployment = deployment(f"01jy0000000000000000{number:06}")
        database.deployments.request_deploy(created.owner, created.id, replace(requested, config_id=created.id))


def pass_time(controller: Controller, clock: Clock, seconds: float) -> None:
    """Run the ticks of so many seconds, and wait for the work that each tick starts."""
    for _ in range(round(seconds / TICK_S)):
        controller.tick()
        for work in controller._managed.values():
            if work.reconciliation is not None:
                work.reconciliation.exception()
        clock.now += TICK_S


def cpu_ms(work: Callable[[], object]) -> float:
    """Return the CPU time of `work` over all threads of this process, in ms."""
    started = time.process_time()
    work()
    return 1000 * (time.process_time() - started)


def measure(controller: Controller, clock: Clock) -> tuple[float, float]:
    """Return the CPU time of a resync period's most expensive tick, and of all its ticks.

    The times are in ms.
    """
    ticks = []
    for _ in range(TICKS):
        ticks.append(cpu_ms(controller.tick))
        pass_time(controller, clock, TICK_S)
    return max(ticks), sum(ticks)


def main(deployments: int = 1000, script_bytes: int = 30_000, rounds: int = 10) -> None:
    """Fill a database, wait until all deployments are stable, and measure resync periods."""
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{Path(folder) / 'headwater.db'}", FieldCipher(bytes(32)))
        fill(database, deployments, script_bytes)
        clock = Clock()
        controller = controller_of(database, clock)
        pass_time(controller, clock, SETTLE_S)
        assert {each.condition for each in database.deployments.active_versions()} == {Condition.STABLE}
        costs, all_ticks = zip(*(measure(controller, clock) for _ in range(rounds)), strict=True)
        reference = statistics.median(cpu_ms(database.deployments.list_active) for _ in range(5))
        stop = threading.Event()
        stop.set()
        controller.run(stop)
        database.close()
    median = statistics.median(costs)
    typer.echo(
        f"idle round over {deployments} deployments of {script_bytes / 1000:.0f} kB: {median:.1f} ms of CPU "
        f"(max {max(costs):.1f}); all ticks of {RESYNC_EVERY_S:.0f} s: {statistics.median(all_ticks):.1f} ms"
    )
    typer.echo(f"  reference: reading all of them {reference:.1f} ms; ratio {median / reference:.2f}")


if __name__ == "__main__":
    typer.run(main)
