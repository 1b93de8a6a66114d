"""Decodes the parameters of a log to strings, by the ABI of the event.

Integers are in decimal, addresses and bytes in hex. Nearly all events have only parameters of one word, which are read
at fixed positions of the data. The module `values` decodes other events, and follows offsets within a limit.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headwater.ingest.evm.abi import Abis, Event, Param, unique_names
from headwater.ingest.evm.blocks import Log
from headwater.ingest.evm.values import (
    WORD_DIGITS,
    TypeDecoder,
    Value,
    WordType,
    parameters,
    type_decoder_of,
    word_type_of,
)

MAX_CACHED_DECODERS: Final = 200_000
"""The maximum number of pairs of contract and event whose decoders are cached. The cache takes about 50 MB."""


class Decoded(NamedTuple):
    """A decoded log.

    Attributes:
        event: The event of the log.
        names: The names of the parameters, in the ABI's order.
        params: The values of the parameters, by name.
    """

    event: Event
    names: Sequence[str]
    params: dict[str, Value]


class EventDecoder:
    """Decodes the logs of one event.

    For an indexed string, bytes, array or tuple, the value is the hash in the topic. The constructor raises
    ValueError when the type of a parameter is not an ABI type.
    """

    def __init__(self, event: Event) -> None:
        self.event = event
        self.names = unique_names(event.params)
        named = list(zip(self.names, event.params, strict=True))
        indexed = [pair for pair in named if pair[1].indexed]
        in_data = [pair for pair in named if not pair[1].indexed]
        self._type_decoders = [type_decoder_of(param) for _, param in in_data]
        self._topics = [(name, index, _topic_type(param)) for index, (name, param) in enumerate(indexed, 1)]
        self._words = _words_with_positions(in_data, self._type_decoders)
        self._data_names = [name for name, _ in in_data]
        self._end = 2 + sum(type_decoder.size for type_decoder in self._type_decoders)
        self._has_only_words = len(self._words) == len(in_data)
        self._is_in_order = [*indexed, *in_data] == named

    def read(self, log: Log) -> dict[str, Value]:
        """Return the parameters in the ABI's order.

        Raises ValueError when the log does not fit the event.
        """
        topics, data = log.topics, log.data
        if len(data) < self._end:
            raise ValueError("too little data")
        params: dict[str, Value] = {name: word_type.read(topics[index][2:]) for name, index, word_type in self._topics}
        if self._has_only_words:
            for name, start, word_type in self._words:
                params[name] = word_type.read(data[start : start + WORD_DIGITS])
        else:
            params |= zip(self._data_names, parameters(data, self._type_decoders), strict=True)
        return params if self._is_in_order else {name: params[name] for name in self.names}

    def is_clean(self, log: Log) -> bool:
        """Return whether no word has bits beyond the width of its type.

        Solidity never writes such bits.
        """
        return all(word_type.is_clean(log.topics[index][2:]) for _, index, word_type in self._topics) and all(
            word_type.is_clean(log.data[start : start + WORD_DIGITS]) for _, start, word_type in self._words
        )


def _topic_type(param: Param) -> WordType:
    """Return the type of the word in the topic of an indexed parameter.

    It is the type of the parameter, or the type of a hash for a string, bytes, array or tuple.
    """
    word_type = word_type_of(param.type) or word_type_of("bytes32")
    assert word_type is not None
    return word_type


def _words_with_positions(
    named: Sequence[tuple[str, Param]], type_decoders: Sequence[TypeDecoder]
) -> list[tuple[str, int, WordType]]:
    """Return the name, the index in the data and the type of each parameter of one word."""
    words, start = [], 2
    for (name, param), type_decoder in zip(named, type_decoders, strict=True):
        word_type = word_type_of(param.type)
        if word_type is not None:
            words.append((name, start, word_type))
        start += type_decoder.size
    return words


class Decoder:
    """Decodes logs by the ABIs that fit them. Event decoders are created on first use."""

    def __init__(self, abis: Abis) -> None:
        self._abis = abis
        self._decoders: dict[tuple[str, str, int], list[EventDecoder]] = {}
        self._by_event: dict[Event, EventDecoder | None] = {}

    def decode(self, log: Log) -> Decoded | None:
        """Decode a log by the first ABI that fits; None when no ABI fits.

        The hex of the log is in lower case. If several ABIs fit and differ in which parameters are indexed, the ABIs
        under which each word is clean are tried first.
        """
        topics = log.topics
        if not topics:
            return None
        key = (log.address, topics[0], len(topics))
        decoders = self._decoders.get(key)
        if decoders is None:
            decoders = self._find_decoders(key)
        if len(decoders) > 1:
            decoders = sorted(decoders, key=lambda decoder: not decoder.is_clean(log))
        for decoder in decoders:
            try:
                return Decoded(decoder.event, decoder.names, decoder.read(log))
            except ValueError:
                continue
        return None

    def _find_decoders(self, key: tuple[str, str, int]) -> list[EventDecoder]:
        """Return and cache the decoders for a contract and event.

        Among ABIs that index the same parameters, the first one is used.
        """
        if len(self._decoders) > MAX_CACHED_DECODERS:
            self._decoders.clear()
        by_indexed_params: dict[tuple[bool, ...], EventDecoder] = {}
        for event in self._abis.candidates(*key):
            decoder = self._decoder(event)
            if decoder is not None:
                by_indexed_params.setdefault(tuple(param.indexed for param in event.params), decoder)
        self._decoders[key] = list(by_indexed_params.values())
        return self._decoders[key]

    def _decoder(self, event: Event) -> EventDecoder | None:
        """Return the decoder of an event; None when one of its types is not an ABI type."""
        if event not in self._by_event:
            try:
                self._by_event[event] = EventDecoder(event)
            except ValueError:
                self._by_event[event] = None
        return self._by_event[event]
