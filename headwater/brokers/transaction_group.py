"""The consumer group whose offsets a transaction commits."""

from collections.abc import Callable
from typing import NamedTuple


class TransactionGroup(NamedTuple):
    """The consumer group whose offsets a transaction commits.

    Attributes:
        group_metadata: From `LibrdkafkaConsumer.group_metadata`.
        commit_metadata: Is stored with each offset.
        epoch_before: Returns the leader epoch of the record before an offset of a partition; -1 when it is not known.
    """

    group_metadata: object
    commit_metadata: str
    epoch_before: Callable[[int, int], int]
