"""Builds the controller and runs it."""

import signal
import threading
import time
from collections.abc import Callable, Collection
from datetime import timedelta

from headwater.app import worker
from headwater.app.data_directory import DataDirectory, require_platform
from headwater.app.database import connect_database
from headwater.app.endpoints import Endpoints
from headwater.app.environments import worker_environment
from headwater.app.memory import limit_malloc_arenas
from headwater.app.metrics_server import serve_metrics
from headwater.app.stream_bindings import load_bindings
from headwater.backoff import Backoff
from headwater.brokers.base import STREAM_TOPIC_CONFIG, ClusterAdmin, DeploymentResources, Subscriptions, TopicSpec
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.controller.controller import Controller
from headwater.controller.deployment_resources import WorkerSettings
from headwater.controller.executor import Executor
from headwater.controller.flow_locks import FlowLocks
from headwater.controller.leadership import Leadership
from headwater.controller.metrics_exporter import PipelineCollector
from headwater.controller.purger import Purger
from headwater.controller.reconcile import Reconciler
from headwater.controller.sources import Sources
from headwater.controller.sweeper import Sweeper
from headwater.errors import BrokerUnavailable
from headwater.model.access import PubSubAccess
from headwater.model.binding import Bindings
from headwater.model.stream import STREAM_PARTITIONS
from headwater.orchestrators.cgroups import find_groups
from headwater.orchestrators.process import ProcessOrchestrator
from headwater.sandbox import check as check_sandbox
from headwater.services.ids import utc_now
from headwater.settings import Settings
from headwater.stores.cleanup import remove_expired_filters
from headwater.stores.protocols.deployments import DeploymentStore
from headwater.stores.protocols.sets import SetStore
from headwater.stores.redis.client import connect
from headwater.stores.redis.dataset_names import RedisDatasetNames
from headwater.stores.redis.metrics import RedisMetrics
from headwater.stores.redis.sets.set_store import RedisSetStore
from headwater.stores.redis.sets.unsaved_sets import RedisUnsavedSets
from headwater.stores.sql.database import Database
from headwater.wait_log import WaitLog

METRICS_ANSWER_TIMEOUT_S = 2.0
"""The time-out for the removal of a deployment's metrics during a teardown."""


def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT.

    Raises SetupError, also when the sandbox can't be fully locked down here.
    """
    limit_malloc_arenas()
    require_platform()
    check_sandbox(jit=settings.v8_jit)
    data_directory = DataDirectory(settings.data_dir)
    endpoints = Endpoints(settings, data_directory)
    endpoints.create_data_directory()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with data_directory.locked("controller") as lock, connect_database(endpoints) as database:
        workers_kafka, manages_users = endpoints.worker_kafka(), endpoints.manages_kafka_users
        broker = KafkaClusterAdmin(
            endpoints.kafka(), endpoints.replication(), workers_kafka, manages_users=manages_users
        )
        bindings = load_bindings(settings)
        if endpoints.embeds_kafka:
            create_topics(broker, stream_topics(bindings), stop)
        sources = sources_of(bindings, broker, database.deployments)
        client = endpoints.set_store()
        sets = RedisSetStore(client)
        memory_limit = settings.worker_memory_mb << 20
        orchestrator = ProcessOrchestrator(
            data_directory.workers,
            worker.command,
            memory_limit,
            environment=worker_environment(bindings, workers_kafka),
            groups=find_groups(data_directory.workers, memory_limit),
        )
        flow_locks = FlowLocks()
        leadership = Leadership(database.leases, lock, boot_time_s)
        metrics = RedisMetrics(connect(endpoints.redis_url(), answer_timeout_s=METRICS_ANSWER_TIMEOUT_S))
        reconciler = Reconciler(
            orchestrator=orchestrator,
            executor=Executor(
                broker=broker,
                sources=sources,
                orchestrator=orchestrator,
                metrics=metrics,
                flow_locks=flow_locks,
                require_lease=leadership.require_lease,
            ),
            settings=WorkerSettings(workers_kafka, endpoints.redis_url(), settings.v8_jit, manages_users),
            sources=sources,
            clock=time.monotonic,
        )
        purger = Purger(database.flows, database.revisions, sets, leadership.require_lease)
        sweeper = Sweeper(
            broker=broker,
            sources=sources,
            orchestrator=orchestrator,
            flow_locks=flow_locks,
            deployments=database.deployments,
            revisions=database.revisions,
            datasets=database.datasets,
            names=RedisDatasetNames(client),
            sets=sets,
            unsaved_sets=RedisUnsavedSets(client),
            require_lease=leadership.require_lease,
            now=utc_now,
            purges=_purges(database, sets, settings),
            ended_for=timedelta(days=settings.ended_deployment_days) if settings.ended_deployment_days else None,
        )
        try:
            collector = PipelineCollector(orchestrator, sources.lag, lambda: sweeper.unknown.deployments)
            with serve_metrics(settings.metrics_port, collector, "--metrics-port"):
                Controller(
                    leadership=leadership,
                    stores=database,
                    orchestrator=orchestrator,
                    reconciler=reconciler,
                    sweeper=sweeper,
                    purger=purger,
                    clock=time.monotonic,
                ).run(stop)
        finally:
            orchestrator.close()


def boot_time_s() -> float:
    """Return the seconds since the machine was booted, including the time in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _purges(database: Database, sets: SetStore, settings: Settings) -> list[Callable[[], None]]:
    """Return the steps of the sweeper that remove expired data.

    They remove audit entries, stored responses and filter values.
    """

    def purge_audit() -> None:
        if settings.audit_days:
            database.audit.purge(utc_now() - timedelta(days=settings.audit_days))

    def purge_calls() -> None:
        database.idempotency.purge(utc_now())

    def purge_removed_filters() -> None:
        kept_since = utc_now() - timedelta(days=settings.removed_filter_days)
        remove_expired_filters(database.revisions, sets, kept_since)

    return [purge_audit, purge_calls, purge_removed_filters]


def sources_of(bindings: Bindings, broker: ClusterAdmin, deployments: DeploymentStore) -> Sources:
    """Return the sources of these bindings, with clients for their clusters and projects."""
    clusters = {access: KafkaClusterAdmin(access, 1) for access in bindings.kafka_accesses()}
    return Sources(
        bindings=bindings,
        broker=broker,
        unfinished=deployments.unfinished,
        clusters=clusters,
        projects=_projects(bindings.pubsub_accesses()),
    )


def _projects(accesses: Collection[PubSubAccess]) -> dict[PubSubAccess, Subscriptions]:
    if not accesses:
        return {}
    from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions  # an extra of the package

    return {access: PubSubSubscriptions(access) for access in accesses}


def stream_topics(bindings: Bindings) -> tuple[TopicSpec, ...]:
    """Return the topics of the streams, as they are created on the embedded broker."""
    return tuple(TopicSpec(topic, STREAM_PARTITIONS, STREAM_TOPIC_CONFIG) for _, topic in bindings.own_topics())


def create_topics(broker: ClusterAdmin, topics: tuple[TopicSpec, ...], stop: threading.Event) -> None:
    """Create missing topics, and wait until the broker knows all of them.

    Waits while the broker is unavailable.
    """
    backoff, wait_log = Backoff(0.1, 2.0), WaitLog("the start waits for Kafka")
    while not stop.is_set():
        try:
            broker.ensure(DeploymentResources(topics, (), (), ()))
            missing = [topic.name for topic in topics if not broker.partitions(topic.name)]
            if not missing:  # consumers would treat a missing topic as an error
                return
            wait_log.log_if_due(reason="Kafka does not have all topics yet.", missing=missing)
        except BrokerUnavailable as error:
            wait_log.log_if_due(reason=error.detail)
        stop.wait(backoff.next_delay_s())
