"""Computes the Kafka settings of topics from the members of sinks, by pure functions."""

from collections.abc import Iterable, Mapping, Sequence

from headwater.brokers.base import OUTPUT_TOPIC_CONFIG
from headwater.model.deployment import DeployedRevision, Deployment, sink_topic
from headwater.model.sink import TopicSink

MIN_SEGMENT_BYTES = 4 << 20
"""A segment must be able to hold the largest batch of records."""
MIN_SEGMENT_MS = 60_000
"""The minimum of `segment.ms`. A segment file that is full is closed earlier."""
SEGMENTS_PER_PARTITION = 8
"""The number of segments that retention_bytes is divided into. Kafka removes only whole segments."""

_CODECS = {None: "producer", "none": "uncompressed"}
"""Kafka's names of the codecs that have another name in a sink."""


def creation_settings(sink: TopicSink) -> dict[str, str]:
    """Return all settings of a new topic of a sink."""
    return OUTPUT_TOPIC_CONFIG | _settings(sink, (name for name in _SETTINGS if getattr(sink, name) is not None))


def needed_settings(deployment: Deployment, target: DeployedRevision) -> dict[str, dict[str, str]]:
    """Return the settings that a revision needs on existing topics, by topic.

    The result contains each setting that any revision of the deployment has set. So a member that is no longer set in
    the target revision is reset to its default. Settings that no revision has set are omitted, because the operator of
    Kafka may have changed them.
    """
    settings_by_topic = {}
    for sink in _topic_sinks(target):
        all_sinks = [candidate for revision in deployment.revisions for candidate in _topic_sinks(revision)]
        versions = [candidate for candidate in all_sinks if candidate.name == sink.name]
        members = [name for name in _SETTINGS if any(getattr(version, name) is not None for version in versions)]
        if members:
            settings_by_topic[sink_topic(deployment.config_id, sink.name)] = _settings(sink, members)
    return settings_by_topic


def without_compaction(settings_by_topic: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return the settings that may be changed while workers of an earlier revision still write.

    These workers may write records without a key, which Kafka rejects when the topic is compacted.
    """
    return {
        topic: {name: value for name, value in settings.items() if "compact" not in value}
        for topic, settings in settings_by_topic.items()
    }


def _topic_sinks(revision: DeployedRevision) -> Sequence[TopicSink]:
    return [sink for sink in revision.config.sinks if isinstance(sink, TopicSink)]


def _settings(sink: TopicSink, members: Iterable[str]) -> dict[str, str]:
    return {name: value for member in members for name, value in _SETTINGS[member](sink).items()}


def _retention_time(sink: TopicSink) -> dict[str, str]:
    if sink.retention_ms is None:
        return _defaults("retention.ms", "segment.ms")
    segment = min(int(OUTPUT_TOPIC_CONFIG["segment.ms"]), max(MIN_SEGMENT_MS, sink.retention_ms))
    return {"retention.ms": str(sink.retention_ms), "segment.ms": str(segment)}


def _retention_bytes(sink: TopicSink) -> dict[str, str]:
    if sink.retention_bytes is None:
        return _defaults("retention.bytes", "segment.bytes")
    ideal_segment = max(MIN_SEGMENT_BYTES, sink.retention_bytes // SEGMENTS_PER_PARTITION)
    segment = min(int(OUTPUT_TOPIC_CONFIG["segment.bytes"]), ideal_segment)
    return {"retention.bytes": str(sink.retention_bytes), "segment.bytes": str(segment)}


def _compression(sink: TopicSink) -> dict[str, str]:
    return {"compression.type": _CODECS.get(sink.compression, str(sink.compression))}


def _cleanup_policy(sink: TopicSink) -> dict[str, str]:
    return {"cleanup.policy": sink.cleanup_policy or "delete"}


def _defaults(*names: str) -> dict[str, str]:
    return {name: OUTPUT_TOPIC_CONFIG[name] for name in names}


_SETTINGS = {
    "retention_ms": _retention_time,
    "retention_bytes": _retention_bytes,
    "compression": _compression,
    "cleanup_policy": _cleanup_policy,
}
"""For each member of a sink, the function that returns its Kafka settings."""
