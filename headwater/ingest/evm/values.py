"""Decodes values of ABI types in the data of logs (Solidity's contract ABI specification).

A contract may emit data that Solidity would never produce. So decoding is as lenient as the EVM, ethers and viem: bits
beyond the width of a type are ignored, the last word may lack its padding, and invalid UTF-8 becomes U+FFFD. Offsets
may point anywhere, and many offsets may point to one position, so a small log could expand to gigabytes. Therefore the
total number of bytes read is limited.

Values become strings, lists and objects. eth-abi is not used: eth-abi rejects words with extra bits even when it is not
strict, accepts truncated bytes, and has no limit. The tests compare the results with eth-abi and with ethers.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Context
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple

from headwater.ingest.evm.abi import Param, unique_names
from headwater.model.outputs import MAX_OUTPUT_BYTES

WORD_DIGITS: Final = 64
"""The number of hex digits of a word of 32 bytes."""
MAX_EXPANSION_FACTOR: Final = 32
"""The maximum number of bytes to read for each byte of data. Solidity's own encoding needs one, including offsets."""
MAX_READ_BYTES: Final = MAX_OUTPUT_BYTES
MAX_DEPTH: Final = 16
"""The deepest nesting of arrays and tuples."""
MAX_DECIMALS: Final = 80
"""The maximum number of decimals of `fixed` and `ufixed`."""
_START: Final = 2
"""The index at which data begins, after `0x`."""
_NUMBER: Final = re.compile(r"(u?)int([0-9]+)")
_FIXED: Final = re.compile(r"(u?)fixed([0-9]+)x([0-9]+)")
_BYTES: Final = re.compile(r"bytes([0-9]+)")
_ARRAY: Final = re.compile(r"(.*)\[([0-9]*)\]")
_EXACT: Final = Context(prec=400)
"""Enough precision for a uint256 with 255 decimals."""

Value = str | list[Any] | dict[str, Any]


class WordType(NamedTuple):
    """A type whose values have one word of 32 bytes (64 hex digits).

    Attributes:
        read: Converts a word to a value.
        is_clean: Returns whether a word has no bits beyond the width of its type. Solidity never writes such bits.
    """

    read: Callable[[str], str]
    is_clean: Callable[[str], object]


def _address(word: str) -> str:
    return f"0x{word[24:]}"


def _bool(word: str) -> str:
    return "false" if word[62:] == "00" else "true"


def _uint(digits: int, word: str) -> str:
    return str(int(word[WORD_DIGITS - digits :], 16))


def _signed(digits: int, word: str) -> int:
    value = int(word[WORD_DIGITS - digits :], 16)
    return value - (1 << 4 * digits) if value >> 4 * digits - 1 else value


def _int(digits: int, word: str) -> str:
    return str(_signed(digits, word))


def _ufixed(decimals: int, digits: int, word: str) -> str:
    return amount_text(int(word[WORD_DIGITS - digits :], 16), decimals)


def _fixed(decimals: int, digits: int, word: str) -> str:
    return amount_text(_signed(digits, word), decimals)


def _bytes(size: int, word: str) -> str:
    return f"0x{word[: 2 * size]}"


def amount_text(raw: int, decimals: int) -> str:
    """Return the exact decimal text of an amount, without an exponent or trailing zeros."""
    text = f"{_EXACT.scaleb(_EXACT.create_decimal(raw), -decimals):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def word_type_of(kind: str) -> WordType | None:
    """Return the WordType of an ABI type whose values have one word; None for other types."""
    if kind == "address":
        return WordType(_address, _pattern("0{24}.{40}"))
    if kind == "bool":
        return WordType(_bool, _pattern("0{63}[01]"))
    if kind == "function":
        return _bytes_type(24)
    if match := _BYTES.fullmatch(kind):
        return _bytes_type(int(match[1]))
    if match := _NUMBER.fullmatch(kind):
        return _number_type(bool(match[1]), int(match[2]), _uint, _int)
    if match := _FIXED.fullmatch(kind):
        decimals = int(match[3])
        if 0 < decimals <= MAX_DECIMALS:
            return _number_type(bool(match[1]), int(match[2]), partial(_ufixed, decimals), partial(_fixed, decimals))
    return None


def _pattern(text: str) -> Callable[[str], object]:
    return re.compile(text).fullmatch


def _bytes_type(size: int) -> WordType | None:
    if not 0 < size <= 32:
        return None
    return WordType(partial(_bytes, size), _pattern(f".{{{2 * size}}}0{{{WORD_DIGITS - 2 * size}}}"))


def _number_type(
    is_unsigned: bool, bits: int, unsigned: Callable[[int, str], str], signed: Callable[[int, str], str]
) -> WordType | None:
    if not 0 < bits <= 256 or bits % 8:
        return None
    digits, above = bits // 4, WORD_DIGITS - bits // 4
    if is_unsigned:
        return WordType(partial(unsigned, digits), _pattern(f"0{{{above}}}.{{{digits}}}"))
    signs = f"(0{{{above}}}[0-7]|f{{{above}}}[89a-f]).{{{digits - 1}}}"
    return WordType(partial(signed, digits), _pattern(signs))


class Data:
    """The data of a log, with a limit on the total number of bytes read.

    Positions are indexes of the hex text, which begins with 0x. All methods raise ValueError when the data is too
    short, or when the limit is exceeded.
    """

    __slots__ = ("_remaining", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._remaining = min(MAX_EXPANSION_FACTOR * (len(text) - _START) // 2, MAX_READ_BYTES)

    def word(self, at: int) -> str:
        """Return the word at a position."""
        return self.content(at, 32)

    def number(self, at: int) -> int:
        """Return the word at a position as a number: an offset, a size or a count."""
        return int(self.content(at, 32), 16)

    def content(self, at: int, size: int) -> str:
        """Return this many bytes from a position, as hex digits."""
        self._remaining -= size
        text = self._text[at : at + 2 * size]
        if len(text) != 2 * size or self._remaining < 0:
            raise ValueError("too little data" if self._remaining >= 0 else "the data expands to too many bytes")
        return text

    def check(self, at: int, digits: int) -> None:
        """Raise ValueError unless this many hex digits follow a position."""
        if at + digits > len(self._text):
            raise ValueError("too little data")


class TypeDecoder(NamedTuple):
    """Decodes values of a type.

    Attributes:
        read: Decodes the value whose encoding begins at a position of the data. Raises ValueError.
        size: The number of hex digits of a value in the head of its container.
        is_dynamic: Whether the head contains the byte offset of the value instead of the value.
    """

    read: Callable[[Data, int], Value]
    size: int
    is_dynamic: bool


def type_decoder_of(param: Param, depth: int = 0) -> TypeDecoder:
    """Return the decoder of a parameter's type. Raises ValueError when it is not an ABI type."""
    kind = param.type
    if depth > MAX_DEPTH:
        raise ValueError(f"arrays and tuples are nested in each other more than {MAX_DEPTH} times")
    if match := _ARRAY.fullmatch(kind):
        item = type_decoder_of(param._replace(type=match[1]), depth + 1)
        return _array(item) if not match[2] else _fixed_array(item, int(match[2]))
    if kind.startswith("("):
        return _tuple(param.components, depth + 1)
    if kind == "bytes":
        return TypeDecoder(_read_bytes, WORD_DIGITS, is_dynamic=True)
    if kind == "string":
        return TypeDecoder(_read_string, WORD_DIGITS, is_dynamic=True)
    word = word_type_of(kind)
    if word is None:
        raise ValueError(f"{kind!r} is not an ABI type")
    read = word.read
    return TypeDecoder(lambda data, at: read(data.word(at)), WORD_DIGITS, is_dynamic=False)


def members(data: Data, start: int, decoders: Iterable[TypeDecoder]) -> Iterator[Value]:
    """Yield the values of consecutive types, whose encoding begins at a position.

    The values belong to parameters, or are the members of a tuple.
    """
    at = start
    for decoder in decoders:
        yield decoder.read(data, start + 2 * data.number(at) if decoder.is_dynamic else at)
        at += decoder.size


def parameters(text: str, decoders: Iterable[TypeDecoder]) -> Iterator[Value]:
    """Yield the values of the parameters that are not indexed, from a log's data.

    Raises ValueError.
    """
    return members(Data(text), _START, decoders)


def _array(item: TypeDecoder) -> TypeDecoder:
    def read(data: Data, at: int) -> list[Value]:
        count = data.number(at)
        data.check(at + WORD_DIGITS, count * item.size)
        return list(members(data, at + WORD_DIGITS, repeat(item, count)))

    return TypeDecoder(read, WORD_DIGITS, is_dynamic=True)


def _fixed_array(item: TypeDecoder, count: int) -> TypeDecoder:
    if not count:
        raise ValueError("an array without members is not an ABI type")
    size = count * item.size

    def read(data: Data, at: int) -> list[Value]:
        data.check(at, size)
        return list(members(data, at, repeat(item, count)))

    return TypeDecoder(read, WORD_DIGITS if item.is_dynamic else size, item.is_dynamic)


def _tuple(components: Sequence[Param], depth: int) -> TypeDecoder:
    if not components:
        raise ValueError("a tuple without members is not an ABI type")
    names = unique_names(components)
    decoders = [type_decoder_of(component, depth) for component in components]
    is_dynamic = any(decoder.is_dynamic for decoder in decoders)

    def read(data: Data, at: int) -> dict[str, Value]:
        return dict(zip(names, members(data, at, decoders), strict=True))

    return TypeDecoder(read, WORD_DIGITS if is_dynamic else sum(decoder.size for decoder in decoders), is_dynamic)


def _read_bytes(data: Data, at: int) -> str:
    return f"0x{data.content(at + WORD_DIGITS, data.number(at))}"


def _read_string(data: Data, at: int) -> str:
    return bytes.fromhex(data.content(at + WORD_DIGITS, data.number(at))).decode("utf-8", "replace")
