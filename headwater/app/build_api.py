"""Builds an API process and runs it."""

import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from headwater.api.app import create_api, end_waits
from headwater.api.dependencies import Services
from headwater.app.data_directory import require_platform
from headwater.app.database import connect_database
from headwater.app.endpoints import Endpoints
from headwater.app.http_server import ApiServer, allow_open_files, origins_of, server_config
from headwater.app.memory import limit_malloc_arenas, tune_server_memory
from headwater.app.redacted_names import names_to_redact
from headwater.app.span_exporter import connect_span_exporter
from headwater.app.stream_bindings import load_bindings
from headwater.brokers.base import ClusterAdmin
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.brokers.kafka_tail_reader import KafkaTailReader
from headwater.brokers.kafka_topic_history import KafkaTopicHistory
from headwater.controller.leadership import CONTROLLER_LEASE
from headwater.errors import BrokerUnavailable, OrchestratorUnavailable
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings, KafkaTopic
from headwater.model.flow import Source
from headwater.model.price.tick import TICKS_TOPIC
from headwater.model.sink import SinkLimits
from headwater.prices.source import GROUP as PRICES_GROUP
from headwater.sandbox import trial_sandbox, validate_script
from headwater.services.applied_versions import AppliedVersions
from headwater.services.audit import AuditedSets
from headwater.services.datasets import Datasets
from headwater.services.dead_letters import DeadLetters
from headwater.services.deployment_metrics import DeploymentMetrics
from headwater.services.deployments import Deployments, KafkaEndpoint, Login
from headwater.services.filters import Filters
from headwater.services.flows import Flows, FlowStores
from headwater.services.idempotency import IdempotencyService
from headwater.services.ids import new_id, utc_now
from headwater.services.keys import Keys
from headwater.services.lag_cache import LagCache
from headwater.services.overview import Overview
from headwater.services.pipeline_checker import PipelineChecker
from headwater.services.price_details import PriceDetails
from headwater.services.prices import Prices
from headwater.services.prices_workers import PricesWorkers
from headwater.services.quotas import QuotaEnforcingSets, QuotaStores
from headwater.services.rate_limits import RateLimits
from headwater.services.records import Records
from headwater.services.redaction import redactor
from headwater.services.redrives import Redrives
from headwater.services.revisions import Revisions
from headwater.services.samples import Samples
from headwater.services.sign_in import SignIns
from headwater.services.tail_connections import TailLimits, Tails
from headwater.services.trials import Trials, TrialStores
from headwater.services.viewable_topics import ViewableTopics
from headwater.settings import Settings
from headwater.stores.protocols.leases import Leases
from headwater.stores.redis.client import Client, connect
from headwater.stores.redis.dataset_names import RedisDatasetNames
from headwater.stores.redis.metrics import RedisMetrics
from headwater.stores.redis.prices import RedisPrices
from headwater.stores.redis.redrives import RedisRedriveOutcomes
from headwater.stores.redis.reservations import RedisReservations
from headwater.stores.redis.sets.pending_sets import RedisPendingSets
from headwater.stores.redis.sets.set_store import RedisSetStore
from headwater.stores.redis.sets.set_versions import RedisSetVersions
from headwater.stores.redis.tail_slots import RedisTailSlots
from headwater.stores.redis.token_buckets import RedisTokenBuckets
from headwater.stores.sql.database import Database
from headwater.transforms import TRANSFORMS
from headwater.transforms.base import TransformContext

PASSWORD_BYTES = 24
RATE_LIMIT_TIMEOUT_S = 0.5
"""The timeout of the rate limits' store.

After a timeout, a request is executed uncounted, or gets 503 when it may change a deployment.
"""
METRICS_READ_TIMEOUT_S = 2.0
"""The timeout of reads of metrics. `deploy/stats` must respond even while Valkey or Redis is unavailable."""
SWITCH_INTERVAL_S = 0.001
"""Python's switch interval: how long the thread of an upload may keep the GIL while other requests wait."""


def serve(settings: Settings, fd: int | None) -> None:
    """Serve until SIGTERM or SIGINT, on the inherited listening socket `fd` if it is given.

    Raises SetupError.
    """
    limit_malloc_arenas()
    require_platform()
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again after the last request. Without this handler, the process would end with the
        # status of a signal, which looks like a crash.
        signal.signal(number, lambda *_: sys.exit(0))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    endpoints = Endpoints.from_settings(settings)
    endpoints.require_embedded_data()
    endpoints.data_directory.create()
    allow_open_files(settings.http_connections)
    with connect_database(endpoints) as database:
        app = create_api(_services(endpoints, database, endpoints.connect_redis()))
        config = server_config(app, settings, app.state.metrics.record_refusal)
        sockets = None if fd is None else [socket.socket(fileno=fd)]
        tune_server_memory()
        ApiServer(config, app.state.services.tails.end_all, partial(end_waits, app)).run(sockets)


def _services(endpoints: Endpoints, database: Database, client: Client) -> Services:
    settings = endpoints.settings
    bindings = load_bindings(settings)
    own_cluster = KafkaClusterAdmin(endpoints.admin_kafka_access(), replication=endpoints.replication())
    admins: dict[KafkaAccess | None, ClusterAdmin] = {
        access: KafkaClusterAdmin(access) for access in bindings.kafka_accesses()
    }
    admins[None] = own_cluster
    probe_topic = next((topic for _, topic in bindings.installation_topics()), TICKS_TOPIC)
    metrics = RedisMetrics(connect(endpoints.redis_url(), reply_timeout_s=METRICS_READ_TIMEOUT_S))
    accesses: dict[KafkaAccess | None, KafkaAccess] = {access: access for access in bindings.kafka_accesses()}
    accesses[None] = endpoints.admin_kafka_access()
    histories = {key: KafkaTopicHistory(access) for key, access in accesses.items()}
    outcomes = RedisRedriveOutcomes(client)
    quotas = QuotaStores(database.quotas, RedisSetStore(client), RedisReservations(client))
    sets, names = QuotaEnforcingSets(quotas), RedisDatasetNames(client)
    audited = AuditedSets(sets, database.audit)
    filters = Filters(database.flows, database.deployments, audited)
    datasets = Datasets(store=database.datasets, names=names, sets=audited, now=utc_now, new_id=new_id)
    sink_limits = SinkLimits(
        settings.sink_max_partitions, settings.sink_max_retention_days, settings.sink_max_retention_bytes
    )
    checker = PipelineChecker(
        bindings=bindings,
        validate_script=partial(validate_script, jit=settings.v8_jit),
        transform_types=TRANSFORMS,
        new_id=new_id,
        sink_limits=sink_limits,
    )

    @contextmanager
    def open_context(owner: str) -> Iterator[TransformContext]:
        with trial_sandbox(jit=settings.v8_jit) as sandbox:
            yield TransformContext("", owner, sets, names, sandbox)

    price_store = RedisPrices(client)
    prices = Prices(price_store, utc_now, filter_outliers=settings.price_filter)
    keys = Keys(database.keys, utc_now, time.monotonic)
    deployments = Deployments(
        flows=database.flows,
        store=database.deployments,
        now=utc_now,
        new_id=new_id,
        new_password=lambda: secrets.token_urlsafe(PASSWORD_BYTES),
        redact=redactor(names_to_redact(endpoints, bindings)),
        manages_users=endpoints.manages_kafka_users,
        source_ends=partial(_source_ends, bindings, admins),
    )
    return Services(
        keys=keys,
        sign_ins=SignIns(database.sign_ins, keys, utc_now),
        idempotency=IdempotencyService(database.idempotency, utc_now),
        flows=Flows(
            FlowStores(database.flows, database.revisions, sets, RedisPendingSets(client)), checker, utc_now, new_id
        ),
        revisions=Revisions(database.revisions),
        trials=Trials(
            stores=TrialStores(database.flows, database.deployments, database.revisions.get),
            samples=Samples(bindings, histories, time.monotonic),
            checker=checker,
            transform_types=TRANSFORMS,
            open_context=open_context,
            now=utc_now,
            clock=time.monotonic,
        ),
        deployments=deployments,
        deployment_metrics=DeploymentMetrics(
            store=metrics,
            bindings=bindings,
            read_lag=lambda access, group: admins[access].lag([group]).get(group),
            read_ends=lambda access, topic: admins[access].topic_offsets(topic, "latest"),
            now=utc_now,
        ),
        overview=Overview(
            store=database.overview,
            metrics=metrics,
            bindings=bindings,
            lags=LagCache(
                lambda access, groups: admins[access].lag(groups),
                lambda access, topic: admins[access].topic_offsets(topic, "latest"),
                list(admins),
            ),
            now=utc_now,
        ),
        dead_letters=DeadLetters(histories[None], metrics, outcomes, time.monotonic),
        redrives=Redrives(
            store=database.redrives,
            outcomes=outcomes,
            history=histories[None],
            now=utc_now,
            new_id=new_id,
            clock=time.monotonic,
        ),
        filters=filters,
        datasets=datasets,
        applied=AppliedVersions(
            filters=filters, datasets=datasets, deployments=database.deployments, versions=RedisSetVersions(client)
        ),
        prices=prices,
        price_details=PriceDetails(price_store, prices, utc_now, filter_outliers=settings.price_filter),
        prices_workers=PricesWorkers(lambda: own_cluster.groups().get(PRICES_GROUP, False)),
        quota_stores=quotas,
        viewable_topics=ViewableTopics(bindings, deployments.get_not_terminating),
        records=Records(histories, time.monotonic),
        tails=Tails(
            readers={key: KafkaTailReader(access) for key, access in accesses.items()},
            slots=RedisTailSlots(client),
            limits=TailLimits(settings.live_tails, settings.live_tails_per_owner, settings.live_tail_idle_s),
            is_live_key=keys.is_live,
            progress=deployments.progress,
            new_id=new_id,
            clock=time.monotonic,
        ),
        bindings=bindings,
        kafka=_reader_endpoint(endpoints),
        rate_limits=_rate_limits(endpoints),
        probes={
            "database": database.change_counter.value,
            "set_store": lambda: client.call("PING"),
            "broker": lambda: own_cluster.ping(probe_topic),
            "controller": lambda: _require_leader(database.leases),
        },
        has_leader=partial(_has_leader, database.leases),
        deploy_timeout_s=settings.deploy_timeout_s,
        invalid_keys_per_minute=settings.http_failed_keys,
        cors_origins=origins_of(settings.cors_origins),
        metrics_dir=_metrics_dir(),
        span_exporter=connect_span_exporter(settings, "headwater-api"),
    )


def _source_ends(
    bindings: Bindings, admins: Mapping[KafkaAccess | None, ClusterAdmin], source: Source
) -> Mapping[int, int] | None:
    """Return the next offset of each partition of a source; None for a source on Pub/Sub.

    Raises BrokerUnavailable, also when the topic does not exist.
    """
    binding = bindings.find(source.chain, source.entity, zerolag=source.is_zerolag)
    if not isinstance(binding, KafkaTopic):
        return None
    ends = admins[binding.access].topic_offsets(binding.topic, "latest")
    if ends is None:
        raise BrokerUnavailable(f"The source topic {binding.topic} does not exist.")
    return ends.offsets


def _rate_limits(endpoints: Endpoints) -> RateLimits | None:
    settings = endpoints.settings
    if not settings.rate_limit:
        return None
    client = connect(endpoints.redis_url(), reply_timeout_s=RATE_LIMIT_TIMEOUT_S)
    return RateLimits(RedisTokenBuckets(client), settings.rate_limit, settings.rate_burst)


def _reader_endpoint(endpoints: Endpoints) -> KafkaEndpoint:
    """Return how readers connect to Kafka, for the response of a deploy."""
    readers = endpoints.reader_kafka_access()
    return KafkaEndpoint(
        readers.bootstrap_servers,
        readers.security_protocol,
        readers.sasl_mechanism if readers.uses_sasl else None,
        None if endpoints.manages_kafka_users else Login(readers.username or None, readers.password or None),
    )


def _has_leader(leases: Leases) -> bool:
    return leases.leader(CONTROLLER_LEASE) is not None


def _require_leader(leases: Leases) -> None:
    leader = leases.leader(CONTROLLER_LEASE)
    if leader is None:
        raise OrchestratorUnavailable(
            "No controller is running, so deployments do not change. Start `headwater controller`."
        )
    if leader.current_failure:
        raise OrchestratorUnavailable(
            f"Part of the controller's work fails ({leader.current_failure}). See the log of the controller."
        )


def _metrics_dir() -> Path | None:
    directory = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    return Path(directory) if directory else None
