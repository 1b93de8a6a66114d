"""The resources that a deployment needs on the broker, and its worker set: pure functions of its state."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.brokers.base import OUTPUT_TOPIC_CONFIG, TICKS_TOPIC_CONFIG, AccessRule, Resources, TopicSpec, User
from headwater.controller.topic_settings import creation_settings
from headwater.model.binding import Binding, KafkaTopic, PubSubSubscription, PubSubTopic, binding_name
from headwater.model.deployment import (
    Deployment,
    Revision,
    dead_letter_topic,
    output_topics,
    reader,
    sink_topic,
    source_group,
    transactional_ids,
    worker_user,
)
from headwater.model.price.tick import PARTITIONS, TICKS_TOPIC
from headwater.model.sink import KafkaSink, Sink, feed_prices
from headwater.model.stream import event_time
from headwater.model.worker import KafkaAccess, PubSubPull, SinkSpec, WorkerSet, WorkerSpec

TICKS = TopicSpec(TICKS_TOPIC, PARTITIONS, TICKS_TOPIC_CONFIG)
"""The topic that all price pipelines write to; it stays when they go."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings that all workers of this installation share.

    Attributes:
        kafka: How workers log in.
        redis_url: The address of the set store.
        jit: Whether scripts run with V8's JIT compiler.
        manages_users: Whether each deployment's workers have a Kafka user of their own, whose name and password take
            the place of those in `kafka`.
    """

    kafka: KafkaAccess
    redis_url: str
    jit: bool
    manages_users: bool = True


def resources(deployment: Deployment, revision: Revision, binding: Binding, partitions: int) -> Resources:
    """Topics, users and rules of a revision. Two users: one may only read the outputs, one is for the workers."""
    read, work = reader(deployment.id), worker_user(deployment.id)
    topics = output_topics(deployment.flow_id, revision.config)
    shared = [TICKS] if feed_prices(revision.config.sinks) else []
    rules = [
        *_reader_rules(deployment, topics),
        *_source_rules(work, binding),
        *(AccessRule(work, "topic", topic, ("WRITE",)) for topic in [*topics, *(spec.name for spec in shared)]),
    ]
    if revision.config.delivery == "exactly_once":
        ids = transactional_ids(deployment.flow_id)
        rules.append(AccessRule(work, "transactional_id", ids, ("WRITE",), prefixed=True))
    return Resources(
        topics=(*_topic_specs(deployment, revision, partitions), *shared),
        users=(User(read, deployment.reader_password), User(work, deployment.worker_password)),
        rules=tuple(rules),
        group_prefixes=(f"{read}.", f"{work}."),
    )


def _topic_specs(deployment: Deployment, revision: Revision, partitions: int) -> list[TopicSpec]:
    """The topics of a revision's own as they are made. partitions: how many the source has."""
    sinks = [
        TopicSpec(sink_topic(deployment.flow_id, sink.name), sink.partitions or partitions, creation_settings(sink))
        for sink in revision.config.sinks
        if isinstance(sink, KafkaSink)
    ]
    return [*sinks, TopicSpec(dead_letter_topic(deployment.flow_id), partitions, OUTPUT_TOPIC_CONFIG)]


def _source_rules(work: str, binding: Binding) -> list[AccessRule]:
    """Rules for reading the source on the own cluster; none for a binding that has credentials of its own."""
    if not isinstance(binding, KafkaTopic) or binding.access is not None:
        return []
    return [
        AccessRule(work, "topic", binding.topic, ("READ",)),
        AccessRule(work, "group", f"{work}.", ("READ",), prefixed=True),
    ]


def readers(deployment: Deployment) -> Resources:
    """The readers' user, and what it may read now: the part of the resources that a rotation touches."""
    user = User(reader(deployment.id), deployment.reader_password)
    rules = _reader_rules(deployment, output_topics(deployment.flow_id, deployment.effective_revision.config))
    return Resources((), (user,), tuple(rules), ())


def _reader_rules(deployment: Deployment, topics: Sequence[str]) -> list[AccessRule]:
    read = reader(deployment.id)
    return [
        *(AccessRule(read, "topic", topic, ("READ",)) for topic in topics),
        AccessRule(read, "group", f"{read}.", ("READ",), prefixed=True),
    ]


def everything(deployment: Deployment) -> Resources:
    """All resources that any revision of the deployment may own; a teardown removes them. Rules go with their users."""
    flow_id, revisions = deployment.flow_id, deployment.revisions
    topics = {topic for revision in revisions for topic in output_topics(flow_id, revision.config)}
    read, work = reader(deployment.id), worker_user(deployment.id)
    return Resources(
        topics=tuple(TopicSpec(topic, 1) for topic in sorted(topics)),
        users=(User(read, ""), User(work, "")),
        rules=(),
        group_prefixes=(f"{read}.", f"{work}."),
    )


def retired_topics(deployment: Deployment) -> list[str]:
    """Topics that only other revisions than the desired one write."""
    wanted = set(output_topics(deployment.flow_id, deployment.config))
    return sorted({topic.name for topic in everything(deployment).topics} - wanted)


def _sink_spec(deployment: Deployment, sink: Sink) -> SinkSpec:
    if not isinstance(sink, KafkaSink):
        return SinkSpec(uid=sink.uid, name=sink.name, type=sink.type, topic=TICKS.name)
    return SinkSpec(
        uid=sink.uid,
        name=sink.name,
        type=sink.type,
        topic=sink_topic(deployment.flow_id, sink.name),
        partitions=sink.partitions,
        compression=sink.compression,
        is_compacted=sink.is_compacted,
        retention_ms=sink.retention_ms,
    )


def _source(binding: Binding, group: str) -> KafkaAccess | PubSubPull | None:
    """Where workers read, when that is not the own cluster."""
    match binding:
        case KafkaTopic():
            return binding.access
        case PubSubTopic():
            subscription, deduplicate = f"projects/{binding.access.project}/subscriptions/{group}", binding.deduplicate
        case PubSubSubscription():
            subscription, deduplicate = binding.subscription, False
    return PubSubPull(**binding.access.model_dump(), subscription=subscription, deduplicate=deduplicate)


def worker_set(deployment: Deployment, revision: Revision, binding: Binding, settings: WorkerSettings) -> WorkerSet:
    """The workers of a revision. The hash covers the whole spec, so any change of it replaces them."""
    group = source_group(deployment.id, revision.source_epoch)
    own_user = {"username": worker_user(deployment.id), "password": deployment.worker_password}
    spec = WorkerSpec(
        deployment_id=deployment.id,
        config_id=deployment.flow_id,
        owner=deployment.owner,
        revision=revision.number,
        source_topic=binding_name(binding),
        source_group=group,
        transforms=revision.config.transforms,
        sinks=[_sink_spec(deployment, sink) for sink in revision.config.sinks],
        dead_letter_topic=dead_letter_topic(deployment.flow_id),
        kafka=settings.kafka.model_copy(update=own_user) if settings.manages_users else settings.kafka,
        redis_url=settings.redis_url,
        chain=revision.config.source.chain,
        entity=revision.config.source.entity,
        source=_source(binding, group),
        event_time=event_time(revision.config.source.chain, revision.config.source.entity),
        slots=revision.config.parallelism,
        jit=settings.jit,
        delivery=revision.config.delivery,
    )
    digest = hashlib.sha256(spec.model_dump_json().encode()).hexdigest()[:16]
    return WorkerSet(deployment.id, revision.config.parallelism, spec, digest)
