"""What an ingest is told: by flags of its command, or by an entry of the file that `up` reads."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("a name has 1 to 63 lower-case letters, digits, dots, hyphens and underscores")
    return name


class IngestOptions(BaseModel):
    """Base of the options of each kind of ingest. Two ingests of one name shut each other out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, AfterValidator(_checked)]
    chain: str
    metrics_port: int = Field(0, ge=0, le=65535)
