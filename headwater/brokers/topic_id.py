"""Stores the topic id with committed offsets, as the metadata of their commits.

A topic that is deleted and created again has the same name but another id (KIP-516).
"""

from typing import Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import TopicDescription

_PREFIX: Final = "topic-id="
_ID_CHARS: Final = 22
"""The length of an id: sixteen bytes in base64, without padding."""
_NO_ID: Final = "A" * _ID_CHARS
"""The id that clusters without topic ids return: sixteen zero bytes."""


def described_topic_id(description: TopicDescription) -> str:
    """Return the id of a described topic; empty when the cluster has no topic ids."""
    topic_id = str(description.topic_id)
    return "" if topic_id == _NO_ID else topic_id


def commit_metadata(topic_id: str) -> str:
    """Return the metadata of a commit of offsets of a topic."""
    return _PREFIX + topic_id if topic_id else ""


def committed_topic_id(metadata: str | None) -> str:
    """Return the topic id in the metadata of a commit; empty when it is not known.

    Characters after the id are ignored: confluent-kafka's admin client may return some, because it reads the metadata
    as a text that ends with NUL, which librdkafka does not append.
    """
    return metadata.removeprefix(_PREFIX)[:_ID_CHARS] if metadata and metadata.startswith(_PREFIX) else ""


def admin_metadata(commit: TopicPartition) -> str | None:
    """Return the metadata of a commit that the admin client has read.

    Returns None when the metadata can't be decoded.
    """
    try:
        return commit.metadata
    except UnicodeDecodeError:  # the characters after the metadata are no text
        return None
