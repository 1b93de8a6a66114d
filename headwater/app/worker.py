"""Composition of one worker: from its spec to a running loop."""

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager

import structlog

from headwater.engine import chain
from headwater.engine.delivery import AtLeastOnce, DeadLetters
from headwater.engine.health import Probe, ScriptLog
from headwater.engine.worker import Worker
from headwater.errors import HeadwaterError
from headwater.model.worker import Heartbeat, WorkerSpec
from headwater.sandbox import Sandbox
from headwater.sinks import SINKS
from headwater.sinks.kafka import KafkaProducer
from headwater.sources import SOURCES
from headwater.stores.redis.client import connect
from headwater.stores.redis.names import RedisDatasetNames
from headwater.stores.redis.sets import RedisSetStore
from headwater.transforms import TRANSFORMS
from headwater.transforms.base import Resources

log = structlog.get_logger(__name__)

FAILED = 1


def run_worker(spec: WorkerSpec, spec_hash: str, slot: int, probe_fd: int | None) -> int:
    """Run until SIGTERM or SIGINT; the exit status is 0 when all that was read is delivered and committed.

    An error ends the worker with status 1, after its sentence went to the log and to the supervisor.
    """
    probe, script_log = Probe(probe_fd), ScriptLog()
    try:
        with _resources(spec, script_log) as resources:
            worker = _worker(spec, spec_hash, slot, resources, probe, script_log)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: worker.stop())
            return 0 if worker.run() else FAILED
    except HeadwaterError as error:
        log.error("the worker ends", reason=error.detail, deployment=spec.deployment_id, slot=slot)
        probe.send(Heartbeat(state="failed", spec_hash=spec_hash, reason=error.detail))
        return FAILED


@contextmanager
def _resources(spec: WorkerSpec, script_log: ScriptLog) -> Iterator[Resources]:
    """What the transforms are built with; a sandbox only when a script needs one."""
    client = connect(spec.redis_url)
    sets, names = RedisSetStore(client), RedisDatasetNames(client)
    base = Resources(spec.config_id, spec.owner, sets, names, spec.jit, script_log.write)
    if not any(transform.type == "v8" for transform in spec.transforms):
        yield base
        return
    with closing(Sandbox(jit=spec.jit)) as sandbox:
        yield Resources(spec.config_id, spec.owner, sets, names, spec.jit, script_log.write, sandbox)


def _worker(
    spec: WorkerSpec, spec_hash: str, slot: int, resources: Resources, probe: Probe, script_log: ScriptLog
) -> Worker:
    topics = [*(sink.topic for sink in spec.sinks), spec.dead_letter_topic]
    delivery = AtLeastOnce(
        [SINKS[sink.type](sink, spec.revision) for sink in spec.sinks],
        DeadLetters(spec.dead_letter_topic, spec.revision),
        lambda: KafkaProducer(spec.kafka, topics),
    )
    transforms = chain.build(spec.transforms, TRANSFORMS, resources)
    source = SOURCES["kafka"](spec, slot)
    return Worker(source, transforms, delivery, spec_hash=spec_hash, probe=probe, script_log=script_log)
