"""Opens the chain reader of a Hyperliquid ingest."""

from threading import Event

from headwater.errors import SetupError
from headwater.ingest.base import ChainReader
from headwater.ingest.hyperliquid.node_files_reader import NodeFilesReader
from headwater.ingest.hyperliquid.options import HyperliquidOptions
from headwater.ingest.hyperliquid.websocket_reader import WebSocketReader
from headwater.ingest.options import IngestOptions
from headwater.settings import Settings


def open_hyperliquid(options: IngestOptions, _settings: Settings, stop: Event) -> ChainReader:
    """Open the chain reader of a node's folder or of a WebSocket API.

    Raises SetupError when there is no such folder.
    """
    assert isinstance(options, HyperliquidOptions)
    if options.node_data is None:
        return WebSocketReader(options, stop)
    if not options.node_data.is_dir():
        raise SetupError(
            f"There is no folder {options.node_data}. Point --node-data (`node_data` in the file of --ingests) at the "
            "folder that the node writes to, usually ~/hl/data, and start the node before the ingest."
        )
    return NodeFilesReader(options)
