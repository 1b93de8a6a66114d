"""All kinds of ingest, and the file that names those which `up` runs."""

import json
from collections.abc import Mapping
from pathlib import Path

from headwater.app.evm import open_evm
from headwater.app.hyperliquid import open_hyperliquid
from headwater.app.ingest import OpenFeed
from headwater.errors import SetupError
from headwater.ingest.evm.options import EvmOptions
from headwater.ingest.hyperliquid.options import HyperliquidOptions
from headwater.ingest.options import IngestOptions, read_options
from headwater.ingest.solana.feed import open_solana
from headwater.ingest.solana.options import SolanaOptions

KINDS: Mapping[str, tuple[type[IngestOptions], OpenFeed]] = {
    "evm": (EvmOptions, open_evm),
    "hyperliquid": (HyperliquidOptions, open_hyperliquid),
    "solana": (SolanaOptions, open_solana),
}
"""By `type`: the options, and what opens the feed."""


def load_ingests(path: Path | None) -> dict[str, tuple[IngestOptions, OpenFeed]]:
    """The ingests of a file by their names. Raises SetupError with the place of the first fault."""
    if path is None:
        return {}
    try:
        entries = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SetupError(f"The ingests in {path} can't be read: {error}.") from error
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise SetupError(f'{path} must hold one JSON object, like {{"base": {{"type": "evm", "chain": "base", …}}}}.')
    return {name: _ingest(path, name, dict(entry)) for name, entry in entries.items()}


def _ingest(path: Path, name: str, entry: dict[str, object]) -> tuple[IngestOptions, OpenFeed]:
    kind = KINDS.get(str(entry.pop("type", "")))
    if kind is None:
        raise SetupError(f"{path}: {name} needs a type: {', '.join(KINDS)}.")
    options, open_feed = kind
    return read_options(options, entry | {"name": name}, f"{path}: {name}"), open_feed
