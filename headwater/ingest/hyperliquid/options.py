"""The options of a Hyperliquid ingest."""

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from headwater.ingest.options import IngestOptions, WebSocketUrl

Entity = Literal["block", "trade", "fill", "order", "misc_event"]
ENTITIES: Final[tuple[Entity, ...]] = ("block", "trade", "fill", "order", "misc_event")
SOCKET_ENTITIES: Final[tuple[Entity, ...]] = ("trade", "block")
"""The entities that the WebSocket API provides for all users."""


class HyperliquidOptions(IngestOptions):
    """The options of a Hyperliquid ingest, for a node's folder or the WebSocket API.

    Attributes:
        node_data: The folder of a node.
        ws: The URL of the WebSocket API.
        entities: The entities to read; empty for all entities of a node, or for `trade` of the WebSocket API.
        coins: The coins to read from the WebSocket API; empty for all listed perpetuals.
        from_start: Whether the first start also reads existing files.
    """

    chain: str = "hyperliquid"
    node_data: Annotated[Path, AfterValidator(Path.expanduser)] | None = None
    ws: WebSocketUrl | None = None
    entities: tuple[Entity, ...] = ()
    coins: tuple[str, ...] = Field((), max_length=1000)
    from_start: bool = False

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.node_data is None) == (self.ws is None):
            raise ValueError("name one source: `node_data` (a node's folder) or `ws` (a WebSocket API)")
        if self.ws is not None:
            self._check_websocket_options()
        elif self.coins:
            raise ValueError("`coins` is for `ws` alone; a node writes all coins")
        return self

    def _check_websocket_options(self) -> None:
        if len(self.entities) > 1 or not set(self.entities) <= set(SOCKET_ENTITIES):
            raise ValueError("over `ws` an ingest reads trade or block; the other entities need `node_data`")
        if self.from_start:
            raise ValueError("a WebSocket API has no past; `from_start` needs `node_data`")
