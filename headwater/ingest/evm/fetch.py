"""Blocks with all their logs from a node, in the way that the node offers.

`receipts`: eth_getBlockReceipts for each block. `logs`: eth_getLogs over a range of blocks, and the blocks with their
transactions for senders and receivers. Either way a block and its logs come from separate calls, so what comes is
checked: the logs name the block's hash, and each block names the one before.
"""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, Literal, TypeVar

import msgspec
import structlog

from headwater.errors import NodeLacksMethod, NodeRefusesSize, NodeUnavailable
from headwater.ingest.evm.blocks import Block, FullBlock, Header, Log, Receipt, from_logs, from_receipts
from headwater.ingest.evm.rpc import Call, Rpc

_T = TypeVar("_T")
Way = Literal["receipts", "logs"]

BLOCKS_AT_ONCE: Final = 10
MOST_BLOCKS: Final = 200
"""In one eth_getLogs, after it grew."""
GROWTH: Final = 1.25
TRIES: Final = 5
PAUSE_S: Final = 0.2
"""Nodes behind one address are not all equally far: a block that one tells of, another may not have yet."""

_HEADER: Final = msgspec.json.Decoder(Header | None)
_FULL: Final = msgspec.json.Decoder(FullBlock | None)
_RECEIPTS: Final = msgspec.json.Decoder(list[Receipt] | None)
_LOGS: Final = msgspec.json.Decoder(list[Log])
_TEXT: Final = msgspec.json.Decoder(str)

log = structlog.get_logger(__name__)


class Fetcher:
    """way: None finds out what the node offers. Used by several threads."""

    def __init__(self, rpc: Rpc, way: Way | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
        self._rpc = rpc
        self._way = way
        self._sleep = sleep
        self._range = float(BLOCKS_AT_ONCE)

    @property
    def span(self) -> int:
        """How many blocks to ask for at once now."""
        return int(self._range)

    @property
    def retries(self) -> int:
        """How often something was sent again."""
        return self._rpc.retries

    def chain_id(self) -> int:
        """The chain's id (EIP-155). Raises NodeUnavailable."""
        return int(_decoded(_TEXT, self._rpc.call("eth_chainId")), 16)

    def header(self, block: int | str) -> Header | None:
        """By number, or by a tag like `latest`; None when the node has none. Raises NodeUnavailable."""
        return self.headers([block])[0]

    def headers(self, blocks: Sequence[int | str]) -> list[Header | None]:
        """The same of several."""
        return [_decoded(_HEADER, raw) for raw in self._rpc.batch([_block_call(block) for block in blocks])]

    def blocks(self, first: int, last: int) -> list[Block]:
        """The blocks of these numbers, both included. Raises NodeUnavailable.

        Each is the parent of the next; whether the first follows on what came before, the caller checks.
        """
        for _ in range(TRIES):
            found = self._found(first, last)
            blocks = [block for block in found if block is not None]
            if len(blocks) == len(found) and all(a.hash == b.parent_hash for a, b in pairwise(blocks)):
                return blocks
            self._sleep(PAUSE_S)
        raise NodeUnavailable(f"The node does not have the blocks {first} to {last} yet, or reorganises them now.")

    def _found(self, first: int, last: int) -> list[Block | None]:
        if self._way != "logs":
            try:
                return self._by_receipts(first, last)
            except NodeLacksMethod as error:
                if self._way == "receipts":
                    raise
                log.info("the node lacks eth_getBlockReceipts; eth_getLogs is used", reason=error.detail)
                self._way = "logs"
        return self._by_logs(first, last)

    def _by_receipts(self, first: int, last: int) -> list[Block | None]:
        calls: list[Call] = []
        for number in range(first, last + 1):
            calls += [_block_call(number), ("eth_getBlockReceipts", [hex(number)])]
        results = self._rpc.batch(calls)
        found: list[Block | None] = []
        for raw_header, raw_receipts in zip(results[::2], results[1::2], strict=True):
            header, receipts = _decoded(_HEADER, raw_header), _decoded(_RECEIPTS, raw_receipts)
            found.append(None if header is None or receipts is None else from_receipts(header, receipts))
        return found

    def _by_logs(self, first: int, last: int) -> list[Block | None]:
        logs: dict[int, list[Log]] = {}
        for each in self._logs(first, last):
            logs.setdefault(int(each.block_number, 16), []).append(each)
        numbers = range(first, last + 1)
        raws = self._rpc.batch([_block_call(number, full=True) for number in numbers])
        fulls = [_decoded(_FULL, raw) for raw in raws]
        return [full and from_logs(full, logs.get(number, [])) for number, full in zip(numbers, fulls, strict=True)]

    def _logs(self, first: int, last: int) -> list[Log]:
        try:
            found = self._rpc.call("eth_getLogs", {"fromBlock": hex(first), "toBlock": hex(last)})
        except NodeRefusesSize as error:
            if first == last:
                raise NodeUnavailable(f"The node refuses the logs of block {first} alone: {error.detail}") from error
            self._range = max(1.0, min(self._range, (last - first + 1) / 2))
            middle = (first + last) // 2
            return self._logs(first, middle) + self._logs(middle + 1, last)
        if last - first + 1 >= self.span:
            self._range = min(MOST_BLOCKS, self._range * GROWTH)
        return _decoded(_LOGS, found)


def _block_call(block: int | str, *, full: bool = False) -> Call:
    return "eth_getBlockByNumber", [hex(block) if isinstance(block, int) else block, full]


def _decoded(decoder: "msgspec.json.Decoder[_T]", raw: msgspec.Raw) -> _T:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NodeUnavailable(f"The node sends what is no answer to the question: {error}.") from error
