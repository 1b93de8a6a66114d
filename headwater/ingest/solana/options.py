"""The options of a Solana ingest."""

from typing import Literal, Self

from pydantic import Field, model_validator

from headwater.ingest.options import HttpUrl, IngestOptions


class SolanaOptions(IngestOptions):
    """The options of a Solana ingest.

    Attributes:
        rpc: The URL of a node, or `$NAME` of an environment variable.
        rate: The calls per second; 0 for no limit.
        parallel: The number of blocks that are fetched at once.
        poll_s: The seconds between two requests for the newest slot.
    """

    chain: str = "solana"
    rpc: HttpUrl
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
            raise ValueError("`to_slot` needs a `from_slot` that is not above it")
        return self
