"""Blocks with all their logs from one node.

`receipts`: eth_getBlockReceipts for each block. `logs`: eth_getLogs over a range of blocks, and the blocks with their
transactions for senders and receivers. A block and its logs come from separate calls, and nodes leave out logs, so what
comes is checked: the logs must name the block's hash and explain its bloom filter, their numbers have no gap, and each
block names the one before. A block that is not whole is asked for again, by the other method too.
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
    NodeBusy,
    NodeUnavailable,
    RangeTooLarge,
    RequestRefused,
)
from headwater.ingest.evm.adaptive import AdaptiveSize
from headwater.ingest.evm.blocks import Block, FullBlock, HashesBlock, Header, Log, Receipt, from_logs, from_receipts
from headwater.ingest.evm.completeness import (
    METHODS,
    BlockResponse,
    Fault,
    Method,
    combined,
    fault_of,
    state_sync_transaction,
    whole_block,
    with_receipt,
)
from headwater.ingest.evm.rpc import Call, Outcome, RpcClient
from headwater.ingest.jsonrpc import SHOWN_CHARS

_T = TypeVar("_T")
BlockOutcome = BlockResponse | NodeUnavailable
"""What a node has sent of a block, or the error of the request."""

BLOCKS_AT_ONCE: Final = 10
MOST_BLOCKS: Final = 200
"""In one eth_getLogs, after the range grew."""
RANGE_STEP: Final = 2
TRIES: Final = 5
"""How often a block is asked for by each method."""
TRIES_OF_A_RANGE: Final = 2
"""How often a range of several blocks is asked for before it is narrowed."""
PAUSE_S: Final = 0.2
"""Nodes behind one address may have different heads: one of them may not have a block yet that another one has."""
MISSING_S: Final = 600.0
"""A method that a node did not offer is tried again after this time."""
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


class Fetcher:
    """Reads blocks from one node. Used by several threads.

    preferred: the method that is asked first; None: receipts. sprint: of the chain, see `completeness.SPRINTS`.
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
        self._range_size = AdaptiveSize(BLOCKS_AT_ONCE, MOST_BLOCKS, RANGE_STEP)
        self._missing_until: dict[Method, float] = {}
        self._warn_at = 0.0
        self.incomplete = 0

    @property
    def label(self) -> str:
        """Names the node without secrets."""
        return self._rpc.label

    @property
    def span(self) -> int:
        """How many blocks to ask for at once now."""
        return self._range_size.value if self._usable()[0] == "logs" else BLOCKS_AT_ONCE

    @property
    def retries(self) -> int:
        """How many requests were retries."""
        return self._rpc.retries

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the fetcher is closed."""
        self._sleep(seconds)

    def close(self) -> None:
        """Close the connections."""
        self._rpc.close()

    def chain_id(self) -> int:
        """The chain's id (EIP-155). Raises NodeUnavailable."""
        text = _decoded(_TEXT, self._rpc.call("eth_chainId"))
        if not _is_number(text):
            raise _no_answer(f"the chain's id is {text[:SHOWN_CHARS]!r}")
        return int(text, 16)

    def header(self, block: int | str) -> Header | None:
        """By number, or by a tag like `latest`; None when the node has none. Raises NodeUnavailable."""
        return self.headers([block])[0]

    def headers(self, blocks: Sequence[int | str]) -> list[Header | None]:
        """The headers of several blocks. Raises NodeUnavailable."""
        found = [_decoded(_HEADER, raw) for raw in self._rpc.batch([_block_call(block) for block in blocks])]
        for header in found:
            if header is not None and not _is_number(header.number):
                raise _no_answer(f"a block has the number {header.number[:SHOWN_CHARS]!r}")
        return found

    def blocks(self, first: int, last: int) -> list[Block]:
        """The blocks of these numbers, both included. Raises NodeUnavailable.

        Each is the parent of the next; whether the first follows on what came before, the caller checks.
        """
        gathering = _BlockCollector(range(first, last + 1), self.sprint)
        for attempt in range(TRIES * len(METHODS)):
            usable = self._usable()
            if attempt >= len(usable):
                self._sleep(PAUSE_S)
            self._gather(gathering, usable[attempt % len(usable)])
            if attempt + 1 >= len(usable):
                self._find_state_syncs(gathering)
            if (blocks := gathering.blocks()) is not None:
                return blocks
        return gathering.accepted()

    def _usable(self) -> tuple[Method, ...]:
        """The methods that the node offers, the preferred one first; all when it seems to offer none."""
        now = self._clock()
        return tuple(each for each in self._methods if self._missing_until.get(each, now) <= now) or self._methods

    def _gather(self, gathering: "_BlockCollector", method: Method) -> None:
        wanted = gathering.open_numbers()
        found = self._by_receipts(wanted) if method == "receipts" else self._by_logs(wanted)
        missing = next((each for each in found.values() if isinstance(each, MethodMissing)), None)
        if missing is not None:
            self._note_missing(method, missing)
        faulty = [number for number, each in found.items() if gathering.add(number, each)]
        if faulty:
            self._note_incomplete(len(faulty), faulty[0], gathering.reason(faulty[0]))

    def _note_missing(self, method: Method, missing: MethodMissing) -> None:
        self._missing_until[method] = self._clock() + MISSING_S
        if not self._usable_besides(method):
            raise missing
        other = {"receipts": "eth_getLogs", "logs": "eth_getBlockReceipts"}[method]
        log.info(f"the node lacks a method; {other} is used", node=self.label, reason=missing.detail)

    def _usable_besides(self, method: Method) -> bool:
        return any(each != method and self._missing_until.get(each, 0.0) <= self._clock() for each in METHODS)

    def _note_incomplete(self, count: int, number: int, reason: str) -> None:
        self.incomplete += count
        if self._clock() >= self._warn_at:
            self._warn_at = self._clock() + WARN_EVERY_S
            event = "a node does not give a block whole; it is asked again"
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
        """The logs of a range by block number; a range that fails is halved."""
        width, numbers = last - first + 1, range(first, last + 1)
        call: Call = ("eth_getLogs", [{"fromBlock": hex(first), "toBlock": hex(last)}])
        (outcome,) = self._rpc.outcomes([call], TRIES_OF_A_RANGE if width > 1 else None)
        if not isinstance(outcome, NodeUnavailable):
            self._range_size.succeeded(width)
            return _by_number(outcome, numbers)
        if width == 1 or isinstance(outcome, MethodMissing | NodeBusy | NodeBehind):
            return dict.fromkeys(numbers, outcome)
        middle = (first + last) // 2
        lower = self._logs(first, middle)
        # The node is unavailable: the size of the range is not the reason.
        if all(type(each) is NodeUnavailable for each in lower.values()):
            return dict.fromkeys(numbers, outcome)
        if isinstance(outcome, RangeTooLarge) or any(isinstance(each, list) for each in lower.values()):
            self._range_size.refused(width)
        return lower | self._logs(middle + 1, last)

    def _find_state_syncs(self, gathering: "_BlockCollector") -> None:
        """Ask for the receipt of each state-sync transaction that the methods left open."""
        answers = gathering.without_state_sync()
        calls: list[Call] = [("eth_getTransactionReceipt", [state_sync_transaction(each)]) for each in answers]
        for answer, outcome in zip(answers, self._rpc.outcomes(calls) if calls else (), strict=True):
            receipt = _of_outcome(_RECEIPT, outcome)
            if not isinstance(receipt, NodeUnavailable):
                gathering.add(answer.block.number, _with_receipt(answer, receipt))


class _BlockCollector:
    """The blocks of one call of `Fetcher.blocks`, and what the node has sent of each."""

    def __init__(self, numbers: range, sprint: int | None) -> None:
        self._numbers = numbers
        self._sprint = sprint
        self._answers: dict[int, BlockResponse] = {}
        self._errors: dict[int, NodeUnavailable] = {}
        self._whole: dict[int, Block] = {}

    def open_numbers(self) -> list[int]:
        """The blocks that are not known to be whole."""
        return [number for number in self._numbers if number not in self._whole]

    def add(self, number: int, found: BlockOutcome) -> bool:
        """Add what a node has sent of a block. Returns whether something of the block is certainly missing.

        Raises NodeUnavailable when the node is away.
        """
        if isinstance(found, NodeUnavailable):
            if not isinstance(found, RequestRefused | NodeBehind):
                raise found
            self._errors[number] = found
            return False
        try:
            answer = combined(self._answers.get(number), found)
            fault = fault_of(answer, self._sprint)
        except ValueError as error:  # hex digits that are none
            self._errors[number] = _no_answer(str(error))
            return False
        self._answers[number] = answer
        if fault is None:
            self._whole[number] = whole_block(answer, self._sprint)
        return fault is not None and fault.certain and not self._is_half(answer)

    def _is_half(self, answer: BlockResponse) -> bool:
        """Whether the response of one method waits for the other method, as for the first block of a sprint."""
        return fault_of(answer, None) is None and len(answer.methods) < len(METHODS)

    def reason(self, number: int) -> str:
        """Why a block is not known to be whole."""
        fault, error = self._fault(number), self._errors.get(number)
        reasons = [fault.reason] if fault else []
        reasons += [error.detail.rstrip(".")] if error else []
        return "; ".join(reasons)

    def _fault(self, number: int) -> Fault | None:
        answer = self._answers.get(number)
        return fault_of(answer, self._sprint) if answer else None

    def blocks(self) -> list[Block] | None:
        """All blocks, when each is whole and the parent of the next. Those that are not linked are opened again."""
        if len(self._whole) < len(self._numbers):
            return None
        found = [self._whole[number] for number in self._numbers]
        for one, other in pairwise(found):
            if one.hash != other.parent_hash:
                for block in (one, other):
                    self._whole.pop(block.number, None)
                    self._answers.pop(block.number, None)
        return found if len(self._whole) == len(found) else None

    def without_state_sync(self) -> list[BlockResponse]:
        """The responses about open blocks for which no receipt of a state-sync transaction is known."""
        return [
            answer
            for number, answer in self._answers.items()
            if number not in self._whole
            and self._sprint is not None
            and number % self._sprint == 0
            and state_sync_transaction(answer) not in answer.receipt_blooms
        ]

    def accepted(self) -> list[Block]:
        """All blocks, with those that may be complete. Raises BlockIncomplete or NodeBehind."""
        for number in self.open_numbers():
            fault = self._fault(number)
            if fault is not None and not fault.certain:
                event = "nothing proves that a block is whole; it is taken as it came"
                log.warning(event, block=number, reason=self.reason(number))
                self._whole[number] = whole_block(self._answers[number], self._sprint)
        if (blocks := self.blocks()) is not None:
            return blocks
        for number in self.open_numbers():
            if self._fault(number) or not isinstance(self._errors.get(number, NodeBehind("")), NodeBehind):
                raise BlockIncomplete(
                    f"The node does not give block {number} whole: {self.reason(number)}. It is asked again; if that "
                    "stays so, name another node beside it (--rpc may be repeated), and sync this one anew."
                )
        first, last = self._numbers[0], self._numbers[-1]
        raise NodeBehind(f"The node does not have the blocks {first} to {last} yet, or reorganises them now.")


def _block_call(block: int | str, *, full: bool = False) -> Call:
    return "eth_getBlockByNumber", [hex(block) if isinstance(block, int) else block, full]


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Consecutive numbers as ranges: the first and the last of each."""
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


def _another_block(block: Block, number: int) -> RequestRefused:
    return _no_answer(f"block {block.number} in place of block {number}")


def _with_receipt(answer: BlockResponse, receipt: Receipt | None) -> BlockOutcome:
    try:
        return with_receipt(answer, receipt)
    except ValueError as error:  # hex digits that are none
        return _no_answer(str(error))


def _from_receipts(number: int, header_outcome: Outcome, receipts_outcome: Outcome) -> BlockOutcome:
    header = _of_outcome(_HASHES, header_outcome)
    receipts = _of_outcome(_RECEIPTS, receipts_outcome)
    if isinstance(header, NodeUnavailable):
        return header
    if isinstance(receipts, NodeUnavailable):
        return _as_refused(receipts)
    try:
        block = None if header is None or receipts is None else from_receipts(header, receipts)
    except ValueError as error:  # hex digits that are none
        return _no_answer(str(error))
    if header is None or receipts is None or block is None:
        return _absent(number)
    if block.number != number:
        return _another_block(block, number)
    blooms = {receipt.transaction_hash: receipt.logs_bloom for receipt in receipts}
    return BlockResponse(block, header.logs_bloom, frozenset(header.transactions), frozenset({"receipts"}), blooms)


def _from_logs(number: int, full_outcome: Outcome, logs: list[Log] | NodeUnavailable) -> BlockOutcome:
    full = _of_outcome(_FULL, full_outcome)
    if isinstance(full, NodeUnavailable):
        return full
    if isinstance(logs, NodeUnavailable):
        return _as_refused(logs)
    try:
        block = None if full is None else from_logs(full, logs)
    except ValueError as error:  # hex digits that are none
        return _no_answer(str(error))
    if full is None or block is None:
        return _absent(number)
    if block.number != number:
        return _another_block(block, number)
    hashes = frozenset(transaction.hash for transaction in full.transactions)
    return BlockResponse(block, full.logs_bloom, hashes, frozenset({"logs"}))


def _as_refused(error: NodeUnavailable) -> NodeUnavailable:
    """An error of the logs of a block that the node has: the other method may have them."""
    if isinstance(error, RequestRefused | NodeBusy | NodeBehind):
        return error
    return RequestRefused(error.detail, error.retry_after_s)


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
        raise _no_answer(str(error)) from error


def _no_answer(why: str) -> RequestRefused:
    return RequestRefused(f"The node sends what is no answer to the question: {why}.")


def _is_number(quantity: str) -> bool:
    return bool(_QUANTITY.fullmatch(quantity))
