"""Fetches blocks with all their logs from one node.

There are two methods. `receipts` calls eth_getBlockReceipts for each block. `logs` calls eth_getLogs over a range of
blocks, and fetches the blocks with their transactions for senders and receivers. A block and its logs come from
separate calls, and nodes omit logs, so responses are verified: the logs must carry the block's hash, set all bits of
its bloom filter and have consecutive indexes, and each block must be the parent of the next. An incomplete block is
requested again, also by the other method.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeVar

import msgspec
import structlog

from headwater.errors import (
    BlockIncomplete,
    MethodMissing,
    NodeBehind,
    NodeRateLimited,
    NodeUnavailable,
    RangeTooLarge,
    RequestRejected,
)
from headwater.ingest.evm.adaptive import AdaptiveSize
from headwater.ingest.evm.blocks import Block, FullBlock, HashesBlock, Header, Log, Receipt, from_logs, from_receipts
from headwater.ingest.evm.completeness import (
    METHODS,
    BlockResponse,
    Incompleteness,
    Method,
    complete_block,
    find_incompleteness,
    merged,
    state_sync_transaction,
    with_receipt,
)
from headwater.ingest.evm.rpc_client import Call, Outcome, RpcClient
from headwater.ingest.jsonrpc import MAX_QUOTED_CHARS

_T = TypeVar("_T")
BlockOutcome = BlockResponse | NodeUnavailable
"""The data of a block that a node has sent, or the error of the request."""

DEFAULT_RANGE: Final = 10
MAX_RANGE: Final = 200
"""The most blocks in one eth_getLogs, after the range has grown."""
RANGE_STEP: Final = 2
MAX_TRIES: Final = 5
"""The most requests for a block by each method."""
MAX_RANGE_TRIES: Final = 2
"""The most requests for a range of blocks before the range is halved."""
RETRY_PAUSE_S: Final = 0.2
"""The pause before a block is requested again: nodes behind one URL may have different heads."""
METHOD_RETRY_S: Final = 600.0
"""The time after which a method that a node did not support is tried again."""
WARN_EVERY_S: Final = 60.0

_HEADER: Final = msgspec.json.Decoder(Header | None)
_HASHES: Final = msgspec.json.Decoder(HashesBlock | None)
_FULL: Final = msgspec.json.Decoder(FullBlock | None)
_RECEIPTS: Final = msgspec.json.Decoder(list[Receipt] | None)
_RECEIPT: Final = msgspec.json.Decoder(Receipt | None)
_LOGS: Final = msgspec.json.Decoder(list[Log])
_TEXT: Final = msgspec.json.Decoder(str)
_QUANTITY: Final = re.compile("0x[0-9a-fA-F]{1,16}")

log = structlog.get_logger(__name__)


class BlockFetcher:
    """Fetches blocks from one node. Thread-safe.

    Args:
        rpc: The client of the node.
        preferred: The method that is tried first; None for receipts.
        sprint: See `completeness.SPRINTS`.
        sleep: Waits for some seconds. The default ends early when the client is closed.
        clock: Returns monotonic seconds.

    Attributes:
        incomplete: The number of responses in which a part of a block was missing.
    """

    def __init__(
        self,
        rpc: RpcClient,
        preferred: Method | None = None,
        sprint: int | None = None,
        *,
        sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rpc = rpc
        self._methods = METHODS if preferred != "logs" else METHODS[::-1]
        self.sprint = sprint
        self._sleep = sleep or rpc.wait
        self._clock = clock
        self._range_size = AdaptiveSize(DEFAULT_RANGE, MAX_RANGE, RANGE_STEP)
        self._missing_until: dict[Method, float] = {}
        self._warn_at = 0.0
        self.incomplete = 0

    @property
    def label(self) -> str:
        """The name of the node in logs and errors, without secrets."""
        return self._rpc.label

    @property
    def range_size(self) -> int:
        """The current number of blocks per request."""
        return self._range_size.value if self._available_methods()[0] == "logs" else DEFAULT_RANGE

    @property
    def retries(self) -> int:
        """The number of requests that were retries."""
        return self._rpc.retries

    def wait(self, seconds: float) -> None:
        """Wait for this many seconds, or until the fetcher is closed."""
        self._sleep(seconds)

    def close(self) -> None:
        """Close the connections."""
        self._rpc.close()

    def chain_id(self) -> int:
        """Return the chain's id (EIP-155). Raises NodeUnavailable."""
        text = _decoded(_TEXT, self._rpc.call("eth_chainId"))
        if not _is_number(text):
            raise _unexpected_response(f"the chain's id is {text[:MAX_QUOTED_CHARS]!r}")
        return int(text, 16)

    def header(self, block: int | str) -> Header | None:
        """Return a header by number, or by a tag like `latest`; None if it does not exist.

        Raises NodeUnavailable.
        """
        return self.headers([block])[0]

    def headers(self, blocks: Sequence[int | str]) -> list[Header | None]:
        """Return the headers of several blocks. Raises NodeUnavailable."""
        found = [_decoded(_HEADER, raw) for raw in self._rpc.batch([_block_call(block) for block in blocks])]
        for header in found:
            if header is not None and not _is_number(header.number):
                raise _unexpected_response(f"a block has the number {header.number[:MAX_QUOTED_CHARS]!r}")
        return found

    def blocks(self, first: int, last: int) -> list[Block]:
        """Return the blocks of a range, both ends included. Raises NodeUnavailable.

        Each block is the parent of the next. The caller must check that the first block follows its last one.
        """
        collector = _BlockCollector(range(first, last + 1), self.sprint)
        for attempt in range(MAX_TRIES * len(METHODS)):
            usable = self._available_methods()
            if attempt >= len(usable):
                self._sleep(RETRY_PAUSE_S)
            self._request(collector, usable[attempt % len(usable)])
            if attempt + 1 >= len(usable):
                self._find_state_syncs(collector)
            if (blocks := collector.blocks()) is not None:
                return blocks
        return collector.accepted()

    def _available_methods(self) -> tuple[Method, ...]:
        """Return the methods that the node supports, the preferred one first.

        Returns all methods if it seems to support none.
        """
        now = self._clock()
        return tuple(each for each in self._methods if self._missing_until.get(each, now) <= now) or self._methods

    def _request(self, collector: "_BlockCollector", method: Method) -> None:
        wanted = collector.incomplete_numbers()
        found = self._by_receipts(wanted) if method == "receipts" else self._by_logs(wanted)
        missing = next((each for each in found.values() if isinstance(each, MethodMissing)), None)
        if missing is not None:
            self._note_missing(method, missing)
        faulty = [number for number, each in found.items() if collector.add(number, each)]
        if faulty:
            self._note_incomplete(len(faulty), faulty[0], collector.reason(faulty[0]))

    def _note_missing(self, method: Method, missing: MethodMissing) -> None:
        self._missing_until[method] = self._clock() + METHOD_RETRY_S
        if not self._has_alternative(method):
            raise missing
        other = {"receipts": "eth_getLogs", "logs": "eth_getBlockReceipts"}[method]
        log.info(f"the node does not support a method; {other} is used", node=self.label, reason=missing.detail)

    def _has_alternative(self, method: Method) -> bool:
        return any(each != method and self._missing_until.get(each, 0.0) <= self._clock() for each in METHODS)

    def _note_incomplete(self, count: int, number: int, reason: str) -> None:
        self.incomplete += count
        if self._clock() >= self._warn_at:
            self._warn_at = self._clock() + WARN_EVERY_S
            event = "a node returned an incomplete block; requesting it again"
            log.warning(event, node=self.label, block=number, reason=reason)

    def _by_receipts(self, numbers: Sequence[int]) -> dict[int, BlockOutcome]:
        calls: list[Call] = []
        for number in numbers:
            calls += [_block_call(number), ("eth_getBlockReceipts", [hex(number)])]
        outcomes = self._rpc.outcomes(calls)
        pairs = zip(outcomes[::2], outcomes[1::2], strict=True)
        return {number: _from_receipts(number, *pair) for number, pair in zip(numbers, pairs, strict=True)}

    def _by_logs(self, numbers: Sequence[int]) -> dict[int, BlockOutcome]:
        logs: dict[int, list[Log] | NodeUnavailable] = {}
        for first, last in _runs(numbers):
            logs |= self._logs(first, last)
        outcomes = self._rpc.outcomes([_block_call(number, full=True) for number in numbers])
        return {
            number: _from_logs(number, outcome, logs[number]) for number, outcome in zip(numbers, outcomes, strict=True)
        }

    def _logs(self, first: int, last: int) -> dict[int, list[Log] | NodeUnavailable]:
        """Return the logs of a range by block number. A range that fails is halved."""
        width, numbers = last - first + 1, range(first, last + 1)
        call: Call = ("eth_getLogs", [{"fromBlock": hex(first), "toBlock": hex(last)}])
        (outcome,) = self._rpc.outcomes([call], MAX_RANGE_TRIES if width > 1 else None)
        if not isinstance(outcome, NodeUnavailable):
            self._range_size.on_success(width)
            return _by_number(outcome, numbers)
        if width == 1 or isinstance(outcome, MethodMissing | NodeRateLimited | NodeBehind):
            return dict.fromkeys(numbers, outcome)
        middle = (first + last) // 2
        lower = self._logs(first, middle)
        # Half of the range failed in the same way, so the node is unavailable and the range size is not the cause.
        if all(type(each) is NodeUnavailable for each in lower.values()):
            return dict.fromkeys(numbers, outcome)
        if isinstance(outcome, RangeTooLarge) or any(isinstance(each, list) for each in lower.values()):
            self._range_size.on_refusal(width)
        return lower | self._logs(middle + 1, last)

    def _find_state_syncs(self, collector: "_BlockCollector") -> None:
        """Fetch the receipt of each state-sync transaction that neither method returned."""
        responses = collector.without_state_sync()
        calls: list[Call] = [("eth_getTransactionReceipt", [state_sync_transaction(each)]) for each in responses]
        for response, outcome in zip(responses, self._rpc.outcomes(calls) if calls else (), strict=True):
            receipt = _of_outcome(_RECEIPT, outcome)
            if not isinstance(receipt, NodeUnavailable):
                collector.add(response.block.number, _with_receipt(response, receipt))


class _BlockCollector:
    """Collects the responses about the blocks of one call of `BlockFetcher.blocks`."""

    def __init__(self, numbers: range, sprint: int | None) -> None:
        self._numbers = numbers
        self._sprint = sprint
        self._responses: dict[int, BlockResponse] = {}
        self._errors: dict[int, NodeUnavailable] = {}
        self._complete: dict[int, Block] = {}

    def incomplete_numbers(self) -> list[int]:
        """Return the numbers of the blocks that are not known to be complete."""
        return [number for number in self._numbers if number not in self._complete]

    def add(self, number: int, found: BlockOutcome) -> bool:
        """Add a response about a block. Returns whether a part of the block is certainly missing.

        Raises NodeUnavailable when the node is unavailable.
        """
        if isinstance(found, NodeUnavailable):
            if not isinstance(found, RequestRejected | NodeBehind):
                raise found
            self._errors[number] = found
            return False
        try:
            response = merged(self._responses.get(number), found)
            incompleteness = find_incompleteness(response, self._sprint)
        except ValueError as error:  # invalid hex
            self._errors[number] = _unexpected_response(str(error))
            return False
        self._responses[number] = response
        if incompleteness is None:
            self._complete[number] = complete_block(response, self._sprint)
        return incompleteness is not None and incompleteness.is_certain and not self._is_half(response)

    def _is_half(self, response: BlockResponse) -> bool:
        """Return whether only the other method is missing, as for the first block of a sprint."""
        return find_incompleteness(response, None) is None and len(response.methods) < len(METHODS)

    def reason(self, number: int) -> str:
        """Return why a block is not known to be complete."""
        incompleteness, error = self._incompleteness(number), self._errors.get(number)
        reasons = [incompleteness.reason] if incompleteness else []
        reasons += [error.detail.rstrip(".")] if error else []
        return "; ".join(reasons)

    def _incompleteness(self, number: int) -> Incompleteness | None:
        response = self._responses.get(number)
        return find_incompleteness(response, self._sprint) if response else None

    def blocks(self) -> list[Block] | None:
        """Return all blocks if each is complete and the parent of the next; otherwise None.

        Blocks that are not linked to each other are requested again.
        """
        if len(self._complete) < len(self._numbers):
            return None
        found = [self._complete[number] for number in self._numbers]
        for parent, child in pairwise(found):
            if parent.hash != child.parent_hash:
                for block in (parent, child):
                    self._complete.pop(block.number, None)
                    self._responses.pop(block.number, None)
        return found if len(self._complete) == len(found) else None

    def without_state_sync(self) -> list[BlockResponse]:
        """Return the responses for incomplete blocks that lack a state-sync transaction's receipt."""
        return [
            response
            for number, response in self._responses.items()
            if number not in self._complete
            and self._sprint is not None
            and number % self._sprint == 0
            and state_sync_transaction(response) not in response.receipt_blooms
        ]

    def accepted(self) -> list[Block]:
        """Return all blocks, including those that may be incomplete.

        Raises BlockIncomplete or NodeBehind.
        """
        for number in self.incomplete_numbers():
            incompleteness = self._incompleteness(number)
            if incompleteness is not None and not incompleteness.is_certain:
                event = "a block can't be proven complete; it is accepted as received"
                log.warning(event, block=number, reason=self.reason(number))
                self._complete[number] = complete_block(self._responses[number], self._sprint)
        if (blocks := self.blocks()) is not None:
            return blocks
        for number in self.incomplete_numbers():
            if self._incompleteness(number) or not isinstance(self._errors.get(number, NodeBehind("")), NodeBehind):
                raise BlockIncomplete(
                    f"The node returns block {number} incomplete: {self.reason(number)}. It is requested again. "
                    "If this persists, add another node (repeat --rpc) and resync this one."
                )
        first, last = self._numbers[0], self._numbers[-1]
        raise NodeBehind(f"The node does not have the blocks {first} to {last} yet, or is reorganising them.")


def _block_call(block: int | str, *, full: bool = False) -> Call:
    return "eth_getBlockByNumber", [hex(block) if isinstance(block, int) else block, full]


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last number of each run of consecutive numbers."""
    first = previous = numbers[0]
    for number in numbers[1:]:
        if number != previous + 1:
            yield first, previous
            first = number
        previous = number
    yield first, previous


def _by_number(raw: msgspec.Raw, numbers: range) -> dict[int, list[Log] | NodeUnavailable]:
    logs = _tried(_LOGS, raw)
    if isinstance(logs, NodeUnavailable):
        return dict.fromkeys(numbers, logs)
    found: dict[int, list[Log] | NodeUnavailable] = {number: [] for number in numbers}
    for each in logs:
        of_block = found.get(int(each.block_number, 16)) if _is_number(each.block_number) else None
        if isinstance(of_block, list):
            of_block.append(each)
    return found


def _absent(number: int) -> NodeBehind:
    return NodeBehind(f"The node does not have block {number} yet.")


def _another_block(block: Block, number: int) -> RequestRejected:
    return _unexpected_response(f"it returned block {block.number} instead of block {number}")


def _with_receipt(response: BlockResponse, receipt: Receipt | None) -> BlockOutcome:
    try:
        return with_receipt(response, receipt)
    except ValueError as error:  # invalid hex
        return _unexpected_response(str(error))


def _from_receipts(number: int, header_outcome: Outcome, receipts_outcome: Outcome) -> BlockOutcome:
    header = _of_outcome(_HASHES, header_outcome)
    receipts = _of_outcome(_RECEIPTS, receipts_outcome)
    if isinstance(header, NodeUnavailable):
        return header
    if isinstance(receipts, NodeUnavailable):
        return _as_refused(receipts)
    try:
        block = None if header is None or receipts is None else from_receipts(header, receipts)
    except ValueError as error:  # invalid hex
        return _unexpected_response(str(error))
    if header is None or receipts is None or block is None:
        return _absent(number)
    if block.number != number:
        return _another_block(block, number)
    blooms = {receipt.transaction_hash: receipt.logs_bloom for receipt in receipts}
    return BlockResponse(
        block, header.logs_bloom, frozenset(header.transactions), frozenset({"receipts"}), receipt_blooms=blooms
    )


def _from_logs(number: int, full_outcome: Outcome, logs: list[Log] | NodeUnavailable) -> BlockOutcome:
    full = _of_outcome(_FULL, full_outcome)
    if isinstance(full, NodeUnavailable):
        return full
    if isinstance(logs, NodeUnavailable):
        return _as_refused(logs)
    try:
        block = None if full is None else from_logs(full, logs)
    except ValueError as error:  # invalid hex
        return _unexpected_response(str(error))
    if full is None or block is None:
        return _absent(number)
    if block.number != number:
        return _another_block(block, number)
    hashes = frozenset(transaction.hash for transaction in full.transactions)
    return BlockResponse(block, full.logs_bloom, hashes, frozenset({"logs"}))


def _as_refused(error: NodeUnavailable) -> NodeUnavailable:
    """Convert an error about the logs of an existing block to RequestRejected.

    The other method may return them.
    """
    if isinstance(error, RequestRejected | NodeRateLimited | NodeBehind):
        return error
    return RequestRejected(error.detail, error.retry_after_s)


def _of_outcome(decoder: "msgspec.json.Decoder[_T]", outcome: Outcome) -> _T | NodeUnavailable:
    if isinstance(outcome, NodeUnavailable):
        return outcome
    return _tried(decoder, outcome)


def _tried(decoder: "msgspec.json.Decoder[_T]", raw: msgspec.Raw) -> _T | NodeUnavailable:
    try:
        return _decoded(decoder, raw)
    except NodeUnavailable as error:
        return error


def _decoded(decoder: "msgspec.json.Decoder[_T]", raw: msgspec.Raw) -> _T:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unexpected_response(str(error)) from error


def _unexpected_response(why: str) -> RequestRejected:
    return RequestRejected(f"The node's response has an unexpected form: {why}.")


def _is_number(quantity: str) -> bool:
    return bool(_QUANTITY.fullmatch(quantity))
