"""Composition of a Hyperliquid ingest."""

from headwater.app.home import Home
from headwater.ingest.base import Feed
from headwater.ingest.hyperliquid.node import NodeFeed
from headwater.ingest.hyperliquid.options import HyperliquidOptions
from headwater.ingest.hyperliquid.socket import SocketFeed
from headwater.ingest.options import IngestOptions


def open_hyperliquid(options: IngestOptions, _home: Home) -> Feed:
    """The feed of a node's folder or of a WebSocket API."""
    assert isinstance(options, HyperliquidOptions)
    return SocketFeed(options) if options.ws is not None else NodeFeed(options)
