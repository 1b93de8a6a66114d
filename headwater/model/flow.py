"""Configurations of pipelines, as they are stored and as requests contain them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from headwater.errors import StoredDataUnreadable
from headwater.model.fields import ReturnedOnly, Text
from headwater.model.parallelism import Parallelism
from headwater.model.request_model import RequestModel
from headwater.model.sink import MAX_SINKS, NewSink, Sink
from headwater.model.stream import CATALOG
from headwater.model.timestamps import parse_rfc_3339
from headwater.model.transforms import MAX_TRANSFORMS, SET_TYPES, NewTransform, TransformConfig
from headwater.model.transforms.base import TransformIdentity

MAX_NAME_CHARS = 200
MAX_EXTERNAL_ID_CHARS = 200

EARLIEST_START = datetime(1970, 1, 1, tzinfo=UTC)
"""The earliest time to start at. Kafka gives negative timestamps a special meaning, such as "latest"."""

DeliveryMode = Literal["at_least_once", "exactly_once"]


_TYPE_DESCRIPTION = (
    "A label that the catalog fixes for each chain: `pubsub` or `kafka`; set from the chain when omitted. It does not "
    "select the source: the operator's stream bindings say where the records come from."
)


class Source(BaseModel):
    """The stream that a pipeline reads.

    services/pipeline_checker.py checks that the catalog has the stream.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["kafka", "pubsub"]
    chain: str
    entity: str
    is_zerolag: bool = False
    start_at: str = Field(default="latest", description='"latest", "earliest" or an RFC 3339 time.')


class PipelineConfig(BaseModel):
    """The validated pipeline of a configuration, with the uid of each transform and sink.

    In this package, a field or variable `config` is a PipelineConfig; `config_id` is the id of the whole configuration.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Source
    transforms: list[TransformConfig] = Field(default_factory=list, max_length=MAX_TRANSFORMS)
    sinks: list[Sink] = Field(min_length=1, max_length=MAX_SINKS)
    parallelism: Parallelism = 1
    delivery: DeliveryMode = "at_least_once"

    @property
    def unreadable_reason(self) -> str:
        """Why this version can't read the stored pipeline, and what to do; empty when it can.

        It is empty here. UnreadablePipelineConfig overrides it.
        """
        return ""

    @property
    def transform_identities(self) -> tuple[TransformIdentity, ...]:
        """The identities of the transforms, in order.

        The transforms of a later request are matched to them.
        """
        return tuple(
            TransformIdentity(transform.uid, transform.type, transform.name, transform.content)
            for transform in self.transforms
        )

    def without_internal_fields(self) -> Self:
        """Return the pipeline without the fields of transforms that users never see."""
        return self.model_copy(
            update={"transforms": [transform.without_internal_fields() for transform in self.transforms]}
        )

    @property
    def filter_uids(self) -> frozenset[str]:
        """The uids of the filters, which are the transforms that own a set."""
        return frozenset(identity.uid for identity in self.transform_identities if identity.type in SET_TYPES)


@dataclass(frozen=True, slots=True)
class Flow:
    """A configuration at one of its revisions, most often the newest one.

    Times are in UTC.

    Attributes:
        external_id: The owner's id of the configuration. It is unique among the owner's configurations.
        tags_error: Why the stored tags can't be read, and what to do; empty when they can be read.
        decryption_error: Why the passwords of the active deployment can't be decrypted, and what to do; empty when they
            can be decrypted, and when no deployment is active.
    """

    id: str
    owner: str
    name: str
    description: str
    tags: tuple[str, ...]
    pipeline_config: PipelineConfig
    revision: int
    created_at: datetime
    updated_at: datetime
    external_id: str | None = None
    tags_error: str = ""
    decryption_error: str = ""

    @property
    def unreadable_reason(self) -> str:
        """Why this version can't read the configuration, and what to do; empty when it can."""
        return self.pipeline_config.unreadable_reason or self.tags_error or self.decryption_error

    def require_readable(self) -> None:
        """Raise StoredDataUnreadable when the configuration can't be read."""
        if self.unreadable_reason:
            raise StoredDataUnreadable(self.unreadable_reason)


def _is_start_time(text: str) -> bool:
    try:
        return parse_rfc_3339(text) >= EARLIEST_START
    except ValueError:
        return False


def require_start_at(text: str) -> str:
    """Return a valid `start_at`. Raises ValueError.

    A time is returned with `T` and `Z` in upper case, because not every parser accepts them in lower case.
    """
    if text in ("latest", "earliest"):
        return text
    if not _is_start_time(text):
        raise ValueError(
            'must be "latest", "earliest" or an RFC 3339 time with a time zone since 1970, such as 2026-01-02T03:04:05Z'
        )
    return text.upper()


def _catalog_schemas() -> Iterator[dict[str, Any]]:
    """Yield the JSON schemas of a source.

    Chains with the same entities and the same type of source share a schema.
    """
    for source_type, entities in dict.fromkeys((chain.source_type, chain.entities) for chain in CATALOG):
        chains = [chain for chain in CATALOG if (chain.source_type, chain.entities) == (source_type, entities)]
        yield {
            "properties": {
                "type": {"enum": [source_type, None]},
                "chain": {"enum": [chain.name for chain in chains]},
                "entity": {"enum": [entity.name for entity in entities]},
            }
        }


class NewSource(RequestModel):
    """The source in a request.

    The type may be omitted, because each chain has only one type of source.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, json_schema_extra={"anyOf": list(_catalog_schemas())}
    )

    type: str | None = Field(default=None, description=_TYPE_DESCRIPTION)
    chain: str = Field(description="Lowercase chain name, see GET /api/v1/flow/streams.")
    entity: str = Field(description="Kind of record, see GET /api/v1/flow/streams.")
    is_zerolag: bool = Field(default=False, description="Read the faster feed of the stream, where there is one.")
    start_at: Annotated[str, AfterValidator(require_start_at)] = Field(
        default="latest",
        description='Where a new deployment starts: "latest", "earliest" or an RFC 3339 time since 1970.',
        json_schema_extra={
            "anyOf": [
                {"enum": ["latest", "earliest"]},
                {"format": "date-time", "pattern": "^(19[7-9][0-9]|[2-9][0-9]{3})-"},
            ]
        },
    )


class NewPipelineConfig(RequestModel):
    """The pipeline in a request."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    source: NewSource
    transforms: list[NewTransform] = Field(
        default_factory=list,
        max_length=MAX_TRANSFORMS,
        description="The transforms that process each record, in this order.",
    )
    sinks: list[NewSink] = Field(
        min_length=1, max_length=MAX_SINKS, description="The sinks of the results; each receives all. Names are unique."
    )
    parallelism: Parallelism = Field(
        default=1,
        description="Number of workers; or the bounds between which the number follows the load: "
        '`{"min": 1, "max": 8}`.',
    )
    delivery: DeliveryMode = Field(
        default="at_least_once",
        description="`exactly_once` writes results in transactions, for readers with `read_committed`.",
    )


class NewFlow(RequestModel):
    """The request body that creates or replaces a configuration.

    Fields that only responses have are accepted and ignored.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Text = Field(min_length=1, max_length=MAX_NAME_CHARS, description="The pipeline's name; need not be unique.")
    description: Text = Field(default="", description="What the pipeline is for.")
    tags: list[Text] = Field(default_factory=list, description="Words to organise pipelines by.")
    external_id: Text | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_EXTERNAL_ID_CHARS,
        description="Your own id of the configuration, unique among yours. PUT without this keeps it; null removes it.",
    )
    pipeline_config: NewPipelineConfig

    id: ReturnedOnly = None
    owner_org_team_user_id: ReturnedOnly = None
    created_at: ReturnedOnly = None
    updated_at: ReturnedOnly = None
    revision: ReturnedOnly = None
    warnings: ReturnedOnly = None
    unreadable: ReturnedOnly = None
