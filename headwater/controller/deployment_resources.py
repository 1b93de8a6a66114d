"""Computes the Kafka resources and the worker set of a deployment, by pure functions."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.brokers.base import (
    OUTPUT_TOPIC_CONFIG,
    TICKS_TOPIC_CONFIG,
    Acl,
    DeploymentResources,
    TopicSpec,
    User,
)
from headwater.controller.topic_settings import creation_settings
from headwater.model.access import KafkaAccess
from headwater.model.binding import Binding, KafkaTopic, PubSubSubscription, PubSubTopic, binding_name
from headwater.model.deployment import (
    DeployedRevision,
    Deployment,
    dead_letter_topic,
    output_topics,
    reader_user,
    sink_topic,
    transactional_id_prefix,
    worker_group,
    worker_user,
)
from headwater.model.price.tick import TICKS_PARTITIONS, TICKS_TOPIC
from headwater.model.redrive import RedriveSpec, redrive_group, redrive_worker_set_id
from headwater.model.sink import Sink, TopicSink, has_prices_sink
from headwater.model.stream import event_time_field
from headwater.model.worker_spec import PubSubPull, SinkSpec, WorkerSet, WorkerSpec

TICKS_TOPIC_SPEC = TopicSpec(TICKS_TOPIC, TICKS_PARTITIONS, TICKS_TOPIC_CONFIG)
"""The topic that all price pipelines write to. It is not removed with a pipeline."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings that all workers of this installation share.

    Attributes:
        kafka: How workers connect to Kafka.
        redis_url: The URL of Valkey or Redis.
        jit: Whether scripts run with V8's JIT compiler.
        manages_users: Whether the workers of each deployment have their own Kafka user. The name and password of this
            user then replace the name and password in `kafka`.
    """

    kafka: KafkaAccess
    redis_url: str
    jit: bool
    manages_users: bool = True


def resources(
    deployment: Deployment, revision: DeployedRevision, binding: Binding, partitions: int
) -> DeploymentResources:
    """Return the topics, users and ACLs of a revision.

    There are two users: one for the readers, which may only read the outputs, and one for the workers.
    """
    reader, worker = reader_user(deployment.id), worker_user(deployment.id)
    topics = output_topics(deployment.config_id, revision.config)
    specs = topic_specs(deployment, revision, partitions)
    acls = [
        *_reader_acls(deployment, topics),
        *_source_acls(worker, binding),
        *redrive_acls(deployment),
        *(Acl(worker, "topic", spec.name, ("WRITE",)) for spec in specs),
    ]
    if revision.config.delivery == "exactly_once":
        ids = transactional_id_prefix(deployment.config_id)
        acls.append(Acl(worker, "transactional_id", ids, ("WRITE",), prefixed=True))
    return DeploymentResources(
        topics=specs,
        users=(User(reader, deployment.reader_password), User(worker, deployment.worker_password)),
        acls=tuple(acls),
    )


def topic_specs(deployment: Deployment, revision: DeployedRevision, partitions: int) -> tuple[TopicSpec, ...]:
    """Return the topics that the revision writes to, with their creation settings.

    `partitions` is the number of partitions of the source.
    """
    sinks = [
        TopicSpec(sink_topic(deployment.config_id, sink.name), sink.partitions or partitions, creation_settings(sink))
        for sink in revision.config.sinks
        if isinstance(sink, TopicSink)
    ]
    dead_letters = TopicSpec(dead_letter_topic(deployment.config_id), partitions, OUTPUT_TOPIC_CONFIG)
    shared = [TICKS_TOPIC_SPEC] if has_prices_sink(revision.config.sinks) else []
    return (*sinks, dead_letters, *shared)


def _source_acls(worker: str, binding: Binding) -> list[Acl]:
    """Return the ACLs for reading the source.

    A source outside of the installation's own Kafka cluster needs no acls.
    """
    if not isinstance(binding, KafkaTopic) or binding.access is not None:
        return []
    return [Acl(worker, "topic", binding.topic, ("READ",))]


def redrive_acls(deployment: Deployment) -> list[Acl]:
    """Return the ACLs with which workers redrive dead letters.

    The first one is for all consumer groups of the workers, also for those that read the source.
    """
    worker = worker_user(deployment.id)
    return [
        Acl(worker, "group", f"{worker}.", ("READ",), prefixed=True),
        Acl(worker, "topic", dead_letter_topic(deployment.config_id), ("READ",)),
    ]


def reader_resources(deployment: Deployment) -> DeploymentResources:
    """Return the readers' user with its ACLs.

    `ClusterAdmin.ensure` with these resources sets the stored password. The ACLs exist already. They are included
    because `ensure` waits until the user sees the topics that they name.
    """
    user = User(reader_user(deployment.id), deployment.reader_password)
    acls = _reader_acls(deployment, output_topics(deployment.config_id, deployment.effective_revision.config))
    return DeploymentResources((), (user,), tuple(acls))


def _reader_acls(deployment: Deployment, topics: Sequence[str]) -> list[Acl]:
    reader = reader_user(deployment.id)
    return [
        *(Acl(reader, "topic", topic, ("READ",)) for topic in topics),
        Acl(reader, "group", f"{reader}.", ("READ",), prefixed=True),
    ]


def all_resources(deployment: Deployment) -> DeploymentResources:
    """Return all resources that any revision of the deployment may own, for a teardown.

    ACLs are not listed, since they are removed with their users.
    """
    config_id, revisions = deployment.config_id, deployment.revisions
    topics = {topic for revision in revisions for topic in output_topics(config_id, revision.config)}
    reader, worker = reader_user(deployment.id), worker_user(deployment.id)
    return DeploymentResources(
        topics=tuple(TopicSpec(topic, 1) for topic in sorted(topics)),
        users=(User(reader, ""), User(worker, "")),
        acls=(),
    )


def retired_topics(deployment: Deployment) -> list[str]:
    """Return the topics of other revisions that the desired revision does not write."""
    written = set(output_topics(deployment.config_id, deployment.config))
    return sorted({topic.name for topic in all_resources(deployment).topics} - written)


def _sink_spec(deployment: Deployment, sink: Sink) -> SinkSpec:
    if not isinstance(sink, TopicSink):
        return SinkSpec(uid=sink.uid, name=sink.name, type=sink.type, topic=TICKS_TOPIC_SPEC.name)
    return SinkSpec(
        uid=sink.uid,
        name=sink.name,
        type=sink.type,
        topic=sink_topic(deployment.config_id, sink.name),
        partitions=sink.partitions,
        compression=sink.compression,
        is_compacted=sink.is_compacted,
        retention_ms=sink.retention_ms,
    )


def _source_access(binding: Binding, group: str) -> KafkaAccess | PubSubPull | None:
    """Return how to connect to the source.

    Return None when the source is on the installation's own Kafka cluster.
    """
    match binding:
        case KafkaTopic():
            return binding.access
        case PubSubTopic():
            subscription, deduplicate = f"projects/{binding.access.project}/subscriptions/{group}", binding.deduplicate
        case PubSubSubscription():
            subscription, deduplicate = binding.subscription, False
    return PubSubPull(**binding.access.model_dump(), subscription=subscription, deduplicate=deduplicate)


def worker_set(
    deployment: Deployment, revision: DeployedRevision, binding: Binding, settings: WorkerSettings
) -> WorkerSet:
    """Return the workers of a revision.

    The hash covers the whole spec, so any change of it replaces the workers. When `parallelism` is a range, the spec
    has the maximum of the range and the worker set has the present number of workers. So another number within the
    range leaves the spec unchanged, and the other workers continue to run.
    """
    parallelism = revision.config.parallelism
    group = worker_group(deployment.id, revision.source_epoch)
    own_user = {"username": worker_user(deployment.id), "password": deployment.worker_password}
    spec = WorkerSpec(
        deployment_id=deployment.id,
        config_id=deployment.config_id,
        owner=deployment.owner,
        revision=revision.number,
        source_topic=binding_name(binding),
        source_group=group,
        transforms=revision.config.transforms,
        sinks=[_sink_spec(deployment, sink) for sink in revision.config.sinks],
        dead_letter_topic=dead_letter_topic(deployment.config_id),
        kafka=settings.kafka.model_copy(update=own_user) if settings.manages_users else settings.kafka,
        redis_url=settings.redis_url,
        chain=revision.config.source.chain,
        entity=revision.config.source.entity,
        source=_source_access(binding, group),
        event_time_field=event_time_field(revision.config.source.chain, revision.config.source.entity),
        max_slots=parallelism if isinstance(parallelism, int) else parallelism.max,
        jit=settings.jit,
        delivery=revision.config.delivery,
    )
    return WorkerSet(deployment.id, deployment.worker_count(revision), spec, _hash(spec))


def _hash(spec: WorkerSpec) -> str:
    return hashlib.sha256(spec.model_dump_json().encode()).hexdigest()[:16]


def redrive_worker_set(deployment: Deployment, pipeline: WorkerSpec, redrive: RedriveSpec) -> WorkerSet:
    """Return the worker of a redrive, which runs a pipeline on dead letters."""
    changes = {
        "source_topic": pipeline.dead_letter_topic,
        "source_group": redrive_group(deployment.id, redrive.number),
        "source": None,
        "event_time_field": None,
        "max_slots": 1,
        "redrive": redrive,
    }
    spec = pipeline.model_copy(update=changes)
    return WorkerSet(redrive_worker_set_id(deployment.id, redrive.number), 1, spec, _hash(spec))
