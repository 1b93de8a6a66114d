"""Parameters of a log by its event ABI, as strings: integers in decimal, addresses and bytes as lower-case hex.

eth-abi decodes the five words of a Uniswap v3 swap in 52 µs. Nearly all events have words alone, without anything of
variable length, and those are read here from the hex text itself: that swap with its two topics in 16 µs. The rest goes
to eth-abi. Both refuse the same: data that is too short, and words out of the range of their type.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from eth_abi.abi import decode as decode_words
from eth_abi.exceptions import DecodingError, ParseError

from headwater.ingest.evm.abi import Abis, Event, Param
from headwater.ingest.evm.blocks import Log

WORD: Final = 64
"""Hex digits of 32 bytes."""
MOST_KEYS: Final = 200_000
"""Contracts and events whose layouts are remembered; about 50 MB."""
_SIGN: Final = 1 << 255
_MODULUS: Final = 1 << 256
_SIZED: Final = re.compile(r"(uint|int|bytes)([0-9]+)")
_ITEM: Final = re.compile(r"(.*)\[([0-9]*)\]")

Read = Callable[[str], str]
"""Makes a value of a word, 64 hex digits. Raises ValueError when the word is none of that type."""
Value = str | list[Any] | dict[str, Any]


class Decoded(NamedTuple):
    """names: of the parameters in the ABI's order; params: their values by these names."""

    event: Event
    names: Sequence[str]
    params: dict[str, Value]


def _address(word: str) -> str:
    if not word.startswith("000000000000000000000000"):
        raise ValueError("not an address")
    return f"0x{word[24:]}"


def _uint256(word: str) -> str:
    return str(int(word, 16))


def _uint(bits: int, word: str) -> str:
    value = int(word, 16)
    if value >> bits:
        raise ValueError("out of range")
    return str(value)


def _int(bits: int, word: str) -> str:
    value = int(word, 16)
    if value & _SIGN:
        value -= _MODULUS
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError("out of range")
    return str(value)


def _bool(word: str) -> str:
    value = int(word, 16)
    if value > 1:
        raise ValueError("not a bool")
    return "true" if value else "false"


def _bytes(size: int, word: str) -> str:
    if word[2 * size :].strip("0"):
        raise ValueError("bytes beyond the type's size")
    return f"0x{word[: 2 * size]}"


_HASH: Final[Read] = partial(_bytes, 32)


def reader(kind: str) -> Read | None:
    """What reads values of a type that is one word; None for all others."""
    if kind == "address":
        return _address
    if kind == "bool":
        return _bool
    if kind == "function":
        return partial(_bytes, 24)
    match = _SIZED.fullmatch(kind)
    if match is None:
        return None
    base, size = match[1], int(match[2])
    if kind == "uint256":
        return _uint256
    return partial({"uint": _uint, "int": _int, "bytes": _bytes}[base], size)


def text_of(value: Any, param: Param) -> Value:
    """A value of eth-abi's, as strings; arrays are lists of them, tuples objects by the names of their components."""
    match = _ITEM.fullmatch(param.type)
    if match is not None:
        item = param._replace(type=match[1])
        return [text_of(each, item) for each in value]
    if param.type.startswith("("):
        names = unique_names(param.components)
        return {n: text_of(v, p) for n, v, p in zip(names, value, param.components, strict=True)}
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def unique_names(params: Sequence[Param]) -> list[str]:
    """The names of parameters; one without a name of its own is `arg<place>`, places count from 0."""
    names: list[str] = []
    for place, param in enumerate(params):
        names.append(param.name if param.name and param.name not in names else f"arg{place}")
    return names


class Layout:
    """How the logs of an event are read. Parameters that are indexed and longer than a word are their hash."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self.names = unique_names(event.params)
        named = list(zip(self.names, event.params, strict=True))
        indexed = [pair for pair in named if pair[1].indexed]
        self._rest = [pair for pair in named if not pair[1].indexed]
        self._topics = [(name, 1 + place, reader(param.type) or _HASH) for place, (name, param) in enumerate(indexed)]
        self._types = [param.type for _, param in self._rest]
        self._words = self._words_of()
        self._end = 2 + len(self._rest) * WORD
        self._is_in_order = [*indexed, *self._rest] == named

    def _words_of(self) -> list[tuple[str, int, Read]] | None:
        """How to read data of words alone; None when there is something else."""
        words: list[tuple[str, int, Read]] = []
        for place, (name, param) in enumerate(self._rest):
            read = reader(param.type)
            if read is None:
                return None
            words.append((name, 2 + place * WORD, read))
        return words

    def read(self, log: Log) -> dict[str, Value]:
        """The parameters in the ABI's order. Raises ValueError, DecodingError when they are not those of the event."""
        topics = log.topics
        params: dict[str, Value] = {name: read(topics[place][2:]) for name, place, read in self._topics}
        data = log.data
        if self._words is None:
            values = decode_words(self._types, bytes.fromhex(data[2:]))
            params |= {name: text_of(value, param) for (name, param), value in zip(self._rest, values, strict=True)}
        elif len(data) < self._end:
            raise ValueError("too little data")
        else:
            for name, start, read in self._words:
                params[name] = read(data[start : start + WORD])
        return params if self._is_in_order else {name: params[name] for name in self.names}


class Decoder:
    """Decodes logs by the ABIs that fit them. Layouts are made on first use."""

    def __init__(self, abis: Abis) -> None:
        self._abis = abis
        self._layouts: dict[tuple[str, str, int], list[Layout]] = {}
        self._by_event: dict[Event, Layout] = {}

    def decode(self, log: Log) -> Decoded | None:
        """By the first ABI that the log's topics and data fit; None when there is none. Hex is in lower case."""
        topics = log.topics
        if not topics:
            return None
        key = (log.address, topics[0], len(topics))
        layouts = self._layouts.get(key)
        if layouts is None:
            layouts = self._layouts_of(key)
        for layout in layouts:
            try:
                return Decoded(layout.event, layout.names, layout.read(log))
            except (ValueError, DecodingError, ParseError, OverflowError):
                continue
        return None

    def _layouts_of(self, key: tuple[str, str, int]) -> list[Layout]:
        if len(self._layouts) > MOST_KEYS:
            self._layouts.clear()
        found = [self._layout(event) for event in self._abis.candidates(*key)]
        self._layouts[key] = found
        return found

    def _layout(self, event: Event) -> Layout:
        if event not in self._by_event:
            self._by_event[event] = Layout(event)
        return self._by_event[event]
