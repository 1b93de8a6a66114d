"""Extracts token transfers from logs, by the standards ERC-20, ERC-721 and ERC-1155."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from headwater.ingest.evm.abi import Param
from headwater.ingest.evm.blocks import Log
from headwater.ingest.evm.values import WORD_DIGITS, parameters, type_decoder_of

TRANSFER: Final = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
"""Transfer(address,address,uint256) has three topics in ERC-20, and four in ERC-721."""
TRANSFER_SINGLE: Final = "0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62"
"""TransferSingle(address,address,address,uint256,uint256) of ERC-1155."""
TRANSFER_BATCH: Final = "0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb"
"""TransferBatch(address,address,address,uint256[],uint256[]) of ERC-1155."""
TOPICS: Final = frozenset({TRANSFER, TRANSFER_SINGLE, TRANSFER_BATCH})

_SINGLE: Final = [type_decoder_of(Param(name, "uint256", indexed=False)) for name in ("id", "value")]
_BATCH: Final = [type_decoder_of(Param(name, "uint256[]", indexed=False)) for name in ("ids", "values")]
_ADDRESS: Final = 26
"""The index at which an address begins in a topic: after `0x` and 12 bytes of zeros."""


class Transfer(NamedTuple):
    """A token transfer in a log.

    Attributes:
        entity: The entity of the transfer's stream.
        token_id: The id of the token; None for ERC-20.
        event_type: `single_transfer` or `batch_transfer` for ERC-1155; None for the other standards.
        operator: The address that made the transfer, for ERC-1155; None for the other standards.
        array_index: The index in a batch transfer, for ERC-1155; None for the other standards.
    """

    entity: str
    from_address: str
    to_address: str
    token_id: int | None
    amount: int
    event_type: str | None = None
    operator: str | None = None
    array_index: int | None = None


def transfers(log: Log) -> Iterator[Transfer]:
    """Yield the transfers in a log, which has none when it is of another event.

    Raises ValueError when the log has the topics of a transfer but not the data of a transfer.
    """
    topics = log.topics
    topic0, count = topics[0], len(topics)
    if topic0 == TRANSFER and count == 3:
        if len(log.data) < 2 + WORD_DIGITS:
            raise ValueError("no amount")
        yield Transfer("erc20_token_transfer", *_parties(topics), None, int(log.data[2 : 2 + WORD_DIGITS], 16))
    elif topic0 == TRANSFER and count == 4:
        yield Transfer("erc721_token_transfer", *_parties(topics), int(topics[3], 16), 1)
    elif topic0 == TRANSFER_SINGLE and count == 4:
        token_id, amount = parameters(log.data, _SINGLE)
        yield _erc1155(topics, "single_transfer", token_id, amount, 0)
    elif topic0 == TRANSFER_BATCH and count == 4:
        token_ids, amounts = parameters(log.data, _BATCH)
        pairs = list(zip(token_ids, amounts, strict=True))  # raises ValueError when the lengths differ
        for index, (token_id, amount) in enumerate(pairs):
            yield _erc1155(topics, "batch_transfer", token_id, amount, index)


def _parties(topics: list[str]) -> tuple[str, str]:
    return f"0x{topics[1][_ADDRESS:]}", f"0x{topics[2][_ADDRESS:]}"


def _erc1155(topics: list[str], event_type: str, token_id: Any, amount: Any, array_index: int) -> Transfer:
    operator, from_address, to_address = (f"0x{topic[_ADDRESS:]}" for topic in topics[1:])
    entity = "erc1155_token_transfer"
    return Transfer(entity, from_address, to_address, int(token_id), int(amount), event_type, operator, array_index)
