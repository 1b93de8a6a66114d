"""Reads event ABIs from files in the formats of explorers, compilers and libraries.

The files are JSON ABIs, single fragments, build artifacts, responses of explorers, output of solc (standard JSON and
`--combined-json`), human-readable ABIs, and lines of any of these.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from headwater.errors import SetupError
from headwater.ingest.evm.abi import Event, event_of_fragment, fragment_of_text
from headwater.ingest.evm.values import type_decoder_of
from headwater.record_files.record_file import read_lines

_CONTAINERS: Final = ("abi", "ABI", "result", "output", "contracts")
"""The members that contain ABIs in build artifacts, responses of explorers, and output of compilers."""
_HUMAN_READABLE: Final = (b"event ", b"function ", b"error ", b"constructor", b"fallback", b"receive", b"struct ")
"""The starts of lines of a human-readable ABI."""


def read_events(file: Path) -> list[Event]:
    """Return the events of a file, which may be compressed.

    Raises SetupError when the file has no event, or when an event has an unknown type.
    """
    lines = list(read_lines(file))
    try:
        documents = _documents(lines)
        fragments = [fragment for document in documents for fragment in _fragments(document)]
        events = [event for event in map(event_of_fragment, fragments) if event is not None]
        for event in events:
            _check_types(event)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SetupError(f"{file} holds neither JSON nor JSON lines nor a human-readable ABI: {error}.") from error
    except RecursionError as error:
        raise SetupError(f"{file} is nested too deeply to be an ABI.") from error
    except SetupError as error:
        raise SetupError(f"{file}: {error.detail}") from error
    if not events:
        raise SetupError(f"{file} holds no events. {_advice(documents)}")
    return events


def _check_types(event: Event) -> None:
    try:
        for param in event.params:
            type_decoder_of(param)
    except ValueError as error:
        raise SetupError(f"The event {event.name}: {error}.") from error


def _documents(lines: Sequence[bytes]) -> list[Any]:
    try:
        return [msgspec.json.decode(b"\n".join(lines))]
    except msgspec.DecodeError:
        return [_decode_line(line.strip()) for line in lines]


def _decode_line(line: bytes) -> Any:
    """Decode a JSON line, or a line of a human-readable ABI."""
    return line.decode() if line.startswith(_HUMAN_READABLE) else msgspec.json.decode(line)


def _fragments(document: Any) -> Iterator[Any]:
    if isinstance(document, str):
        yield from _fragments_of_text(document.strip())
    elif isinstance(document, list):
        for member in document:
            yield from _fragments(member)
    elif isinstance(document, dict):
        yield from _fragments_of_object(document)


def _fragments_of_text(text: str) -> Iterator[Any]:
    """Yield the fragments of a human-readable entry, or of an ABI in a JSON string.

    Explorers send ABIs in JSON strings.
    """
    if text.startswith("event "):
        yield fragment_of_text(text)
    elif text.startswith(("[", "{")):
        yield from _fragments(msgspec.json.decode(text))


def _fragments_of_object(document: dict[str, Any]) -> Iterator[Any]:
    if document.get("type") == "event":
        yield document
        return
    if document.get("status") == "0" and isinstance(document.get("result"), str):
        raise SetupError(f"It is an explorer's error response without an ABI: {document['result']}")
    for name in _CONTAINERS:
        if name == "contracts":
            yield from _fragments_of_contracts(document.get(name))
        else:
            yield from _fragments(document.get(name))


def _fragments_of_contracts(contracts: Any) -> Iterator[Any]:
    """Yield the fragments of contracts by name, or by file and name.

    solc writes both forms.
    """
    if not isinstance(contracts, dict):
        return
    if "abi" in contracts:
        yield from _fragments(contracts["abi"])
    else:
        for contract in contracts.values():
            yield from _fragments_of_contracts(contract)


def _advice(documents: Sequence[Any]) -> str:
    """Return advice on which file to use instead of a file without events."""
    document = documents[0] if len(documents) == 1 else None
    if isinstance(document, dict) and "language" in document and "sources" in document:
        return "It is the input of a compiler: give its output, or the ABI of the contract alone."
    usable = (
        "Give the list of the ABI's entries (often a member called `abi`), a build artifact, an explorer's response, "
        "the output of solc, or lines of events as `event Paused(address account)`."
    )
    if isinstance(document, dict) and document:
        return f"It is an object with the members {', '.join(sorted(document)[:10])}. {usable}"
    return usable
