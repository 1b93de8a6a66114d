"""Parses event ABIs, JSON and human-readable, and finds the ABIs of a log.

The types are those of Solidity's contract ABI specification. eth-abi and eth-utils would replace `_canonical` alone:
they parse no human-readable event, and their `normalize` lets types such as `uint7` pass.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from eth_hash.auto import keccak

from headwater.errors import SetupError

MAX_INDEXED: Final = 3
_ALIASES: Final = {"uint": "uint256", "int": "int256", "fixed": "fixed128x18", "ufixed": "ufixed128x18"}
_TYPE: Final = re.compile(r"(tuple|[a-z]+[0-9]*(?:x[0-9]+)?)((?:\[[0-9]*\])*)")
_EVENT: Final = re.compile(r"(?:event\s+)?([A-Za-z_$][\w$]*)\s*\((.*)\)\s*(anonymous)?\s*;?", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_$][\w$]*")
_TUPLE: Final = re.compile(r"(?:tuple\s*)?\((.*)\)((?:\[[0-9]*\])*)(.*)", re.DOTALL)


class Param(NamedTuple):
    """A parameter of an event.

    Attributes:
        name: The name; may be empty.
        type: The canonical type, with tuples as `(…)`.
        indexed: Whether the value is a topic of the log.
        components: The members of a tuple.
    """

    name: str
    type: str
    indexed: bool
    components: tuple["Param", ...] = ()


class Event(NamedTuple):
    """An event with a topic0.

    Attributes:
        name: The name.
        params: The parameters.
        signature: The canonical signature, such as `Transfer(address,address,uint256)`.
        topic0: The hash of the signature, which is the first topic of the event's logs.
    """

    name: str
    params: tuple[Param, ...]
    signature: str
    topic0: str

    @property
    def topics(self) -> int:
        """The number of topics of its logs."""
        return 1 + sum(param.indexed for param in self.params)


def unique_names(params: Sequence[Param]) -> list[str]:
    """Return unique names for parameters, in their order.

    A parameter without a name, or with the name of an earlier one, is called `arg<index>`, counted from 0. If another
    parameter has that name, `_1` is appended, or the first higher number that makes the name unique.
    """
    taken = {param.name for param in params}
    names: list[str] = []
    for index, param in enumerate(params):
        if param.name and param.name not in names:
            names.append(param.name)
        else:
            names.append(next(name for name in _fallback_names(index) if name not in taken))
            taken.add(names[-1])
    return names


def _fallback_names(index: int) -> Iterator[str]:
    yield f"arg{index}"
    for number in count(1):
        yield f"arg{index}_{number}"


def _event(name: str, params: Iterable[Param]) -> Event:
    params = tuple(params)
    if sum(param.indexed for param in params) > MAX_INDEXED:
        raise SetupError(f"The event {name} has more than {MAX_INDEXED} indexed parameters: this is no event ABI.")
    signature = f"{name}({','.join(param.type for param in params)})"
    return Event(name, params, signature, f"0x{keccak(signature.encode()).hex()}")


def parse_event(text: str) -> Event:
    """Parse a human-readable event such as `Transfer(address indexed to, uint256 value)`.

    Raises SetupError, also for an anonymous event, which has no topic0.
    """
    event = read_fragment(parse_fragment(text))
    if event is None:
        raise SetupError(f"The event {text!r} is anonymous, so no log can be recognised by it.")
    return event


def parse_fragment(text: str) -> dict[str, Any]:
    """Convert a human-readable event to the JSON form. Raises SetupError."""
    match = _EVENT.fullmatch(text.strip())
    if match is None:
        raise SetupError(f"{text!r} is not an event: it must look like `event Paused(address account)`.")
    return {"type": "event", "name": match[1], "inputs": _inputs(match[2]), "anonymous": bool(match[3])}


def _inputs(text: str) -> list[dict[str, Any]]:
    return [_input(part.strip()) for part in _parts(text)] if text.strip() else []


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between commas outside of parentheses."""
    start = depth = 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def _input(text: str) -> dict[str, Any]:
    if match := _TUPLE.fullmatch(text):
        entry: dict[str, Any] = {"type": f"tuple{match[2]}", "components": _inputs(match[1])}
        words = match[3].split()
    else:
        kind, *words = text.split() or [""]
        entry = {"type": kind}
    if words[:1] == ["indexed"]:
        entry["indexed"] = True
        words = words[1:]
    if len(words) > 1 or not all(map(_NAME.fullmatch, words)):
        raise SetupError(
            f"{text!r} is not a parameter of an event: a type comes first, then `indexed` or not, then a name."
        )
    return entry | {"name": "".join(words)}


def read_fragment(fragment: Any) -> Event | None:
    """Parse a member of a JSON ABI; None if it is not an event, or an anonymous one.

    Raises SetupError.
    """
    if not isinstance(fragment, Mapping) or fragment.get("type", "event") != "event" or fragment.get("anonymous"):
        return None
    try:
        return _event(_name(fragment["name"]), map(_param, fragment["inputs"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise SetupError(f"An event of the ABI lacks a member or has one of a wrong type: {error!r}.") from error


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
        raise SetupError(f"{text!r} is not an ABI type.")
    base, suffix = match[1], match[2]
    if base == "tuple":
        base = f"({','.join(component.type for component in components)})"
    return _ALIASES.get(base, base) + suffix


def write_fragment(event: Event) -> dict[str, Any]:
    """Convert an event to a member of a JSON ABI, which `read_fragment` parses."""
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
    """Finds the events of a log.

    Later events take precedence over earlier ones of the same topic0.

    Args:
        generic: The events of any contract.
        own: The events of single contracts, by address in lower case.
    """

    def __init__(self, generic: Iterable[Event], own: Mapping[str, Iterable[Event]]) -> None:
        self._generic = _by_topics(generic)
        self._own = {address: _by_topics(events) for address, events in own.items()}

    def candidates(self, address: str, topic0: str, topics: int) -> Sequence[Event]:
        """Return the events whose logs have this topic0 and number of topics, the best first."""
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
