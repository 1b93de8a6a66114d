"""Which topic a group's positions count: one that is deleted and made again keeps its name, not its id (KIP-516).

The id is kept with the positions, as the metadata of their commits.
"""

from typing import Final

from confluent_kafka.admin import TopicDescription

_LABEL: Final = "topic-id="
_NONE: Final = "A" * 22
"""What clusters answer that know no ids: sixteen zero bytes in base64."""


def id_of(described: TopicDescription) -> str:
    """The topic's id; empty when it has none."""
    topic_id = str(described.topic_id)
    return "" if topic_id == _NONE else topic_id


def label(topic_id: str) -> str:
    """The metadata of a commit of positions on a topic."""
    return _LABEL + topic_id if topic_id else ""


def labelled(metadata: str | None) -> str:
    """The topic's id in the metadata of a commit; empty: not known."""
    return metadata.removeprefix(_LABEL) if metadata and metadata.startswith(_LABEL) else ""
