"""A node that lies as nodes of the field do, while each block is whole in one of the two methods."""

import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.evm_chain import ChainBlock, FakeChain, Json
from tests.support.node import CUT, CallError, Reply, calls_of, error, results

TRIES: Final = 5
"""By then each block is whole in its good method."""
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
    """Answers for a chain. lock: held while the chain is read.

    Every block has a good method, which tells the truth from one of its first tries on; the other one lies for ever.
    """

    chain: FakeChain
    dice: random.Random
    lock: threading.Lock
    is_away: bool = False
    told: Counter[str] = field(default_factory=Counter)
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
        """Providers change their limits, and so do the servers behind one address."""
        if self.dice.random() < 0.01:
            self._widest = self.dice.choice([1, 3, 10, 1000])
            self._most_calls = self.dice.choice([1, 3, 8, 20])

    def _refusal(self, request: Any) -> Reply | str | None:
        calls = calls_of(request)
        if isinstance(request, list) and len(calls) > self._most_calls:
            return self._error(request, "batch", self.dice.choice(BATCH_REFUSALS))
        if any(_width(call) > self._widest for call in calls):
            return self._error(request, "range", self.dice.choice(RANGE_REFUSALS))
        luck = self.dice.random()
        if luck < 0.01:
            self.told["cut"] += 1
            return CUT
        return self._error(request, "failure", self.dice.choice(FAILURES)) if luck < 0.04 else None

    def _error(self, request: Any, kind: str, refusal: tuple[int, int, str]) -> Reply:
        self.told[kind] += 1
        status, code, message = refusal
        return error(request, code, message, status) if message else Reply(status)

    def _answer(self, method: str, params: list[Any]) -> Any:
        if method == "eth_getLogs":
            asked = params[0]
            numbers = range(int(asked["fromBlock"], 16), int(asked["toBlock"], 16) + 1)
            blocks = [self.chain.blocks[number] for number in numbers if number <= self.chain.head]
            return self._disordered([log for block in blocks for log in self._logs(block)])
        if method == "eth_getBlockReceipts":
            return self._receipts(self.chain.find(params[0]))
        if method == "eth_getBlockByNumber" and self.dice.random() < 0.01:
            self.told["no block"] += 1
            return None
        return self.chain.answer(method, params)

    def _lie(self, block: ChainBlock, method: str) -> str | None:
        """How this answer lies about a block; None: it is true."""
        if block.hash not in self._plans:
            good, after = self.dice.choice(METHODS), self.dice.choice([0, 0, 0, 1, TRIES - 1])
            self._plans[block.hash] = good, after, self.dice.choice(["true", "lost", "lost", "none", "system", "error"])
        good, after, lie = self._plans[block.hash]
        self._tries[block.hash, method] += 1
        if lie == "true" or (method == good and self._tries[block.hash, method] > after):
            return None
        if method == good and lie in ("error", "system"):
            lie = "lost"
        self.told[f"{lie} in {method}"] += 1
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
            return self.dice.sample(logs, self.dice.randrange(len(logs)))
        if lie in ("system", "error") and block.synced:
            return [log for log in logs if log["transactionHash"] != block.transactions[-1]["hash"]]
        return logs

    def _disordered(self, logs: list[Json]) -> list[Json]:
        """The same logs, some of them twice and out of order."""
        if self.dice.random() < 0.3:
            self.told["twice"] += 1
            logs = self.dice.sample(logs + logs, 2 * len(logs))
        return logs


def _width(call: Json) -> int:
    if call["method"] != "eth_getLogs":
        return 0
    asked = call["params"][0]
    return int(asked["toBlock"], 16) - int(asked["fromBlock"], 16) + 1
