"""Parses event ABIs in JSON and in human-readable form, and finds the ABIs of a log.

Solidity's contract ABI specification defines the types. eth-abi and eth-utils could replace only `_canonical`: they
parse no human-readable event, and their `normalize` accepts types such as `uint7`.
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
    def topic_count(self) -> int:
        """The number of topics of the event's logs."""
        return 1 + sum(param.indexed for param in self.params)


def unique_names(params: Sequence[Param]) -> list[str]:
    """Return unique names for parameters, in their order.

    A parameter without a name, or with the name of an earlier one, is called `arg<index>`, counted from 0. If another
    parameter has that name, `_1` is appended, or the first higher number that makes the name unique.
    """
    used_names = {param.name for param in params}
    names: list[str] = []
    for index, param in enumerate(params):
        if param.name and param.name not in names:
            names.append(param.name)
        else:
            names.append(next(name for name in _fallback_names(index) if name not in used_names))
            used_names.add(names[-1])
    return names


def _fallback_names(index: int) -> Iterator[str]:
    yield f"arg{index}"
    for number in count(1):
        yield f"arg{index}_{number}"


def _make_event(name: str, params: Iterable[Param]) -> Event:
    params = tuple(params)
    if sum(param.indexed for param in params) > MAX_INDEXED:
        raise SetupError(f"The event {name} has more than {MAX_INDEXED} indexed parameters: this is no event ABI.")
    signature = f"{name}({','.join(param.type for param in params)})"
    return Event(name, params, signature, f"0x{keccak(signature.encode()).hex()}")


def event_of_text(text: str) -> Event:
    """Parse a human-readable event such as `Transfer(address indexed to, uint256 value)`.

    Raises SetupError, also for an anonymous event, which has no topic0.
    """
    event = event_of_fragment(fragment_of_text(text))
    if event is None:
        raise SetupError(f"The event {text!r} is anonymous, so no log can be recognised by it.")
    return event


def fragment_of_text(text: str) -> dict[str, Any]:
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


def event_of_fragment(fragment: Any) -> Event | None:
    """Parse a member of a JSON ABI.

    Returns None if the member is not an event, or is an anonymous event. Raises SetupError.
    """
    if not isinstance(fragment, Mapping) or fragment.get("type", "event") != "event" or fragment.get("anonymous"):
        return None
    try:
        return _make_event(_name(fragment["name"]), map(_param, fragment["inputs"]))
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


def fragment_of_event(event: Event) -> dict[str, Any]:
    """Convert an event to a member of a JSON ABI. The inverse function is `event_of_fragment`."""
    return {"type": "event", "name": event.name, "inputs": [_param_entry(param) for param in event.params]}


def _param_entry(param: Param) -> dict[str, Any]:
    kind, _, suffix = param.type.rpartition(")")
    entry: dict[str, Any] = {"name": param.name, "type": f"tuple{suffix}" if kind else param.type}
    if param.indexed:
        entry["indexed"] = True
    if param.components:
        entry["components"] = [_param_entry(component) for component in param.components]
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

    def candidates(self, address: str, topic0: str, topic_count: int) -> Sequence[Event]:
        """Return the events whose logs have this topic0 and number of topics, the best first."""
        key = (topic0, topic_count)
        own = self._own.get(address)
        generic = self._generic.get(key, ())
        return generic if own is None else (*own.get(key, ()), *generic)


def _by_topics(events: Iterable[Event]) -> dict[tuple[str, int], list[Event]]:
    by_topics: dict[tuple[str, int], list[Event]] = {}
    for event in events:
        candidates = by_topics.setdefault((event.topic0, event.topic_count), [])
        if event in candidates:
            candidates.remove(event)
        candidates.insert(0, event)
    return by_topics
