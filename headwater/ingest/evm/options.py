"""The options of an EVM ingest."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from headwater.ingest.evm.completeness import Method
from headwater.ingest.options import HttpUrls, IngestOptions, WebSocketUrl


def _tag_or_depth(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Validate with one error message instead of one for each type of the union."""
    try:
        return check(value)
    except ValidationError:
        raise ValueError("must be finalized, safe or a number of blocks, 1 or more") from None


Finality = Annotated[Literal["finalized", "safe"] | Annotated[int, Field(ge=1)], WrapValidator(_tag_or_depth)]


class EvmOptions(IngestOptions):
    """Options of an EVM ingest. Blocks are counted from 0.

    Attributes:
        rpc: The URLs of nodes of the chain, the preferred one first, or `$NAME` of an environment variable with URLs.
        ws: The URL of a WebSocket, or `$NAME`. URLs may contain keys.
        finality: The node's tag of final blocks, or a number of blocks below the head.
        rate: The calls per second to each node; 0 for no limit.
        fetch: The preferred method for the logs of a block.
    """

    rpc: HttpUrls
    ws: WebSocketUrl | None = None
    finality: Finality = "finalized"
    zerolag: bool = False
    from_block: int | None = Field(None, ge=0)
    to_block: int | None = Field(None, ge=0)
    rate: float = Field(0.0, ge=0)
    parallel: int = Field(4, ge=1, le=32)
    poll_s: float = Field(1.0, gt=0, le=60)
    fetch: Method | None = None
    reorg_depth: int = Field(256, ge=1, le=4096)

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.to_block is not None and (self.from_block is None or self.from_block > self.to_block):
            raise ValueError("`to_block` needs a `from_block` that is not above it")
        if self.to_block is not None and self.zerolag:
            raise ValueError("a range of blocks has no zerolag streams: those follow the head")
        return self
