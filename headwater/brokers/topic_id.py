"""Stores the topic id with committed offsets, as the metadata of their commits.

A topic that is deleted and created again has the same name but another id (KIP-516).
"""

from typing import Final

from confluent_kafka.admin import TopicDescription

_PREFIX: Final = "topic-id="
_NO_ID: Final = "A" * 22
"""The id that clusters without topic ids return: sixteen zero bytes in base64."""


def described_topic_id(description: TopicDescription) -> str:
    """Return the id of a described topic; empty when the cluster has no topic ids."""
    topic_id = str(description.topic_id)
    return "" if topic_id == _NO_ID else topic_id


def commit_metadata(topic_id: str) -> str:
    """Return the metadata of a commit of offsets of a topic."""
    return _PREFIX + topic_id if topic_id else ""


def committed_topic_id(metadata: str | None) -> str:
    """Return the topic id in the metadata of a commit; empty when it is not known."""
    return metadata.removeprefix(_PREFIX) if metadata and metadata.startswith(_PREFIX) else ""
