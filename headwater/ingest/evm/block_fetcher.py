"""Fetches blocks with all their logs from one node.

There are two methods. `receipts` calls eth_getBlockReceipts for each block. `logs` calls eth_getLogs over a range of
blocks, and fetches the blocks with their transactions, which have the senders and receivers. A block and its logs come
from separate calls, and nodes omit logs, so responses are verified: the logs must have the hash of the block, set all
bits of the bloom filter of the block and have consecutive indexes, and each block must be the parent of the next. An
incomplete block is requested again, also by the other method.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeVar

import msgspec
import structlog

from headwater.errors import (
    BlockIncomplete,
    NodeBehind,
    NodeCallFailed,
    NodeCallTooLarge,
    NodeError,
    NodeMethodMissing,
    NodeRateLimited,
    NodeUnavailable,
)
from headwater.ingest.evm.adaptive import AdaptiveSize
from headwater.ingest.evm.blocks import (
    Block,
    BlockWithHashes,
    BlockWithTransactions,
    Header,
    Log,
    Receipt,
    from_logs,
    from_receipts,
)
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
BlockOutcome = BlockResponse | NodeError
"""The data of a block that a node has sent, or the error of the request."""
LogsOutcome = list[Log] | NodeError
"""The logs of a block that a node has sent, or the error of the request."""

DEFAULT_RANGE: Final = 10
MAX_RANGE: Final = 200
"""The maximum number of blocks in one eth_getLogs, after the range has grown."""
RANGE_STEP: Final = 2
MAX_ATTEMPTS_PER_METHOD: Final = 5
"""The maximum number of requests for a block by each method, if the node supports both methods.

If the node supports only one method, this method gets the requests of the other one too.
"""
MAX_RANGE_ATTEMPTS: Final = 2
"""The maximum number of requests for a range of blocks before the range is halved."""
RETRY_PAUSE_S: Final = 0.2
"""The pause before a block is requested again: nodes behind one URL may have different heads."""
METHOD_RETRY_S: Final = 600.0
"""The time after which a method that a node did not support is tried again."""
WARN_EVERY_S: Final = 60.0

_HEADER: Final = msgspec.json.Decoder(Header | None)
_HASHES: Final = msgspec.json.Decoder(BlockWithHashes | None)
_FULL: Final = msgspec.json.Decoder(BlockWithTransactions | None)
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
        preferred_method: The method that is tried first; None for receipts.
        sprint: The number of blocks of a sprint, see `completeness.SPRINTS`; None for a chain without sprints.
        sleep: Waits for some seconds. The default ends early when the client is closed.
        clock: Returns monotonic seconds.

    Attributes:
        incomplete: The number of responses in which a part of a block was missing.
    """

    def __init__(
        self,
        rpc: RpcClient,
        preferred_method: Method | None = None,
        sprint: int | None = None,
        *,
        sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rpc = rpc
        self._methods = METHODS if preferred_method != "logs" else METHODS[::-1]
        self.sprint = sprint
        self._sleep = sleep or rpc.wait
        self._clock = clock
        self._range_size = AdaptiveSize(DEFAULT_RANGE, MAX_RANGE, RANGE_STEP)
        self._unsupported_until: dict[Method, float] = {}
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
        """The number of requests that were sent again."""
        return self._rpc.retries

    def wait(self, seconds: float) -> None:
        """Wait for this many seconds, or until the fetcher is closed."""
        self._sleep(seconds)

    def close(self) -> None:
        """Close the connections."""
        self._rpc.close()

    def chain_id(self) -> int:
        """Return the chain's id (EIP-155). Raises NodeError."""
        text = _decoded(_TEXT, self._rpc.call("eth_chainId"))
        if not _is_number(text):
            raise _unexpected_response(f"the chain's id is {text[:MAX_QUOTED_CHARS]!r}")
        return int(text, 16)

    def header(self, block: int | str) -> Header | None:
        """Return a header by number, or by a tag like `latest`; None if it does not exist.

        Raises NodeError.
        """
        return self.headers([block])[0]

    def headers(self, blocks: Sequence[int | str]) -> list[Header | None]:
        """Return the headers of several blocks. Raises NodeError."""
        headers = [_decoded(_HEADER, raw) for raw in self._rpc.batch([_block_call(block) for block in blocks])]
        for header in headers:
            if header is not None and not _is_number(header.number):
                raise _unexpected_response(f"a block has the number {header.number[:MAX_QUOTED_CHARS]!r}")
        return headers

    def blocks(self, first: int, last: int) -> list[Block]:
        """Return the blocks of a range, both ends included. Raises NodeError.

        Each block is the parent of the next. The caller must check the parent of the first block.
        """
        collector = _BlockCollector(range(first, last + 1), self.sprint)
        for attempt in range(MAX_ATTEMPTS_PER_METHOD * len(METHODS)):
            methods = self._available_methods()
            if attempt >= len(methods):
                self._sleep(RETRY_PAUSE_S)
            self._request(collector, methods[attempt % len(methods)])
            # Each method may have returned the state-sync transaction, so all methods are tried first.
            if attempt + 1 >= len(methods):
                self._fetch_state_syncs(collector)
            collector.drop_unlinked()
            if (blocks := collector.blocks()) is not None:
                return blocks
        return collector.accept_remaining()

    def _available_methods(self) -> tuple[Method, ...]:
        """Return the methods that the node supports, the preferred one first.

        Returns all methods if the node seems to support none.
        """
        now = self._clock()
        supported = tuple(method for method in self._methods if self._unsupported_until.get(method, now) <= now)
        return supported or self._methods

    def _request(self, collector: "_BlockCollector", method: Method) -> None:
        """Request the blocks that are not known to be complete, by one method."""
        numbers = collector.incomplete_numbers()
        outcomes = self._by_receipts(numbers) if method == "receipts" else self._by_logs(numbers)
        unsupported = next((outcome for outcome in outcomes.values() if isinstance(outcome, NodeMethodMissing)), None)
        if unsupported is not None:
            self._on_unsupported_method(method, unsupported)
        reasons = {number: collector.add(number, outcome) for number, outcome in outcomes.items()}
        self._on_incomplete({number: reason for number, reason in reasons.items() if reason})

    def _on_unsupported_method(self, method: Method, error: NodeMethodMissing) -> None:
        """Use the other method for some time. Raises the error when the node supports neither."""
        self._unsupported_until[method] = self._clock() + METHOD_RETRY_S
        if not self._has_alternative(method):
            raise error
        other = {"receipts": "eth_getLogs", "logs": "eth_getBlockReceipts"}[method]
        log.info(f"the node does not support a method; {other} is used", node=self.label, reason=error.detail)

    def _has_alternative(self, method: Method) -> bool:
        return any(other != method and self._unsupported_until.get(other, 0.0) <= self._clock() for other in METHODS)

    def _on_incomplete(self, reasons: Mapping[int, str]) -> None:
        """Count the incomplete blocks, and log the first one.

        `reasons` has the reason of each block, by number.
        """
        self.incomplete += len(reasons)
        if reasons and self._clock() >= self._warn_at:
            self._warn_at = self._clock() + WARN_EVERY_S
            number, reason = next(iter(reasons.items()))
            event = "a node returned an incomplete block; requesting it again"
            log.warning(event, node=self.label, block=number, reason=reason)

    def _by_receipts(self, numbers: Sequence[int]) -> dict[int, BlockOutcome]:
        calls: list[Call] = []
        for number in numbers:
            calls += [_block_call(number), ("eth_getBlockReceipts", [hex(number)])]
        outcomes = self._rpc.outcomes(calls)
        pairs = zip(outcomes[::2], outcomes[1::2], strict=True)
        return {number: _response_from_receipts(number, *pair) for number, pair in zip(numbers, pairs, strict=True)}

    def _by_logs(self, numbers: Sequence[int]) -> dict[int, BlockOutcome]:
        logs: dict[int, LogsOutcome] = {}
        for run in _runs(numbers):
            logs |= self._logs(run)
        outcomes = self._rpc.outcomes([_block_call(number, full=True) for number in numbers])
        return {
            number: _response_from_logs(number, outcome, logs[number])
            for number, outcome in zip(numbers, outcomes, strict=True)
        }

    def _logs(self, numbers: range) -> Mapping[int, LogsOutcome]:
        """Return the logs of a range of blocks by block number. A range that fails is halved."""
        call: Call = ("eth_getLogs", [{"fromBlock": hex(numbers[0]), "toBlock": hex(numbers[-1])}])
        (outcome,) = self._rpc.outcomes([call], MAX_RANGE_ATTEMPTS if len(numbers) > 1 else None)
        if not isinstance(outcome, NodeError):
            self._range_size.on_success(len(numbers))
            return _by_number(outcome, numbers)
        if len(numbers) == 1 or isinstance(outcome, NodeMethodMissing | NodeRateLimited | NodeBehind):
            return dict.fromkeys(numbers, outcome)
        return self._logs_of_halves(numbers, outcome)

    def _logs_of_halves(self, numbers: range, error: NodeError) -> Mapping[int, LogsOutcome]:
        """Return the logs of a range by its halves.

        `error` was the outcome of the whole range.
        """
        middle = (len(numbers) + 1) // 2
        lower_half = self._logs(numbers[:middle])
        if all(_is_outage(outcome) for outcome in lower_half.values()):  # the size of the range is not the cause
            return dict.fromkeys(numbers, error)
        if isinstance(error, NodeCallTooLarge) or any(isinstance(outcome, list) for outcome in lower_half.values()):
            self._range_size.on_refusal(len(numbers))
        return {**lower_half, **self._logs(numbers[middle:])}

    def _fetch_state_syncs(self, collector: "_BlockCollector") -> None:
        """Fetch the receipts of state-sync transactions that no method has returned.

        A response without a receipt means that the block has no such transaction.
        """
        responses = collector.lacking_state_sync_receipt()
        hashes = [state_sync_transaction(response) for response in responses]
        calls: list[Call] = [("eth_getTransactionReceipt", [hash_]) for hash_ in hashes]
        for response, outcome in zip(responses, self._rpc.outcomes(calls) if calls else (), strict=True):
            receipt = _decoded_outcome(_RECEIPT, outcome)
            if not isinstance(receipt, NodeError):
                collector.add(response.block.number, _response_with_receipt(response, receipt))


class _BlockCollector:
    """Collects the responses about the blocks of one call of `BlockFetcher.blocks`."""

    def __init__(self, numbers: range, sprint: int | None) -> None:
        self._numbers = numbers
        self._sprint = sprint
        self._responses: dict[int, BlockResponse] = {}
        self._errors: dict[int, NodeError] = {}
        self._complete: dict[int, Block] = {}

    def incomplete_numbers(self) -> list[int]:
        """Return the numbers of the blocks that are not known to be complete."""
        return [number for number in self._numbers if number not in self._complete]

    def add(self, number: int, outcome: BlockOutcome) -> str:
        """Add the outcome of a request for a block.

        Returns the reason when the node has omitted a part of the block, otherwise "". Raises NodeUnavailable and
        NodeRateLimited, which are not about a single block.
        """
        if isinstance(outcome, NodeError):
            if not isinstance(outcome, NodeCallFailed | NodeBehind):
                raise outcome
            self._errors[number] = outcome
            return ""
        try:
            response = merged(self._responses.get(number), outcome)
            incompleteness = find_incompleteness(response, self._sprint)
        except ValueError as error:  # invalid hex
            self._errors[number] = _unexpected_response(str(error))
            return ""
        self._responses[number] = response
        if incompleteness is None:
            self._complete[number] = complete_block(response, self._sprint)
            return ""
        if incompleteness.is_acceptable or self._awaits_other_method(response):
            return ""
        return self.reason(number)

    def _awaits_other_method(self, response: BlockResponse) -> bool:
        """Return whether the block would be complete with the response of the other method.

        This is normal for the first block of a sprint.
        """
        is_complete_without_state_sync = find_incompleteness(response, sprint=None) is None
        return is_complete_without_state_sync and len(response.methods) < len(METHODS)

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
        """Return all blocks; None while one is not known to be complete."""
        if len(self._complete) < len(self._numbers):
            return None
        return [self._complete[number] for number in self._numbers]

    def drop_unlinked(self) -> None:
        """Drop blocks that are not linked to each other as parent and child.

        Dropped blocks are requested again.
        """
        for parent, child in pairwise(self.blocks() or ()):
            if parent.hash != child.parent_hash:
                for block in (parent, child):
                    self._complete.pop(block.number, None)
                    self._responses.pop(block.number, None)

    def lacking_state_sync_receipt(self) -> list[BlockResponse]:
        """Return the responses for incomplete blocks that lack a state-sync transaction's receipt."""
        return [
            response
            for number, response in self._responses.items()
            if number not in self._complete
            and self._sprint is not None
            and number % self._sprint == 0
            and state_sync_transaction(response) not in response.receipt_blooms
        ]

    def accept_remaining(self) -> list[Block]:
        """Accept the blocks whose incompleteness is acceptable, and return all blocks.

        Raises BlockIncomplete when a block is incomplete and not acceptable, and NodeBehind when a block is missing.
        """
        for number in self.incomplete_numbers():
            incompleteness = self._incompleteness(number)
            if incompleteness is not None and incompleteness.is_acceptable:
                event = "a block can't be proven complete; it is accepted as received"
                log.warning(event, block=number, reason=self.reason(number))
                self._complete[number] = complete_block(self._responses[number], self._sprint)
        self.drop_unlinked()
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


def _runs(numbers: Sequence[int]) -> Iterator[range]:
    """Yield each run of consecutive numbers as a range."""
    first = previous = numbers[0]
    for number in numbers[1:]:
        if number != previous + 1:
            yield range(first, previous + 1)
            first = number
        previous = number
    yield range(first, previous + 1)


def _by_number(raw: msgspec.Raw, numbers: range) -> Mapping[int, LogsOutcome]:
    """Return the logs of a response by block number. Logs of other blocks are ignored."""
    logs = _decoded_outcome(_LOGS, raw)
    if isinstance(logs, NodeError):
        return dict.fromkeys(numbers, logs)
    by_number: dict[int, list[Log]] = {number: [] for number in numbers}
    for log_ in logs:
        if _is_number(log_.block_number) and (block_logs := by_number.get(int(log_.block_number, 16))) is not None:
            block_logs.append(log_)
    return by_number


def _is_outage(outcome: LogsOutcome) -> bool:
    return isinstance(outcome, NodeUnavailable)


def _missing_block(number: int) -> NodeBehind:
    return NodeBehind(f"The node does not have block {number} yet.")


def _wrong_block(block: Block, number: int) -> NodeCallFailed:
    return _unexpected_response(f"it returned block {block.number} instead of block {number}")


def _response_with_receipt(response: BlockResponse, receipt: Receipt | None) -> BlockOutcome:
    try:
        return with_receipt(response, receipt)
    except ValueError as error:  # invalid hex
        return _unexpected_response(str(error))


def _response_from_receipts(number: int, header_outcome: Outcome, receipts_outcome: Outcome) -> BlockOutcome:
    header = _decoded_outcome(_HASHES, header_outcome)
    receipts = _decoded_outcome(_RECEIPTS, receipts_outcome)
    if isinstance(header, NodeError):
        return header
    if isinstance(receipts, NodeError):
        return _as_failed_call(receipts)
    try:
        block = None if header is None or receipts is None else from_receipts(header, receipts)
    except ValueError as error:  # invalid hex
        return _unexpected_response(str(error))
    if header is None or receipts is None or block is None:
        return _missing_block(number)
    if block.number != number:
        return _wrong_block(block, number)
    blooms = {receipt.transaction_hash: receipt.logs_bloom for receipt in receipts}
    return BlockResponse(
        block, header.logs_bloom, frozenset(header.transactions), frozenset({"receipts"}), receipt_blooms=blooms
    )


def _response_from_logs(number: int, full_outcome: Outcome, logs: LogsOutcome) -> BlockOutcome:
    full = _decoded_outcome(_FULL, full_outcome)
    if isinstance(full, NodeError):
        return full
    if isinstance(logs, NodeError):
        return _as_failed_call(logs)
    try:
        block = None if full is None else from_logs(full, logs)
    except ValueError as error:  # invalid hex
        return _unexpected_response(str(error))
    if full is None or block is None:
        return _missing_block(number)
    if block.number != number:
        return _wrong_block(block, number)
    hashes = frozenset(transaction.hash for transaction in full.transactions)
    return BlockResponse(block, full.logs_bloom, hashes, frozenset({"logs"}))


def _as_failed_call(error: NodeError) -> NodeError:
    """Convert an error about the logs of an existing block to NodeCallFailed.

    The other method is then used. Errors that say more, such as rate limiting, are returned unchanged.
    """
    if isinstance(error, NodeCallFailed | NodeRateLimited | NodeBehind):
        return error
    return NodeCallFailed(error.detail, error.retry_after_s)


def _decoded_outcome(decoder: "msgspec.json.Decoder[_T]", outcome: Outcome) -> _T | NodeError:
    """Return the decoded result of a call, or the error of the call or of the decoding."""
    if isinstance(outcome, NodeError):
        return outcome
    try:
        return _decoded(decoder, outcome)
    except NodeError as error:
        return error


def _decoded(decoder: "msgspec.json.Decoder[_T]", raw: msgspec.Raw) -> _T:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unexpected_response(str(error)) from error


def _unexpected_response(why: str) -> NodeCallFailed:
    return NodeCallFailed(f"The node's response has an unexpected form: {why}.")


def _is_number(quantity: str) -> bool:
    return bool(_QUANTITY.fullmatch(quantity))
