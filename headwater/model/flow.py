"""Pipeline configurations: what a user posts, as validated values, and the stored configuration."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from headwater.model.sink import MAX_SINKS, Sink
from headwater.model.transform import MAX_TRANSFORMS, Transform

MAX_PARALLELISM = 64


class Source(BaseModel):
    """The stream that a pipeline reads. Checked against the catalog by services/flows.py."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["kafka", "pubsub"]
    chain: str
    entity: str
    is_zerolag: bool = False
    start_at: str = Field(default="latest", description='"latest", "earliest" or an RFC 3339 time.')


class PipelineConfig(BaseModel):
    """A validated pipeline: every transform and sink has its uid."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Source
    transforms: list[Transform] = Field(default_factory=list, max_length=MAX_TRANSFORMS)
    sinks: list[Sink] = Field(min_length=1, max_length=MAX_SINKS)
    parallelism: int = Field(default=1, ge=1, le=MAX_PARALLELISM)


@dataclass(frozen=True, slots=True)
class Flow:
    """A stored configuration at its newest revision. Times are UTC."""

    id: str
    owner: str
    name: str
    description: str
    tags: tuple[str, ...]
    pipeline_config: PipelineConfig
    revision: int
    created_at: datetime
    updated_at: datetime
