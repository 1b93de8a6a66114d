"""The protocol of the store that lists configurations with their deployments."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from headwater.model.pagination import ListPosition
from headwater.model.pipeline_state import ConfigurationQuery, ConfigurationSummary


class RevisionId(NamedTuple):
    """A revision of a configuration. What is stored for it never changes."""

    config_id: str
    revision: int


class SourceStream(NamedTuple):
    """The stream that a pipeline reads."""

    chain: str
    entity: str


class OverviewStore(Protocol):
    """Lists configurations with their deployments, without reading pipelines."""

    def summaries(
        self, owner: str, query: ConfigurationQuery, after: ListPosition | None, limit: int
    ) -> Sequence[ConfigurationSummary]:
        """Return the next configurations of an owner that may match, newest first.

        Configurations that don't match are left out as far as the database can tell. So the caller compares the text,
        the tag and the state again. Fewer than `limit` configurations mean that there are no more.

        Args:
            owner: The owner.
            query: The configurations to select.
            after: The position after which the list starts; None starts it at the newest configuration.
            limit: The number of configurations.
        """

    def sources(self, revisions: Collection[RevisionId]) -> Mapping[RevisionId, SourceStream]:
        """Return the source of each given revision whose pipeline this version can read.

        The stored pipelines are read by several queries, so that they are never all in memory together.
        """
