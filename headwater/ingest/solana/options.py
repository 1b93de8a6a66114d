"""What a Solana ingest is told."""

import os
import re
from typing import Annotated, Any, Final, Literal, Self

import httpx
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from headwater.ingest.options import IngestOptions

_VARIABLE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def _from_environment(value: Any) -> Any:
    """`$NAME` stands for a variable, so that no file needs to hold a key."""
    match = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    if match[1] not in os.environ:
        raise ValueError(f"the environment variable {match[1]} is not set")
    return os.environ[match[1]]


def _http(url: SecretStr) -> SecretStr:
    """The errors tell nothing of the URL: it may carry a key."""
    if not url.get_secret_value().startswith(("http://", "https://")):
        raise ValueError("a URL begins with http:// or https://")
    try:
        host = httpx.URL(url.get_secret_value()).host
    except httpx.InvalidURL:
        host = ""
    if not host:
        raise ValueError("this is no URL")
    return url


class SolanaOptions(IngestOptions):
    """rpc: URL of a node, or `$NAME` of a variable that holds it. rate: calls a second, 0 for no limit.

    parallel: blocks that are fetched at once. poll_s: seconds between two questions for the newest slot.
    """

    chain: str = "solana"
    rpc: Annotated[SecretStr, BeforeValidator(_from_environment), AfterValidator(_http)]
    commitment: Literal["finalized", "confirmed"] = "finalized"
    encoding: Literal["json", "base64"] = "json"
    from_slot: int | None = Field(None, ge=0)
    to_slot: int | None = Field(None, ge=0)
    rate: float = Field(0.0, ge=0)
    parallel: int = Field(4, ge=1, le=32)
    poll_s: float = Field(0.5, gt=0, le=5)

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.to_slot is not None and (self.from_slot is None or self.from_slot > self.to_slot):
            raise ValueError("to_slot needs a from_slot that is not above it")
        return self


def default_name(from_slot: int | None, to_slot: int | None) -> str:
    """The name of an ingest that was given none: a range has one of its own, and so a position of its own."""
    return "solana" if to_slot is None else f"solana-{from_slot or 0}-{to_slot}"
