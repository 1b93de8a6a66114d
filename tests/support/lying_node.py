"""A node that returns wrong data, as real nodes do.

It returns each block completely by one of two methods.
"""

import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.evm_chain import ChainBlock, FakeChain, Json
from tests.support.node import CUT, CallError, Reply, calls_of, error, results

TRIES: Final = 5
"""By this number of attempts, the reliable method returns a block completely."""
METHODS: Final = ("eth_getBlockReceipts", "eth_getLogs")
RANGE_REFUSALS: Final = (
    (400, 35, "ranges over 10000 blocks are not supported on freetier"),
    (200, -32001, "Unable to complete request at this time."),
    (200, -32005, "query returned more than 10000 results"),
    (200, -32000, "query timeout exceeded"),
    (408, 30, "Request timeout on the free tier, please upgrade your tier"),
    (503, 0, ""),
)
BATCH_REFUSALS: Final = (
    (200, -32600, "Batch requests are not supported"),
    (500, 31, "Batch of more than 3 requests are not allowed on free tier"),
    (200, -32600, "batch too large"),
)
FAILURES: Final = (
    (429, 0, ""),
    (503, 0, ""),
    (408, 0, ""),
    (200, -32005, "rate limit exceeded"),
    (200, -32000, "method call count limit exceeded"),
    (200, -32000, "header not found"),
)


@dataclass
class LyingNode:
    """Answers requests about a chain, and holds the lock while it reads the chain.

    Every block has a reliable method, which returns correct data from one of its first attempts on. The other method
    returns wrong data forever.

    Attributes:
        is_away: Whether connections end without a response.
        faults: Counts the errors and wrong results, by kind.
    """

    chain: FakeChain
    rng: random.Random
    lock: threading.Lock
    is_away: bool = False
    faults: Counter[str] = field(default_factory=Counter)
    _plans: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    _tries: Counter[tuple[str, str]] = field(default_factory=Counter)
    _widest: int = 3
    _most_calls: int = 20

    def __call__(self, request: Any) -> Reply | str:
        with self.lock:
            if self.is_away:
                return CUT
            self._change_limits()
            return self._refusal(request) or results(request, self._answer)

    def _change_limits(self) -> None:
        """Change the limits at random, as providers do.

        Different servers behind one address have different limits.
        """
        if self.rng.random() < 0.01:
            self._widest = self.rng.choice([1, 3, 10, 1000])
            self._most_calls = self.rng.choice([1, 3, 8, 20])

    def _refusal(self, request: Any) -> Reply | str | None:
        calls = calls_of(request)
        if isinstance(request, list) and len(calls) > self._most_calls:
            return self._error(request, "batch", self.rng.choice(BATCH_REFUSALS))
        if any(_width(call) > self._widest for call in calls):
            return self._error(request, "range", self.rng.choice(RANGE_REFUSALS))
        luck = self.rng.random()
        if luck < 0.01:
            self.faults["cut"] += 1
            return CUT
        return self._error(request, "failure", self.rng.choice(FAILURES)) if luck < 0.04 else None

    def _error(self, request: Any, kind: str, refusal: tuple[int, int, str]) -> Reply:
        self.faults[kind] += 1
        status, code, message = refusal
        return error(request, code, message, status) if message else Reply(status)

    def _answer(self, method: str, params: list[Any]) -> Any:
        if method == "eth_getLogs":
            query = params[0]
            numbers = range(int(query["fromBlock"], 16), int(query["toBlock"], 16) + 1)
            blocks = [self.chain.blocks[number] for number in numbers if number <= self.chain.head]
            return self._disordered([log for block in blocks for log in self._logs(block)])
        if method == "eth_getBlockReceipts":
            return self._receipts(self.chain.find(params[0]))
        if method == "eth_getBlockByNumber" and self.rng.random() < 0.01:
            self.faults["no block"] += 1
            return None
        return self.chain.answer(method, params)

    def _lie(self, block: ChainBlock, method: str) -> str | None:
        """Choose what is wrong with this result for a block; None means that it is correct."""
        if block.hash not in self._plans:
            good, after = self.rng.choice(METHODS), self.rng.choice([0, 0, 0, 1, TRIES - 1])
            self._plans[block.hash] = good, after, self.rng.choice(["true", "lost", "lost", "none", "system", "error"])
        good, after, lie = self._plans[block.hash]
        self._tries[block.hash, method] += 1
        if lie == "true" or (method == good and self._tries[block.hash, method] > after):
            return None
        if method == good and lie in ("error", "system"):
            lie = "lost"
        self.faults[f"{lie} in {method}"] += 1
        return lie

    def _logs(self, block: ChainBlock) -> list[Json]:
        return self._some(block, block.logs, self._lie(block, METHODS[1]))

    def _receipts(self, block: ChainBlock | None) -> Any:
        if block is None:
            return None
        lie = self._lie(block, METHODS[0])
        if lie == "error":
            return CallError(-32000, "receipts length mismatch: 1 vs 0")
        logs = {id(log) for log in self._some(block, block.logs, lie)}
        receipts = [{**each, "logs": [log for log in each["logs"] if id(log) in logs]} for each in block.receipts()]
        if lie == "system" and block.synced:
            receipts.pop()
        return [{**each, "logs": self._disordered(each["logs"])} for each in receipts]

    def _some(self, block: ChainBlock, logs: list[Json], lie: str | None) -> list[Json]:
        if lie == "none":
            return []
        if lie == "lost" and logs:
            return self.rng.sample(logs, self.rng.randrange(len(logs)))
        if lie in ("system", "error") and block.synced:
            return [log for log in logs if log["transactionHash"] != block.transactions[-1]["hash"]]
        return logs

    def _disordered(self, logs: list[Json]) -> list[Json]:
        """Return the same logs, sometimes with duplicates and out of order."""
        if self.rng.random() < 0.3:
            self.faults["twice"] += 1
            logs = self.rng.sample(logs + logs, 2 * len(logs))
        return logs


def _width(call: Json) -> int:
    if call["method"] != "eth_getLogs":
        return 0
    query = call["params"][0]
    return int(query["toBlock"], 16) - int(query["fromBlock"], 16) + 1
