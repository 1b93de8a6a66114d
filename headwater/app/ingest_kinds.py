"""All kinds of ingests, and the file with the ingests that `headwater up` runs."""

import json
from collections.abc import Mapping
from pathlib import Path

from headwater.app.evm_ingest import open_evm
from headwater.app.hyperliquid_ingest import open_hyperliquid
from headwater.app.run_ingest import OpenChainReader
from headwater.app.solana_ingest import open_solana
from headwater.errors import SetupError, os_error_reason
from headwater.ingest.evm.options import EvmOptions
from headwater.ingest.hyperliquid.options import HyperliquidOptions
from headwater.ingest.options import IngestOptions, read_options, referenced_variables
from headwater.ingest.solana.options import SolanaOptions

KINDS: Mapping[str, tuple[type[IngestOptions], OpenChainReader]] = {
    "evm": (EvmOptions, open_evm),
    "hyperliquid": (HyperliquidOptions, open_hyperliquid),
    "solana": (SolanaOptions, open_solana),
}
"""For each type of ingest, its options model and the function that opens its chain reader."""


def load_ingests(path: Path | None) -> dict[str, tuple[IngestOptions, OpenChainReader]]:
    """Load the ingests of a file, by name. Raises SetupError with the place of the first fault."""
    return {name: _ingest(path, name, dict(entry)) for name, entry in _entries(path).items()}


def load_ingest(path: Path | None, name: str) -> tuple[IngestOptions, OpenChainReader]:
    """Load one ingest of a file. Raises SetupError when it is missing or invalid.

    The other entries are not validated, since they may name environment variables that this process does not have.
    """
    if path is None:
        raise SetupError("Name the file of the ingests with --ingests or HEADWATER_INGESTS.")
    entries = _entries(path)
    if name not in entries:
        raise SetupError(f"There is no ingest {name}. The file of --ingests has: {', '.join(entries) or 'none'}.")
    return _ingest(path, name, dict(entries[name]))


def variables_of(path: Path | None, name: str) -> frozenset[str]:
    """Return the environment variables that an ingest of a file names."""
    return referenced_variables(_entries(path)[name])


def _entries(path: Path | None) -> dict[str, dict[str, object]]:
    if path is None:
        return {}
    try:
        entries = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SetupError(f"The ingests in {path} can't be read: {os_error_reason(error)}.") from error
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise SetupError(f'{path} must hold one JSON object, like {{"base": {{"type": "evm", "chain": "base", …}}}}.')
    return entries


def _ingest(path: Path | None, name: str, entry: dict[str, object]) -> tuple[IngestOptions, OpenChainReader]:
    kind = KINDS.get(str(entry.pop("type", "")))
    if kind is None:
        raise SetupError(f"{path}: {name} needs a type: {', '.join(KINDS)}.")
    options, open_reader = kind
    return read_options(options, entry | {"name": name}, f"{path}: {name}"), open_reader
