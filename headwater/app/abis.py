"""Implements `headwater abi import`: stores event ABIs in the data directory."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from headwater.app.data_directory import DataDirectory
from headwater.errors import SetupError
from headwater.ingest.evm.abi import Abis, Event, event_of_fragment, fragment_of_event
from headwater.ingest.evm.abi_files import read_events
from headwater.ingest.evm.well_known import well_known
from headwater.settings import Settings

_ADDRESS: Final = re.compile(r"0x[0-9a-f]{40}")


class _StoredAbis(msgspec.Struct):
    """The stored ABI fragments. The newest fragment is the last one of each list.

    Attributes:
        events: Fragments for any contract. Shipped events have priority over them.
        overrides: Fragments for any contract that have priority over shipped events.
        contracts: Fragments for one contract, by its address in lower case.
    """

    events: list[Any] = []
    overrides: list[Any] = []
    contracts: dict[str, list[Any]] = {}


class AbiImportResult(NamedTuple):
    """The result of an import.

    Attributes:
        new: The number of events that had not been imported before, for the contract or for all contracts.
        total: The number of all imported events.
    """

    new: int
    total: int


def load_abis(settings: Settings) -> Abis:
    """Return all events in ascending priority. Raises SetupError.

    Imported events come first, then the events that ship with Headwater, then the imported events that override them.
    """
    stored = _read(DataDirectory(settings.data_dir).abis)
    by_contract = {address: _events(fragments) for address, fragments in stored.contracts.items()}
    shipped = reversed(well_known())  # in ascending priority
    return Abis([*_events(stored.events), *shipped, *_events(stored.overrides)], by_contract)


def import_abis(
    settings: Settings, files: Iterable[Path], address: str = "", *, override_shipped: bool = False
) -> AbiImportResult:
    """Add the events of ABI files. Raises SetupError.

    Args:
        settings: The settings of the installation.
        files: The files.
        address: The contract to which the events belong; empty for all contracts.
        override_shipped: Whether the parameter names in the files replace the parameter names of events that ship with
            Headwater.
    """
    address = address.lower()
    if address and not _ADDRESS.fullmatch(address):
        raise SetupError(f"{address} is not an address: an address is 0x and 40 hex digits.")
    if address and override_shipped:
        raise SetupError(
            "The ABI of a single contract always has priority over shipped events: omit --override-shipped."
        )
    data_directory = DataDirectory(settings.data_dir)
    stored = _read(data_directory.abis)
    if address:
        target = stored.contracts.setdefault(address, [])
        lists = [target]
    else:
        target = stored.overrides if override_shipped else stored.events
        lists = [stored.events, stored.overrides]
    fragments = [fragment_of_event(event) for file in files for event in read_events(file)]
    new = sum(_append(fragment, target, lists) for fragment in fragments)
    data_directory.create()
    scratch = data_directory.abis.with_suffix(".new")
    scratch.write_bytes(msgspec.json.encode(stored))
    scratch.replace(data_directory.abis)
    return AbiImportResult(new, sum(map(len, (stored.events, stored.overrides, *stored.contracts.values()))))


def _append(fragment: Any, target: list[Any], lists: list[list[Any]]) -> bool:
    """Move a fragment to the end of `target`. Returns whether it was in none of the lists."""
    lists_with_fragment = [fragments for fragments in lists if fragment in fragments]
    for fragments in lists_with_fragment:
        fragments.remove(fragment)
    target.append(fragment)
    return not lists_with_fragment


def events_with_shipped_names(settings: Settings) -> list[str]:
    """Return the shipped events whose parameter names take precedence over imported names.

    Raises SetupError.
    """
    stored = _read(DataDirectory(settings.data_dir).abis)
    overridden = {_layout(event) for event in _events(stored.overrides)}
    imported = {_layout(event): event for event in _events(stored.events)}
    return [
        f"{event.name}({', '.join(f'{param.type} {param.name}' for param in event.params)})"
        for event in well_known()
        if _layout(event) not in overridden and imported.get(_layout(event), event) != event
    ]


def _layout(event: Event) -> tuple[str, tuple[bool, ...]]:
    """Return topic0 of an event, and which of its parameters are indexed.

    A log contains nothing else of its event's definition, so events with the same layout differ only in their names.
    """
    return event.topic0, tuple(param.indexed for param in event.params)


def _read(path: Path) -> _StoredAbis:
    if not path.exists():
        return _StoredAbis()
    try:
        return msgspec.json.decode(path.read_bytes(), type=_StoredAbis)
    except msgspec.DecodeError as error:
        raise SetupError(f"The imported ABIs in {path} can't be read: {error}. Remove it and import again.") from error


def _events(fragments: Iterable[Any]) -> list[Event]:
    return [event for event in map(event_of_fragment, fragments) if event is not None]
