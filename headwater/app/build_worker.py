"""Builds a worker from its spec file and runs it."""

import argparse
import os
import secrets
import signal
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import structlog
from pydantic import ValidationError

from headwater.app.memory import tune_worker_memory
from headwater.app.stop_signals import STOP_SIGNALS, stop_on_signals
from headwater.app.worker_in_pod import run_in_pod
from headwater.brokers.leader_check import LeaderCheck
from headwater.children import lower_priority
from headwater.engine.at_least_once import AtLeastOnce
from headwater.engine.dead_letter_writer import DeadLetterWriter
from headwater.engine.delivery import Delivery
from headwater.engine.exactly_once import HANGS_AFTER_S, ExactlyOnce
from headwater.engine.heartbeat import HeartbeatReporter
from headwater.engine.metrics.event_time import EventTime
from headwater.engine.metrics.metrics_writer import MetricsWriter
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics, TimedLookup
from headwater.engine.orchestrator_channel import NoOrchestrator, OrchestratorChannel, SocketPairChannel
from headwater.engine.pipeline import build_transforms
from headwater.engine.redrive import DeadLetterTotalsStore, RedriveDelivery
from headwater.engine.set_versions import DatasetTracker, SetVersionReader
from headwater.engine.watchdog import Watchdog
from headwater.engine.worker import Worker
from headwater.errors import Fenced, HeadwaterError, SetupError
from headwater.logging_setup import configure_logging
from headwater.model.dead_letter import REDRIVEN_HEADER
from headwater.model.deployment import transactional_id_prefix
from headwater.model.reading_plan import READ_ALL, PartitionPosition, ReadingPlan
from headwater.model.record import Headers
from headwater.model.redrive import RedriveSpec
from headwater.model.value_sets import filter_set_id
from headwater.model.worker_protocol import FENCED_STATUS
from headwater.model.worker_spec import PubSubPull, WorkerSpec
from headwater.sandbox import Sandbox
from headwater.sinks import SINKS
from headwater.sinks.idempotent_producer import IdempotentKafkaProducer
from headwater.sinks.stalled_producer import StalledProducerDetector
from headwater.sinks.transactional_producer import TransactionalKafkaProducer
from headwater.sources import SOURCES
from headwater.sources.base import Source
from headwater.sources.dead_letter_source import DeadLetterSource
from headwater.stores.protocols.redrives import RedriveOutcomeStore
from headwater.stores.redis.client import connect
from headwater.stores.redis.dataset_names import RedisDatasetNames
from headwater.stores.redis.metrics import RedisMetrics
from headwater.stores.redis.redrives import RedisRedriveOutcomes
from headwater.stores.redis.sets.lookup import RedisSetLookup
from headwater.stores.redis.sets.set_versions import RedisSetVersions
from headwater.transforms import TRANSFORMS
from headwater.transforms.base import TransformContext

log = structlog.get_logger(__name__)

FAILED = 1
REDRIVE_SLOT = "redrive"
"""Takes the place of the slot number in the instance id and the transactional id of a redrive's worker."""
REDRIVE_NICE = 15
"""How much the niceness of a redrive's worker and of its scripts exceeds that of the pipeline's workers."""
METRICS_WRITE_TIMEOUT_S = 1.0
"""The timeout of a write of metrics, which delays the records while the store is unavailable.

With a shorter timeout, writes would also fail on a busy machine. The counts of a failed write wait for the next write,
and are lost when the worker is killed before it.
"""
TRANSACTION_HANGS = (
    f"A transaction call of the Kafka client has not returned for {HANGS_AFTER_S} s. The next worker reads the records "
    "of the transaction again."
)
MAX_LOOKUP_DURATIONS = 100_000
SWITCH_INTERVAL_S = 0.0005
"""Python's switch interval. It is short, so that the thread that receives responses of Valkey soon gets the GIL."""


def command(spec: Path, slot: int, control_fd: int, reading_plan: ReadingPlan = READ_ALL) -> list[str]:
    """Return the command line with which the process orchestrator starts a worker.

    The command runs `headwater.app.worker_main` instead of the CLI, which saves each worker 0.25 s of imports.

    Args:
        spec: The file with the spec of the worker.
        slot: The number of the worker among the workers of the deployment, from 0.
        control_fd: The file descriptor of the connection to the orchestrator.
        reading_plan: Which partitions the worker reads alone, see ReadingPlan.
    """
    options = ["--spec", str(spec), "--slot", str(slot), "--control-fd", str(control_fd)]
    options += ["--isolate-partitions"] if reading_plan.isolates_partitions else []
    options += [f"--quarantined={position}" for position in reading_plan.quarantined]
    return [sys.executable, "-m", "headwater.app.worker_main", *options]


def run_file(spec: Path, slot: int, channel: OrchestratorChannel) -> int:
    """Run the worker of a spec file. Returns the exit status.

    Raises SetupError when the file is not a valid spec.

    Args:
        spec: The spec file, whose name contains the hash of its content.
        slot: The number of the worker's slot.
        channel: The worker's end of the connection to its orchestrator.
    """
    document = _read_spec(spec)
    reporter = HeartbeatReporter(channel, spec_hash=spec.stem.removeprefix("spec-"))
    configure_logging("info", reporter.log.add_worker_line)
    return run_worker(document, slot, reporter)


def _read_spec(spec: Path) -> WorkerSpec:
    try:
        return WorkerSpec.model_validate_json(spec.read_bytes())
    except OSError as error:
        raise SetupError(
            f"The spec {spec} can't be read ({error.strerror}). Name a file that the controller wrote."
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise SetupError(
            f"The spec {spec} is not valid: {place}: {first['msg']}. Name a file that the controller wrote."
        ) from None  # the cause would show values, among them passwords


def run_worker(spec: WorkerSpec, slot: int, reporter: HeartbeatReporter) -> int:
    """Run until SIGTERM or SIGINT.

    Returns the exit status. It is 0 when all records that the worker has read are delivered and committed. After an
    error, the worker logs and reports the reason, and the status is FENCED_STATUS when another worker has fenced this
    one, otherwise 1.
    """
    stop_requested = stop_on_signals()
    if stop_requested.is_set():
        return 0
    reporter.report("starting")
    try:
        lookup_durations: deque[float] = deque(maxlen=MAX_LOOKUP_DURATIONS)
        if spec.redrive is not None:
            lower_priority(REDRIVE_NICE)
        with (
            _transform_context(spec, reporter, lookup_durations) as transform_context,
            _pipeline_metrics(spec, slot, lookup_durations) as metrics,
            _redrive_parts(spec) as redrive_parts,
        ):
            worker = _worker(spec, slot, transform_context, metrics, reporter, redrive_parts)
            for number in STOP_SIGNALS:
                signal.signal(number, lambda *_: worker.stop())
            if stop_requested.is_set():  # a signal arrived before the worker existed
                worker.stop()
            tune_worker_memory()
            sys.setswitchinterval(SWITCH_INTERVAL_S)
            return 0 if worker.run() else FAILED
    except HeadwaterError as error:
        log.error("the worker ends", reason=error.detail, deployment=spec.deployment_id, slot=slot)
        reporter.report("failed", error.detail)
        return FENCED_STATUS if isinstance(error, Fenced) else FAILED


@contextmanager
def _pipeline_metrics(spec: WorkerSpec, slot: int, lookup_durations: deque[float]) -> Iterator[PipelineMetrics]:
    """Open the metrics of the worker, with their own connection to Valkey.

    The connection has a short timeout. Each worker of a Pub/Sub source counts as a group of its own, because it numbers
    its partitions and offsets itself.
    """
    group = f"{spec.source_group}/{slot}" if isinstance(spec.source, PubSubPull) else spec.source_group
    with closing(connect(spec.redis_url, reply_timeout_s=METRICS_WRITE_TIMEOUT_S)) as client:
        store = RedisMetrics(client)
        metrics_writer = MetricsWriter(
            store if spec.redrive is None else DeadLetterTotalsStore(store),
            deployment_id=spec.deployment_id,
            group=group,
            writer_id=secrets.token_hex(8),
        )
        yield PipelineMetrics(metrics_writer, EventTime(spec.event_time_field), lookup_durations)


class RedriveParts(NamedTuple):
    """The source of a redrive's worker, and the store of its letters' outcomes."""

    source: DeadLetterSource
    outcomes: RedriveOutcomeStore
    redrive: RedriveSpec


@contextmanager
def _redrive_parts(spec: WorkerSpec) -> Iterator[RedriveParts | None]:
    """Open the parts of a redrive. Yield None for a worker of a pipeline."""
    if spec.redrive is None:
        yield None
        return
    with closing(connect(spec.redis_url)) as client:
        outcomes = RedisRedriveOutcomes(client)
        source = DeadLetterSource(
            spec.kafka,
            spec.source_topic,
            spec.source_group,
            instance_id=f"{spec.config_id}-{REDRIVE_SLOT}",
            deployment_id=spec.deployment_id,
            redrive=spec.redrive,
            store=outcomes,
        )
        yield RedriveParts(source, outcomes, spec.redrive)


@contextmanager
def _transform_context(
    spec: WorkerSpec, reporter: HeartbeatReporter, lookup_durations: deque[float]
) -> Iterator[TransformContext]:
    """Open the context of the transforms.

    It has the sets, the names of datasets, and the sandbox when there is a script. The reporter learns how to read the
    sandbox's CPU time and the versions of the sets.
    """
    with closing(connect(spec.redis_url)) as client, closing(RedisSetLookup(client)) as sets:
        names = RedisDatasetNames(client)
        lookup = DatasetTracker(TimedLookup(sets, lookup_durations))
        context = TransformContext(spec.config_id, spec.owner, lookup, names)
        filters = [filter_set_id(spec.config_id, t.uid) for t in spec.transforms if t.owns_set]
        with ExitStack() as stack:
            if any(transform.is_script for transform in spec.transforms):
                sandbox = stack.enter_context(closing(Sandbox(jit=spec.jit)))
                context = replace(context, sandbox=sandbox)
                reporter.read_scripts_cpu_s = sandbox.cpu_s
            versions = stack.enter_context(closing(SetVersionReader(RedisSetVersions(client), filters, lookup)))
            versions.start()
            reporter.read_set_versions = versions.latest
            yield context


def _worker(
    spec: WorkerSpec,
    slot: int,
    transform_context: TransformContext,
    metrics: PipelineMetrics,
    reporter: HeartbeatReporter,
    redrive_parts: RedriveParts | None,
) -> Worker:
    transforms = build_transforms(spec.transforms, TRANSFORMS, transform_context)
    if redrive_parts is not None:
        dead_letter_source, outcomes, redrive = redrive_parts
        inner = _delivery(spec, REDRIVE_SLOT, dead_letter_source, reporter)
        redelivery = RedriveDelivery(
            inner,
            dead_letter_source,
            outcomes,
            deployment_id=spec.deployment_id,
            redrive=redrive,
            in_transaction=spec.delivery == "exactly_once",
        )
        return Worker(dead_letter_source, transforms, redelivery, metrics, reporter=reporter)
    reads_pubsub = isinstance(spec.source, PubSubPull)
    source = SOURCES["pubsub" if reads_pubsub else "kafka"](spec, slot)
    delivery = _delivery(spec, slot, source, reporter)
    return Worker(source, transforms, delivery, metrics, reporter=reporter, can_isolate_partitions=not reads_pubsub)


def _delivery(spec: WorkerSpec, slot: int | str, source: Source, reporter: HeartbeatReporter) -> Delivery:
    headers: Headers = [] if spec.redrive is None else [(REDRIVEN_HEADER, spec.redrive.id.encode())]
    topics = [*(sink.topic for sink in spec.sinks), spec.dead_letter_topic]
    codecs = {sink.topic: sink.compression for sink in spec.sinks if sink.compression is not None}
    sinks = [SINKS[sink.type](sink, source.source_ids) for sink in spec.sinks]
    dead_letters = DeadLetterWriter(spec.dead_letter_topic, spec.revision, source.source_ids)
    if spec.delivery == "at_least_once":
        stall_detector = StalledProducerDetector(LeaderCheck(spec.kafka, topics))

        def idempotent_producer(one_record_per_batch: bool) -> IdempotentKafkaProducer:
            return IdempotentKafkaProducer(
                spec.kafka,
                topics,
                codecs=codecs,
                stall_detector=stall_detector,
                one_record_per_batch=one_record_per_batch,
                headers=headers,
            )

        return AtLeastOnce(sinks, dead_letters, idempotent_producer, source.source_ids)

    def transactional_producer(one_record_per_batch: bool) -> TransactionalKafkaProducer:
        return TransactionalKafkaProducer(
            spec.kafka,
            topics,
            source_topic=spec.source_topic,
            transactional_id=f"{transactional_id_prefix(spec.config_id)}{slot}",
            codecs=codecs,
            one_record_per_batch=one_record_per_batch,
            headers=headers,
        )

    return ExactlyOnce(
        sinks,
        dead_letters,
        transactional_producer,
        group_metadata=source.group_metadata,
        source_ids=source.source_ids,
        watching=Watchdog(HANGS_AFTER_S, lambda: _end_hung_process(reporter)).watching,
    )


def _end_hung_process(reporter: HeartbeatReporter) -> None:
    """End the process at once, because the engine's thread hangs in a call of the Kafka client."""
    try:
        log.error("the worker ends", reason=TRANSACTION_HANGS)
        reporter.report("failed", TRANSACTION_HANGS)
    finally:
        os._exit(FAILED)


def main() -> int:
    """Run the worker that the arguments describe. Returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", type=Path, required=True)
    parser.add_argument("--slot", type=int, default=0)
    parser.add_argument("--control-fd", type=int)
    parser.add_argument("--isolate-partitions", action="store_true")
    parser.add_argument("--quarantined", type=PartitionPosition.parse, action="append", default=[])
    parser.add_argument("--listen", help="the address and port of the HTTP interface of a worker in a Pod")
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--state-dir", type=Path)
    arguments = parser.parse_args()
    if arguments.listen is not None:
        run = partial(run_file, arguments.spec, arguments.slot)
        return run_in_pod(run, arguments.listen, arguments.token_file, arguments.state_dir)
    reading_plan = ReadingPlan(arguments.isolate_partitions, tuple(arguments.quarantined))
    fd = arguments.control_fd
    channel = NoOrchestrator(reading_plan) if fd is None else SocketPairChannel(fd, reading_plan)
    return run_file(arguments.spec, arguments.slot, channel)
