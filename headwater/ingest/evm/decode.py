"""Decodes the parameters of a log by its event ABI, as strings: integers in decimal, addresses and bytes in hex.

Nearly all events have only parameters of one word, which are read at fixed positions of the data. Other events are read
by `values`, which follows offsets within a bound.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headwater.ingest.evm.abi import Abis, Event, Param, unique_names
from headwater.ingest.evm.blocks import Log
from headwater.ingest.evm.values import WORD, Reader, Value, Word, parameters, reader_of, word_of

MOST_KEYS: Final = 200_000
"""Contracts and events whose layouts are remembered; about 50 MB."""


class Decoded(NamedTuple):
    """A decoded log. names: of the parameters in the ABI's order. params: their values by these names."""

    event: Event
    names: Sequence[str]
    params: dict[str, Value]


class Layout:
    """Reads the logs of an event. The value of an indexed parameter that is longer than a word is its hash.

    Raises ValueError when a parameter has a type that no ABI has.
    """

    def __init__(self, event: Event) -> None:
        self.event = event
        self.names = unique_names(event.params)
        named = list(zip(self.names, event.params, strict=True))
        indexed = [pair for pair in named if pair[1].indexed]
        rest = [pair for pair in named if not pair[1].indexed]
        self._readers = [reader_of(param) for _, param in rest]
        self._topics = [(name, 1 + place, _topic_word(param)) for place, (name, param) in enumerate(indexed)]
        self._words = _placed_words(rest, self._readers)
        self._rest_names = [name for name, _ in rest]
        self._end = 2 + sum(reader.size for reader in self._readers)
        self._has_words_alone = len(self._words) == len(rest)
        self._is_in_order = [*indexed, *rest] == named

    def read(self, log: Log) -> dict[str, Value]:
        """The parameters in the ABI's order. Raises ValueError when the log does not have them."""
        topics, data = log.topics, log.data
        if len(data) < self._end:
            raise ValueError("too little data")
        params: dict[str, Value] = {name: word.read(topics[place][2:]) for name, place, word in self._topics}
        if self._has_words_alone:
            for name, start, word in self._words:
                params[name] = word.read(data[start : start + WORD])
        else:
            params |= zip(self._rest_names, parameters(data, self._readers), strict=True)
        return params if self._is_in_order else {name: params[name] for name in self.names}

    def is_clean(self, log: Log) -> bool:
        """Whether no word has bits that its type does not have, as in all logs that Solidity writes."""
        return all(word.is_clean(log.topics[place][2:]) for _, place, word in self._topics) and all(
            word.is_clean(log.data[start : start + WORD]) for _, start, word in self._words
        )


def _topic_word(param: Param) -> Word:
    """How the topic of an indexed parameter is read: as its value, or as the hash of what is longer than a word."""
    word = word_of(param.type) or word_of("bytes32")
    assert word is not None
    return word


def _placed_words(named: Sequence[tuple[str, Param]], readers: Sequence[Reader]) -> list[tuple[str, int, Word]]:
    """The parameters that are one word, and where each begins in the data."""
    words, start = [], 2
    for (name, param), reader in zip(named, readers, strict=True):
        word = word_of(param.type)
        if word is not None:
            words.append((name, start, word))
        start += reader.size
    return words


class Decoder:
    """Decodes logs by the ABIs that fit them. Layouts are made on first use."""

    def __init__(self, abis: Abis) -> None:
        self._abis = abis
        self._layouts: dict[tuple[str, str, int], list[Layout]] = {}
        self._by_event: dict[Event, Layout | None] = {}

    def decode(self, log: Log) -> Decoded | None:
        """Decode a log by the first ABI that fits it; None when no ABI does. The log's hex is in lower case.

        Where ABIs differ in which parameters are indexed, the ABIs by which no word of the log is dirty come first.
        """
        topics = log.topics
        if not topics:
            return None
        key = (log.address, topics[0], len(topics))
        layouts = self._layouts.get(key)
        if layouts is None:
            layouts = self._layouts_of(key)
        if len(layouts) > 1:
            layouts = sorted(layouts, key=lambda layout: not layout.is_clean(log))
        for layout in layouts:
            try:
                return Decoded(layout.event, layout.names, layout.read(log))
            except ValueError:
                continue
        return None

    def _layouts_of(self, key: tuple[str, str, int]) -> list[Layout]:
        """The layouts of ABIs; of several ABIs that index the same parameters, and so fit the same logs, the first."""
        if len(self._layouts) > MOST_KEYS:
            self._layouts.clear()
        found: dict[tuple[bool, ...], Layout] = {}
        for event in self._abis.candidates(*key):
            layout = self._layout(event)
            if layout is not None:
                found.setdefault(tuple(param.indexed for param in event.params), layout)
        self._layouts[key] = list(found.values())
        return self._layouts[key]

    def _layout(self, event: Event) -> Layout | None:
        """The layout of an event; None when one of its types is no type of an ABI."""
        if event not in self._by_event:
            try:
                self._by_event[event] = Layout(event)
            except ValueError:
                self._by_event[event] = None
        return self._by_event[event]
