"""Composition of a Hyperliquid ingest."""

from threading import Event

from headwater.ingest.base import Feed
from headwater.ingest.hyperliquid.feed import NodeFeed
from headwater.ingest.hyperliquid.options import HyperliquidOptions
from headwater.ingest.hyperliquid.websocket import WebSocketFeed
from headwater.ingest.options import IngestOptions
from headwater.settings import Settings


def open_hyperliquid(options: IngestOptions, _settings: Settings, stop: Event) -> Feed:
    """The feed of a node's folder or of a WebSocket API."""
    assert isinstance(options, HyperliquidOptions)
    return WebSocketFeed(options, stop) if options.ws is not None else NodeFeed(options)
