"""Composition of `headwater abi import`: event ABIs in the data directory."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from headwater.app.home import Home
from headwater.errors import SetupError
from headwater.ingest.evm.abi import Abis, Event, read_fragment, write_fragment
from headwater.ingest.evm.abi_files import read_events
from headwater.ingest.evm.well_known import well_known
from headwater.settings import Settings

_ADDRESS: Final = re.compile(r"0x[0-9a-f]{40}")


class _Stored(msgspec.Struct):
    """Fragments, the newest last.

    Attributes:
        events: For any contract; events that ship come before them.
        overrides: For any contract, before events that ship.
        contracts: For one contract, by its address in lower case.
    """

    events: list[Any] = []
    overrides: list[Any] = []
    contracts: dict[str, list[Any]] = {}


class Imported(NamedTuple):
    """new: events that were not known in this place. known: all imported ones, of all contracts together."""

    new: int
    known: int


def load_abis(settings: Settings) -> Abis:
    """All events, those that come first last: imported ones, those that ship, and those imported in place of these.

    Raises SetupError.
    """
    stored = _read(Home(settings.data_dir).abis)
    own = {address: _events(fragments) for address, fragments in stored.contracts.items()}
    return Abis([*_events(stored.events), *reversed(well_known()), *_events(stored.overrides)], own)


def import_abis(
    settings: Settings, files: Iterable[Path], address: str = "", *, override_shipped: bool = False
) -> Imported:
    """Add the events of some files, for one contract when an address is given. Raises SetupError.

    override_shipped: their parameter names replace those of the events that ship with Headwater.
    """
    address = address.lower()
    if address and not _ADDRESS.fullmatch(address):
        raise SetupError(f"{address} is no address: it has 0x and 40 hex digits.")
    if address and override_shipped:
        raise SetupError("The ABI of one contract comes before events that ship: leave --override-shipped out.")
    home = Home(settings.data_dir)
    stored = _read(home.abis)
    general = stored.overrides if override_shipped else stored.events
    place = stored.contracts.setdefault(address, []) if address else general
    siblings = [place] if address else [stored.events, stored.overrides]
    new = 0
    for fragment in [write_fragment(event) for file in files for event in read_events(file)]:
        holders = [each for each in siblings if fragment in each]
        new += not holders
        for holder in holders:
            holder.remove(fragment)
        place.append(fragment)
    home.create()
    scratch = home.abis.with_suffix(".new")
    scratch.write_bytes(msgspec.json.encode(stored))
    scratch.replace(home.abis)
    return Imported(new, sum(map(len, (stored.events, stored.overrides, *stored.contracts.values()))))


def shipped_names(settings: Settings) -> list[str]:
    """The shipped events whose parameter names stay, although other names were imported. Raises SetupError."""
    stored = _read(Home(settings.data_dir).abis)
    overridden = {_layout(event) for event in _events(stored.overrides)}
    imported = {_layout(event): event for event in _events(stored.events)}
    return [
        f"{event.name}({', '.join(f'{param.type} {param.name}' for param in event.params)})"
        for event in well_known()
        if _layout(event) not in overridden and imported.get(_layout(event), event) != event
    ]


def _layout(event: Event) -> tuple[str, tuple[bool, ...]]:
    """What the logs of an event have in common; only names can differ."""
    return event.topic0, tuple(param.indexed for param in event.params)


def _read(path: Path) -> _Stored:
    if not path.exists():
        return _Stored()
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Stored)
    except msgspec.DecodeError as error:
        raise SetupError(f"The imported ABIs in {path} can't be read: {error}. Remove it and import again.") from error


def _events(fragments: Iterable[Any]) -> list[Event]:
    return [event for event in map(read_fragment, fragments) if event is not None]
