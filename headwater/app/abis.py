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


class _Stored(msgspec.Struct):
    """The stored ABI fragments. The newest is the last of each list.

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
        new: The number of events that had not been imported for this contract, or for all contracts, before.
        known: The number of all imported events.
    """

    new: int
    known: int


def load_abis(settings: Settings) -> Abis:
    """Return all events in ascending priority. Raises SetupError.

    They are imported ones, those that ship with Headwater, and imported ones that override shipped ones.
    """
    stored = _read(DataDirectory(settings.data_dir).abis)
    own = {address: _events(fragments) for address, fragments in stored.contracts.items()}
    return Abis([*_events(stored.events), *reversed(well_known()), *_events(stored.overrides)], own)


def import_abis(
    settings: Settings, files: Iterable[Path], address: str = "", *, override_shipped: bool = False
) -> AbiImportResult:
    """Add the events of some files, for one contract when an address is given.

    Raises SetupError.

    With `override_shipped`, their parameter names replace those of the events that ship with Headwater.
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
    general = stored.overrides if override_shipped else stored.events
    target = stored.contracts.setdefault(address, []) if address else general
    candidates = [target] if address else [stored.events, stored.overrides]
    new = 0
    for fragment in [fragment_of_event(event) for file in files for event in read_events(file)]:
        lists_with_fragment = [candidate for candidate in candidates if fragment in candidate]
        new += not lists_with_fragment
        for some in lists_with_fragment:
            some.remove(fragment)
        target.append(fragment)
    data_directory.create()
    scratch = data_directory.abis.with_suffix(".new")
    scratch.write_bytes(msgspec.json.encode(stored))
    scratch.replace(data_directory.abis)
    return AbiImportResult(new, sum(map(len, (stored.events, stored.overrides, *stored.contracts.values()))))


def shipped_names(settings: Settings) -> list[str]:
    """Return the shipped events whose parameter names take precedence over imported ones.

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
    """Return what a log shows of its event: topic0, and which parameters are indexed.

    Events with the same layout differ only in names.
    """
    return event.topic0, tuple(param.indexed for param in event.params)


def _read(path: Path) -> _Stored:
    if not path.exists():
        return _Stored()
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Stored)
    except msgspec.DecodeError as error:
        raise SetupError(f"The imported ABIs in {path} can't be read: {error}. Remove it and import again.") from error


def _events(fragments: Iterable[Any]) -> list[Event]:
    return [event for event in map(event_of_fragment, fragments) if event is not None]
