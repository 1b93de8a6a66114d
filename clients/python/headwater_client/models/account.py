"""The API key, its quotas, the overview of its pipelines, and the state of the server."""

from datetime import datetime

from headwater_client.model import Model


class ApiKey(Model, frozen=True, kw_only=True):
    """The API key of the client, without its secret."""

    owner: str
    key_id: str
    scopes: list[str]
    expires_at: datetime | None


class NewApiKey(ApiKey, frozen=True, kw_only=True):
    """A new API key.

    Attributes:
        key: The text of the key, which the server does not store.
    """

    key: str


class Quota(Model, frozen=True, kw_only=True):
    """The usage and the limit of one quota; the limit is None when there is none."""

    name: str
    used: int
    allowed: int | None


class Quotas(Model, frozen=True, kw_only=True):
    """All quotas of the owner of the API key."""

    limits: list[Quota]


class SourceStream(Model, frozen=True, kw_only=True):
    """The stream that a pipeline reads."""

    chain: str
    entity: str


class OverviewItem(Model, frozen=True, kw_only=True):
    """A configuration in a list.

    Members about the deployment are None while the configuration is not deployed.

    Attributes:
        source: The source of the newest revision; None when the server can't read it, or is of an older version.
        state: `draft`, `deployed`, `paused`, `failing` or `unreadable`.
        updated_at: When the newest revision was saved.
        messages_received: One count for each minute of the last hour, the oldest first; likewise the next two members.
        lag: Records in the source that are not processed yet.
    """

    id: str
    name: str
    external_id: str | None
    tags: list[str]
    source: SourceStream | None = None
    state: str
    condition: str | None
    revision: int
    updated_at: datetime | None = None
    messages_received: list[int] | None
    messages_sent: list[int] | None
    errors: list[int] | None
    avg_data_age_ms: float | None
    lag: int | None


class OverviewPage(Model, frozen=True, kw_only=True):
    """One page of the overview, the newest configuration first.

    Attributes:
        first_minute: The start of the minute of the first counts.
    """

    items: list[OverviewItem]
    cursor: str | None
    first_minute: datetime


class Readiness(Model, frozen=True, kw_only=True):
    """Whether the server is ready, and the state of each service that it needs."""

    status: str
    dependencies: dict[str, str]
