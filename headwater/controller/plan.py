"""What a deployment needs on the broker and of the orchestrator: pure functions of its desired state."""

import hashlib
from dataclasses import dataclass

from headwater.brokers.base import OUTPUT_TOPIC_CONFIG, AccessRule, Resources, TopicSpec, User
from headwater.model.deployment import (
    Deployment,
    dead_letter_topic,
    reader,
    sink_topic,
    source_group,
    worker_user,
)
from headwater.model.worker import KafkaAccess, SinkSpec, WorkerSet, WorkerSpec


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What all workers of this installation share. kafka is the address; each worker logs in as its own user."""

    kafka: KafkaAccess
    redis_url: str
    jit: bool


def output_topics(deployment: Deployment) -> list[str]:
    """The topics that the deployment writes: one per Kafka sink, and the dead letters."""
    sinks = [sink_topic(deployment.flow_id, sink.name) for sink in deployment.config.sinks]
    return [*sinks, dead_letter_topic(deployment.flow_id)]


def resources(deployment: Deployment, source_topic: str, partitions: int) -> Resources:
    """Topics, users and rules. Two users: one that may only read the outputs, one for the workers."""
    read, work = reader(deployment.id), worker_user(deployment.id)
    topics = output_topics(deployment)
    rules = [
        *(AccessRule(read, "topic", topic, ("READ",)) for topic in topics),
        AccessRule(read, "group", f"{read}.", ("READ",), prefixed=True),
        AccessRule(work, "topic", source_topic, ("READ",)),
        AccessRule(work, "group", f"{work}.", ("READ",), prefixed=True),
        *(AccessRule(work, "topic", topic, ("WRITE",)) for topic in topics),
    ]
    return Resources(
        topics=tuple(TopicSpec(topic, partitions, OUTPUT_TOPIC_CONFIG) for topic in topics),
        users=(User(read, deployment.reader_password), User(work, deployment.worker_password)),
        rules=tuple(rules),
        group_prefixes=(f"{read}.", f"{work}."),
    )


def worker_set(deployment: Deployment, source_topic: str, settings: WorkerSettings) -> WorkerSet:
    """The workers that should run. The hash covers the whole spec, so any change of it replaces them."""
    user = {"username": worker_user(deployment.id), "password": deployment.worker_password}
    spec = WorkerSpec(
        deployment_id=deployment.id,
        config_id=deployment.flow_id,
        owner=deployment.owner,
        revision=deployment.desired_revision,
        source_topic=source_topic,
        source_group=source_group(deployment.id, deployment.source_epoch),
        transforms=deployment.config.transforms,
        sinks=[
            SinkSpec(uid=sink.uid, name=sink.name, type=sink.type, topic=sink_topic(deployment.flow_id, sink.name))
            for sink in deployment.config.sinks
        ],
        dead_letter_topic=dead_letter_topic(deployment.flow_id),
        kafka=settings.kafka.model_copy(update=user),
        redis_url=settings.redis_url,
        slots=deployment.config.parallelism,
        jit=settings.jit,
    )
    digest = hashlib.sha256(spec.model_dump_json().encode()).hexdigest()[:16]
    return WorkerSet(deployment.id, deployment.config.parallelism, spec, digest)
