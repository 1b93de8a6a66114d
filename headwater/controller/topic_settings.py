"""Kafka's settings of the topics of sinks: pure functions of the members that set up a topic."""

from collections.abc import Iterable, Mapping, Sequence

from headwater.brokers.base import OUTPUT_TOPIC_CONFIG
from headwater.model.deployment import Deployment, Revision, sink_topic
from headwater.model.sink import KafkaSink

MIN_SEGMENT_BYTES = 4 << 20
"""A segment has to hold the largest batch of records."""
MIN_SEGMENT_MS = 60_000
"""Each partition has at most one new file a minute."""
SEGMENTS_PER_PARTITION = 8
"""Only whole segments are removed: this is how far retention by size may be exceeded."""

_CODECS = {None: "producer", "none": "uncompressed"}
"""Kafka's words for what it calls otherwise than a sink does."""


def creation_settings(sink: KafkaSink) -> dict[str, str]:
    """All settings of a topic that is made for a sink."""
    return OUTPUT_TOPIC_CONFIG | _settings(sink, (name for name in _SETTINGS if getattr(sink, name) is not None))


def changed_settings(deployment: Deployment, target: Revision) -> dict[str, dict[str, str]]:
    """By topic, the settings that an existing topic has to have for a revision.

    A setting is among them when any revision of the deployment set it: a member that was left out since gets its
    default again. All other settings stay what the operator of Kafka made them.
    """
    changed = {}
    for sink in _kafka_sinks(target):
        forms = [other for revision in deployment.revisions for other in _kafka_sinks(revision)]
        forms = [other for other in forms if other.name == sink.name]
        members = [name for name in _SETTINGS if any(getattr(form, name) is not None for form in forms)]
        if members:
            changed[sink_topic(deployment.flow_id, sink.name)] = _settings(sink, members)
    return changed


def without_compaction(changed: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """The settings that may change while workers of an earlier revision still write.

    These workers may write records without a key, which Kafka refuses once the topic is compacted.
    """
    return {
        topic: {name: value for name, value in settings.items() if "compact" not in value}
        for topic, settings in changed.items()
    }


def _kafka_sinks(revision: Revision) -> Sequence[KafkaSink]:
    return [sink for sink in revision.config.sinks if isinstance(sink, KafkaSink)]


def _settings(sink: KafkaSink, members: Iterable[str]) -> dict[str, str]:
    return {name: value for member in members for name, value in _SETTINGS[member](sink).items()}


def _retention_time(sink: KafkaSink) -> dict[str, str]:
    if sink.retention_ms is None:
        return _defaults("retention.ms", "segment.ms")
    segment = min(int(OUTPUT_TOPIC_CONFIG["segment.ms"]), max(MIN_SEGMENT_MS, sink.retention_ms))
    return {"retention.ms": str(sink.retention_ms), "segment.ms": str(segment)}


def _retention_bytes(sink: KafkaSink) -> dict[str, str]:
    if sink.retention_bytes is None:
        return _defaults("retention.bytes", "segment.bytes")
    wanted = max(MIN_SEGMENT_BYTES, sink.retention_bytes // SEGMENTS_PER_PARTITION)
    segment = min(int(OUTPUT_TOPIC_CONFIG["segment.bytes"]), wanted)
    return {"retention.bytes": str(sink.retention_bytes), "segment.bytes": str(segment)}


def _compression(sink: KafkaSink) -> dict[str, str]:
    return {"compression.type": _CODECS.get(sink.compression, str(sink.compression))}


def _cleanup_policy(sink: KafkaSink) -> dict[str, str]:
    return {"cleanup.policy": sink.cleanup_policy or "delete"}


def _defaults(*names: str) -> dict[str, str]:
    return {name: OUTPUT_TOPIC_CONFIG[name] for name in names}


_SETTINGS = {
    "retention_ms": _retention_time,
    "retention_bytes": _retention_bytes,
    "compression": _compression,
    "cleanup_policy": _cleanup_policy,
}
"""By member of a sink, the settings that it makes."""
