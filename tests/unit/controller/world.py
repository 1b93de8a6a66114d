"""The dependencies of a controller in memory, a controller, and a test clock."""

from datetime import UTC, datetime, timedelta

from headwater.brokers.base import DeploymentResources, TopicSpec
from headwater.controller.autoscaler import Autoscaler
from headwater.controller.controller import Controller
from headwater.controller.deployment_resources import WorkerSettings
from headwater.controller.deployment_sources import Sources
from headwater.controller.executor import Executor
from headwater.controller.flow_locks import FlowLocks
from headwater.controller.leadership import Leadership
from headwater.controller.purger import Purger
from headwater.controller.reconciler import Reconciler
from headwater.controller.redrives import RedriveRunner
from headwater.controller.rollout_traces import RolloutTraces
from headwater.controller.source_positions import SourcePositions
from headwater.controller.sweeper import Sweeper
from headwater.controller.topic_comparison import TopicComparison
from headwater.model.access import KafkaAccess, PubSubAccess
from headwater.model.binding import Bindings
from headwater.model.deployment import Deployment, DesiredPhase
from headwater.model.flow import Flow, PipelineConfig
from tests.support.memory.broker import MemoryClusterAdmin, MemorySubscriptions
from tests.support.memory.metrics import MemoryMetrics
from tests.support.memory.orchestrator import MemoryOrchestrator
from tests.support.memory.redrives import MemoryRedriveOutcomes
from tests.support.memory.sets import MemoryDatasetNames, MemoryPendingSets, MemorySetStore
from tests.support.memory.span_exporter import MemorySpanExporter
from tests.support.sql import fresh_database

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOCK = "the data directory's lock"
TOPIC = "stream.base.log"
ACCESS = PubSubAccess(project="project")
FLOW, DEPLOYMENT = "01jz000000000000000000f100", "01jz0000000000000000000000"


def flow() -> Flow:
    config = PipelineConfig.model_validate(
        {
            "source": {"type": "pubsub", "chain": "base", "entity": "log"},
            "transforms": [{"uid": "t1", "type": "redis_set_filter", "filter_expr": "root = this.address"}],
            "sinks": [{"uid": "s1", "type": "kafka", "name": "out"}],
        }
    )
    return Flow(FLOW, "owner", "name", "", (), config, 1, NOW, NOW)


def deployment(deployment_id: str = DEPLOYMENT) -> Deployment:
    return Deployment(
        id=deployment_id,
        config_id=FLOW,
        owner="owner",
        config=flow().pipeline_config,
        desired=DesiredPhase.RUNNING,
        desired_revision=1,
        generation=1,
        reader_password="reads",
        worker_password="works",
        created_at=NOW,
    )


class World:
    """The dependencies that outlive a controller, and a controller."""

    def __init__(self, *, auto: bool = True, bindings: Bindings | None = None, manages_users: bool = True) -> None:
        self.bindings = bindings or Bindings()
        self.cluster = MemoryClusterAdmin()
        self.project = MemorySubscriptions(ACCESS.project)
        self.now = 0.0
        self.database = fresh_database()
        self.broker = MemoryClusterAdmin(manages_users=manages_users)
        self.sets = MemorySetStore()
        self.names = MemoryDatasetNames()
        self.metrics = MemoryMetrics()
        self.outcomes = MemoryRedriveOutcomes()
        self.span_exporter = MemorySpanExporter()
        self.auto = auto
        self.broker.ensure(DeploymentResources((TopicSpec(TOPIC, 4),), (), ()))
        self.start_controller()

    def start_controller(self) -> None:
        """Replace the controller and its workers, as after a kill."""
        self.orchestrator, flow_locks = MemoryOrchestrator(auto=self.auto), FlowLocks()
        self.leadership = Leadership(self.database.leases, LOCK, lambda: self.now)
        settings = WorkerSettings(KafkaAccess(bootstrap_servers="b"), "redis", False, self.broker.manages_users)
        clusters = dict.fromkeys(self.bindings.kafka_accesses(), self.cluster)
        sources = Sources(
            bindings=self.bindings,
            own_cluster=self.broker,
            active_deployments=self.database.deployments.list_active,
            clusters=clusters,
            projects={ACCESS: self.project},
        )
        confirm = self.leadership.require_lease
        executor = Executor(
            own_cluster=self.broker,
            sources=sources,
            positions=SourcePositions(sources=sources, metrics=self.metrics, require_lease=confirm),
            orchestrator=self.orchestrator,
            metrics=self.metrics,
            redrive_outcomes=self.outcomes,
            flow_locks=flow_locks,
            require_lease=confirm,
            traces=RolloutTraces(self.span_exporter),
        )
        reconciler = Reconciler(
            orchestrator=self.orchestrator,
            executor=executor,
            settings=settings,
            sources=sources,
            clock=lambda: self.now,
        )
        redrives = RedriveRunner(
            store=self.database.redrives,
            outcomes=self.outcomes,
            metrics=self.metrics,
            deployments=self.database.deployments,
            own_cluster=self.broker,
            sources=sources,
            orchestrator=self.orchestrator,
            flow_locks=flow_locks,
            settings=settings,
            clock=lambda: self.now,
            now=lambda: NOW,
        )
        purger = Purger(self.database.flows, self.database.revisions, self.sets, confirm)
        self.sweeper = Sweeper(
            own_cluster=self.broker,
            sources=sources,
            orchestrator=self.orchestrator,
            flow_locks=flow_locks,
            deployments=self.database.deployments,
            revisions=self.database.revisions,
            datasets=self.database.datasets,
            dataset_names=self.names,
            sets=self.sets,
            pending_sets=MemoryPendingSets(),
            require_lease=self.leadership.require_lease,
            now=lambda: NOW,
        )
        autoscaler = Autoscaler(
            deployments=self.database.deployments,
            orchestrator=self.orchestrator,
            sources=sources,
            clock=lambda: self.now,
            now=lambda: NOW + timedelta(seconds=self.now),
        )
        self.controller = Controller(
            leadership=self.leadership,
            stores=self.database,
            orchestrator=self.orchestrator,
            reconciler=reconciler,
            sweeper=self.sweeper,
            purger=purger,
            redrives=redrives,
            autoscaler=autoscaler,
            topic_comparison=TopicComparison(own_cluster=self.broker, sources=sources),
            clock=lambda: self.now,
            now=lambda: NOW,
        )

    def deploy(self) -> Deployment:
        self.database.flows.create(flow())
        return self.database.deployments.request_deploy("owner", FLOW, deployment())

    def run(self, ticks: int = 30, step_s: float = 0.5) -> None:
        """Advance the clock.

        Rounds run on threads, so each tick waits for the rounds that it has started.
        """
        for _ in range(ticks):
            self.controller.tick()
            if self.controller._sweeping is not None:
                self.controller._sweeping.result(10)
            if self.controller._purging is not None:
                self.controller._purging.exception(10)
            if self.controller._redriving is not None:
                self.controller._redriving.exception(10)
            if self.controller._scaling is not None:
                self.controller._scaling.exception(10)
            if self.controller._comparing is not None:
                self.controller._comparing.exception(10)
            for work in self.controller._managed.values():
                if work.reconciliation is not None:
                    work.reconciliation.exception(10)
            self.now += step_s

    def pass_time(self, seconds: int) -> None:
        """Advance the clock: in short steps for what a change begins, and then in long steps."""
        self.run(ticks=10)
        self.run(ticks=(seconds - 5) * 2 // 5, step_s=2.5)

    def stabilize(self) -> None:
        """Advance the clock until a new revision is stable."""
        self.run(ticks=5)
        self.run(ticks=9, step_s=5.0)

    @property
    def active(self) -> Deployment | None:
        return self.database.deployments.active(FLOW)
