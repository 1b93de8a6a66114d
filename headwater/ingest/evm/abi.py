"""Event ABIs (Solidity's contract ABI specification, JSON form), and which of them fits a log."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from eth_abi.exceptions import ParseError
from eth_abi.registry import registry
from eth_hash.auto import keccak

from headwater.errors import SetupError

MAX_INDEXED: Final = 3
_SHORT: Final = {"uint": "uint256", "int": "int256", "fixed": "fixed128x18", "ufixed": "ufixed128x18"}
_TYPE: Final = re.compile(r"(tuple|[a-z]+[0-9]*(?:x[0-9]+)?)((?:\[[0-9]*\])*)")
_WRITTEN: Final = re.compile(r"(\w+)\((.*)\)")


class Param(NamedTuple):
    """type: canonical, with tuples as `(…)`. components: of a tuple, or of an array of tuples."""

    name: str
    type: str
    indexed: bool
    components: tuple["Param", ...] = ()


class Event(NamedTuple):
    """An event with a topic0. signature: canonical, like `Transfer(address,address,uint256)`."""

    name: str
    params: tuple[Param, ...]
    signature: str
    topic0: str

    @property
    def topics(self) -> int:
        """How many topics its logs have."""
        return 1 + sum(param.indexed for param in self.params)


def _event(name: str, params: Iterable[Param]) -> Event:
    params = tuple(params)
    if sum(param.indexed for param in params) > MAX_INDEXED:
        raise SetupError(f"The event {name} has more than {MAX_INDEXED} indexed parameters: this is no event ABI.")
    signature = f"{name}({','.join(param.type for param in params)})"
    return Event(name, params, signature, f"0x{keccak(signature.encode()).hex()}")


def written(text: str) -> Event:
    """An event as `Transfer(address indexed from, address indexed to, uint256 value)`; no tuples."""
    match = _WRITTEN.fullmatch(text)
    assert match is not None
    params = (part.split() for part in match[2].split(",") if part)
    return _event(match[1], [Param(words[-1], words[0], "indexed" in words) for words in params])


def read_fragment(fragment: Any) -> Event | None:
    """The event of one member of a JSON ABI; None when that is none, or an anonymous one. Raises SetupError."""
    if not isinstance(fragment, Mapping) or fragment.get("type", "event") != "event" or fragment.get("anonymous"):
        return None
    try:
        return _event(_name(fragment["name"]), map(_param, fragment["inputs"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise SetupError(f"An event of the ABI lacks a member or has one of a wrong type: {error!r}.") from error


def check_types(event: Event) -> None:
    """Raises SetupError when a parameter has a type that nothing can be decoded by, like `uint256[0]`."""
    for param in event.params:
        try:
            registry.get_decoder(param.type)
        except (ValueError, ParseError) as error:
            raise SetupError(f"The event {event.name}: {param.type!r} is no type of an ABI.") from error


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError("name")
    return name


def _param(entry: Mapping[str, Any]) -> Param:
    components = tuple(map(_param, entry.get("components", ())))
    return Param(
        _name(entry.get("name", "")), _canonical(entry["type"], components), bool(entry.get("indexed")), components
    )


def _canonical(text: str, components: Sequence[Param]) -> str:
    match = _TYPE.fullmatch(text)
    if match is None:
        raise SetupError(f"{text!r} is no type of an ABI.")
    base, suffix = match[1], match[2]
    if base == "tuple":
        base = f"({','.join(component.type for component in components)})"
    return _SHORT.get(base, base) + suffix


def write_fragment(event: Event) -> dict[str, Any]:
    """The event as a member of a JSON ABI; `read_fragment` reads it."""
    return {"type": "event", "name": event.name, "inputs": [_written_param(param) for param in event.params]}


def _written_param(param: Param) -> dict[str, Any]:
    kind, _, suffix = param.type.rpartition(")")
    entry: dict[str, Any] = {"name": param.name, "type": f"tuple{suffix}" if kind else param.type}
    if param.indexed:
        entry["indexed"] = True
    if param.components:
        entry["components"] = [_written_param(component) for component in param.components]
    return entry


class Abis:
    """Events by what is known of a log. Later ones come before earlier ones of the same topic0.

    generic: for any contract. own: by the contract's address, in lower case.
    """

    def __init__(self, generic: Iterable[Event], own: Mapping[str, Iterable[Event]]) -> None:
        self._generic = _by_topics(generic)
        self._own = {address: _by_topics(events) for address, events in own.items()}

    def candidates(self, address: str, topic0: str, topics: int) -> Sequence[Event]:
        """The events that a log with so many topics may be, the best first."""
        key = (topic0, topics)
        own = self._own.get(address)
        generic = self._generic.get(key, ())
        return generic if own is None else (*own.get(key, ()), *generic)


def _by_topics(events: Iterable[Event]) -> dict[tuple[str, int], list[Event]]:
    found: dict[tuple[str, int], list[Event]] = {}
    for event in events:
        same = found.setdefault((event.topic0, event.topics), [])
        if event in same:
            same.remove(event)
        same.insert(0, event)
    return found
