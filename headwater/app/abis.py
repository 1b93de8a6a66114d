"""Composition of `headwater abi import`: event ABIs in the data directory."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from headwater.app.home import Home
from headwater.errors import SetupError
from headwater.ingest.evm.abi import Abis, Event, check_types, read_fragment, write_fragment
from headwater.ingest.evm.well_known import well_known
from headwater.ingest.files import read_lines
from headwater.settings import Settings

_ADDRESS: Final = re.compile(r"0x[0-9a-f]{40}")


class _Stored(msgspec.Struct):
    """Fragments for any contract, and by address those of one; the newest come last."""

    events: list[Any] = []
    contracts: dict[str, list[Any]] = {}


class Imported(NamedTuple):
    """new: events that were not known in this place. known: all imported ones, of all contracts together."""

    new: int
    known: int


def load_abis(settings: Settings) -> Abis:
    """The events that ship, and in front of them those that were imported. Raises SetupError."""
    stored = _read(Home(settings.data_dir).abis)
    own = {address: _events(fragments) for address, fragments in stored.contracts.items()}
    return Abis([*reversed(well_known()), *_events(stored.events)], own)


def import_abis(settings: Settings, files: Iterable[Path], address: str = "") -> Imported:
    """Add the events of some files, for one contract when an address is given. Raises SetupError."""
    address = address.lower()
    if address and not _ADDRESS.fullmatch(address):
        raise SetupError(f"{address} is no address: it has 0x and 40 hex digits.")
    home = Home(settings.data_dir)
    stored = _read(home.abis)
    place = stored.contracts.setdefault(address, []) if address else stored.events
    new = 0
    for file in files:
        for event in _of_file(file):
            fragment = write_fragment(event)
            new += fragment not in place
            if fragment in place:
                place.remove(fragment)
            place.append(fragment)
    home.create()
    scratch = home.abis.with_suffix(".new")
    scratch.write_bytes(msgspec.json.encode(stored))
    scratch.replace(home.abis)
    return Imported(new, len(stored.events) + sum(map(len, stored.contracts.values())))


def _read(path: Path) -> _Stored:
    if not path.exists():
        return _Stored()
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Stored)
    except msgspec.DecodeError as error:
        raise SetupError(f"The imported ABIs in {path} can't be read: {error}. Remove it and import again.") from error


def _events(fragments: Iterable[Any]) -> list[Event]:
    return [event for event in map(read_fragment, fragments) if event is not None]


def _of_file(file: Path) -> list[Event]:
    """The events of an ABI (a JSON list), of a build artifact (an object with `abi`), or of JSON lines of either or of
    fragments; .gz is unpacked. Raises SetupError when there is none.
    """
    lines = list(read_lines(file))
    try:
        try:
            documents = [msgspec.json.decode(b"\n".join(lines))]
        except msgspec.DecodeError:
            documents = [msgspec.json.decode(line) for line in lines]
        events = _events(fragment for document in documents for fragment in _fragments(document))
        for event in events:
            check_types(event)
    except msgspec.DecodeError as error:
        raise SetupError(f"{file} holds neither JSON nor JSON lines: {error}.") from error
    except SetupError as error:
        raise SetupError(f"{file}: {error.detail}") from error
    if not events:
        raise SetupError(f"{file} holds no events: give an ABI, a build artifact with `abi`, or lines of fragments.")
    return events


def _fragments(document: Any) -> Iterator[Any]:
    if isinstance(document, list):
        for member in document:
            yield from _fragments(member)
    elif isinstance(document, dict) and "abi" in document:
        yield from _fragments(document["abi"])
    elif isinstance(document, dict) and document.get("type") == "event":
        yield document
