"""Builds the controller and runs it."""

import time
from collections.abc import Callable
from datetime import timedelta

from prometheus_client import CollectorRegistry

from headwater.app import build_worker
from headwater.app.build_orchestrator import build_orchestrator
from headwater.app.data_directory import require_platform
from headwater.app.database import connect_database
from headwater.app.endpoints import Endpoints
from headwater.app.environments import worker_environment
from headwater.app.memory import limit_malloc_arenas
from headwater.app.metrics_server import serve_metrics
from headwater.app.source_clients import connect_sources
from headwater.app.span_exporter import connect_span_exporter
from headwater.app.stop_signals import stop_on_signals
from headwater.app.stream_bindings import load_bindings
from headwater.app.topics import create_topics, stream_topics
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.controller.autoscaler import Autoscaler
from headwater.controller.controller import Controller
from headwater.controller.controller_collector import ControllerCollector
from headwater.controller.deployment_resources import WorkerSettings
from headwater.controller.executor import Executor
from headwater.controller.flow_locks import FlowLocks
from headwater.controller.leadership import Leadership
from headwater.controller.pipeline_collector import PipelineCollector
from headwater.controller.purger import Purger
from headwater.controller.reconciler import Reconciler
from headwater.controller.redrives import RedriveRunner
from headwater.controller.rollout_traces import RolloutTraces
from headwater.controller.source_positions import SourcePositions
from headwater.controller.sweeper import Sweeper
from headwater.controller.topic_comparison import TopicComparison
from headwater.prices.source import GROUP as PRICES_GROUP
from headwater.sandbox import check_machine
from headwater.services.ids import utc_now
from headwater.settings import Settings
from headwater.stores.cleanup import remove_expired_filters
from headwater.stores.protocols.sets import SetStore
from headwater.stores.redis.client import connect
from headwater.stores.redis.dataset_names import RedisDatasetNames
from headwater.stores.redis.metrics import RedisMetrics
from headwater.stores.redis.redrives import RedisRedriveOutcomes
from headwater.stores.redis.sets.pending_sets import RedisPendingSets
from headwater.stores.redis.sets.set_store import RedisSetStore
from headwater.stores.sql.database import Database

METRICS_TIMEOUT_S = 2.0
"""The timeout of each call to the stores of metrics and of redrive outcomes.

It is short, so that a teardown or a redrive does not wait long for an unavailable Valkey or Redis.
"""


def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT.

    Raises SetupError, also when workers run on this machine and the sandbox can't be fully locked down there.
    """
    limit_malloc_arenas()
    require_platform()
    if settings.orchestrator == "process":
        check_machine(jit=settings.v8_jit)
    span_exporter = connect_span_exporter(settings, "headwater-controller")
    endpoints = Endpoints.from_settings(settings)
    data_directory = endpoints.data_directory
    endpoints.require_embedded_data()
    data_directory.create()
    stop = stop_on_signals()
    with data_directory.locked("controller") as lock_id, connect_database(endpoints) as database:
        workers_kafka, manages_users = endpoints.worker_kafka_access(), endpoints.manages_kafka_users
        own_cluster = KafkaClusterAdmin(
            endpoints.admin_kafka_access(),
            workers_kafka,
            replication=endpoints.replication(),
            manages_users=manages_users,
        )
        bindings = load_bindings(settings)
        if endpoints.embeds_kafka:
            create_topics(own_cluster, stream_topics(bindings), stop)
        sources = connect_sources(bindings, own_cluster, database.deployments)
        client = endpoints.connect_redis()
        sets = RedisSetStore(client)
        orchestrator = build_orchestrator(
            settings, data_directory.workers, build_worker.command, worker_environment(bindings, workers_kafka)
        )
        flow_locks = FlowLocks()
        leadership = Leadership(database.leases, lock_id, seconds_since_boot)
        metrics_client = connect(endpoints.redis_url(), reply_timeout_s=METRICS_TIMEOUT_S)
        metrics, outcomes = RedisMetrics(metrics_client), RedisRedriveOutcomes(metrics_client)
        worker_settings = WorkerSettings(workers_kafka, endpoints.redis_url(), settings.v8_jit, manages_users)
        reconciler = Reconciler(
            orchestrator=orchestrator,
            executor=Executor(
                own_cluster=own_cluster,
                sources=sources,
                positions=SourcePositions(sources=sources, metrics=metrics, require_lease=leadership.require_lease),
                orchestrator=orchestrator,
                metrics=metrics,
                redrive_outcomes=outcomes,
                flow_locks=flow_locks,
                require_lease=leadership.require_lease,
                traces=RolloutTraces(span_exporter),
            ),
            settings=worker_settings,
            sources=sources,
            clock=time.monotonic,
        )
        redrives = RedriveRunner(
            store=database.redrives,
            outcomes=outcomes,
            metrics=metrics,
            deployments=database.deployments,
            own_cluster=own_cluster,
            sources=sources,
            orchestrator=orchestrator,
            flow_locks=flow_locks,
            settings=worker_settings,
            clock=time.monotonic,
            now=utc_now,
        )
        autoscaler = Autoscaler(
            deployments=database.deployments,
            orchestrator=orchestrator,
            sources=sources,
            clock=time.monotonic,
            now=utc_now,
        )
        purger = Purger(database.flows, database.revisions, sets, leadership.require_lease)
        sweeper = Sweeper(
            own_cluster=own_cluster,
            sources=sources,
            orchestrator=orchestrator,
            flow_locks=flow_locks,
            deployments=database.deployments,
            revisions=database.revisions,
            datasets=database.datasets,
            dataset_names=RedisDatasetNames(client),
            sets=sets,
            pending_sets=RedisPendingSets(client),
            require_lease=leadership.require_lease,
            now=utc_now,
            revisions_kept=settings.revisions_kept,
            remove_expired=_expiry_steps(database, sets, settings),
            ended_deployments_kept_for=_ended_deployments_kept_for(settings),
        )
        try:
            controller = Controller(
                leadership=leadership,
                stores=database,
                orchestrator=orchestrator,
                reconciler=reconciler,
                sweeper=sweeper,
                purger=purger,
                redrives=redrives,
                autoscaler=autoscaler,
                topic_comparison=TopicComparison(own_cluster=own_cluster, sources=sources),
                clock=time.monotonic,
                now=utc_now,
            )
            collectors = CollectorRegistry()
            collectors.register(PipelineCollector(orchestrator, sources.lag, lambda: sweeper.unknown.deployment_ids))
            collectors.register(ControllerCollector(controller, orchestrator, sources.lag, PRICES_GROUP))
            with serve_metrics(settings.metrics_port, collectors, "--metrics-port", settings.metrics_host):
                controller.run(stop)
        finally:
            orchestrator.close()


def seconds_since_boot() -> float:
    """Return the seconds since the machine was booted, including the time in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _ended_deployments_kept_for(settings: Settings) -> timedelta | None:
    days = settings.ended_deployment_days
    return timedelta(days=days) if days else None


def _expiry_steps(database: Database, sets: SetStore, settings: Settings) -> list[Callable[[], None]]:
    """Return the steps of the sweeper that remove expired data.

    The data are audit entries, stored responses, sign-ins and the values of removed filters.
    """

    def remove_audit_entries() -> None:
        if settings.audit_days:
            database.audit.purge(utc_now() - timedelta(days=settings.audit_days))

    def remove_stored_responses() -> None:
        database.idempotency.purge(utc_now())

    def remove_sign_ins() -> None:
        database.sign_ins.remove_expired(utc_now())

    def remove_filter_values() -> None:
        kept_since = utc_now() - timedelta(days=settings.removed_filter_days)
        remove_expired_filters(database.revisions, sets, kept_since)

    return [remove_audit_entries, remove_stored_responses, remove_sign_ins, remove_filter_values]
