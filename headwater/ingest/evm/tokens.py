"""Transfers of tokens in logs, by the standards ERC-20, ERC-721 and ERC-1155."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headwater.ingest.evm.blocks import Log

TRANSFER: Final = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
"""Transfer(address,address,uint256), of ERC-20 with three topics, and of ERC-721 with four."""
TRANSFER_SINGLE: Final = "0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62"
"""TransferSingle(address,address,address,uint256,uint256)"""
TRANSFER_BATCH: Final = "0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb"
"""TransferBatch(address,address,address,uint256[],uint256[])"""
TOPICS: Final = frozenset({TRANSFER, TRANSFER_SINGLE, TRANSFER_BATCH})

_WORD: Final = 64
_ADDRESS: Final = 26
"""Where an address begins in a topic: behind `0x` and 12 bytes of zeros."""


class Transfer(NamedTuple):
    """entity: of the stream. token_id: None for ERC-20. operator and array_index: of ERC-1155 alone, else None."""

    entity: str
    from_address: str
    to_address: str
    token_id: int | None
    amount: int
    event_type: str | None = None
    operator: str | None = None
    array_index: int | None = None


def transfers(log: Log) -> Iterator[Transfer]:
    """The transfers that a log tells of, none for other logs.

    Raises ValueError when it has the topics of one and not its data.
    """
    topics = log.topics
    topic0, count = topics[0], len(topics)
    if topic0 == TRANSFER and count == 3:
        if len(log.data) < 2 + _WORD:
            raise ValueError("no amount")
        yield Transfer("erc20_token_transfer", *_parties(topics), None, int(log.data[2 : 2 + _WORD], 16))
    elif topic0 == TRANSFER and count == 4:
        yield Transfer("erc721_token_transfer", *_parties(topics), int(topics[3], 16), 1)
    elif topic0 == TRANSFER_SINGLE and count == 4:
        words = _words(log.data)
        if len(words) < 2:
            raise ValueError("no token id and amount")
        yield _erc1155(topics, "single_transfer", words[0], words[1], 0)
    elif topic0 == TRANSFER_BATCH and count == 4:
        words = _words(log.data)
        pairs = list(zip(_array(words, 0), _array(words, 1), strict=True))  # none of them when the lengths differ
        for place, (token_id, amount) in enumerate(pairs):
            yield _erc1155(topics, "batch_transfer", token_id, amount, place)


def _parties(topics: list[str]) -> tuple[str, str]:
    return f"0x{topics[1][_ADDRESS:]}", f"0x{topics[2][_ADDRESS:]}"


def _erc1155(topics: list[str], event_type: str, token_id: int, amount: int, place: int) -> Transfer:
    operator, from_address, to_address = (f"0x{topic[_ADDRESS:]}" for topic in topics[1:])
    entity = "erc1155_token_transfer"
    return Transfer(entity, from_address, to_address, token_id, amount, event_type, operator, place)


def _words(data: str) -> list[int]:
    return [int(data[start : start + _WORD], 16) for start in range(2, len(data) - _WORD + 1, _WORD)]


def _array(words: list[int], place: int) -> list[int]:
    """The array of uint256 whose offset in bytes is at a place of the data. Raises ValueError."""
    if place >= len(words) or words[place] % 32 or words[place] // 32 >= len(words):
        raise ValueError("no array")
    start = words[place] // 32 + 1
    items = words[start : start + words[start - 1]] if words[start - 1] <= len(words) else []
    if len(items) != words[start - 1]:
        raise ValueError("an array without an end")
    return items
