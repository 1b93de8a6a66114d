"""Opens the chain reader of a Solana ingest."""

from threading import Event

from headwater.extras import require_extra
from headwater.ingest.options import IngestOptions
from headwater.ingest.solana.chain_reader import SolanaReader
from headwater.ingest.solana.options import SolanaOptions
from headwater.settings import Settings


def open_solana(options: IngestOptions, _settings: Settings, stop: Event) -> SolanaReader:
    """Open the chain reader of a Solana node.

    Raises SetupError when the encoding needs an extra of the package that is not installed.
    """
    assert isinstance(options, SolanaOptions)
    if options.encoding == "base64":
        require_extra("solana", "solders", "The encoding base64")
    return SolanaReader(options, stop)
