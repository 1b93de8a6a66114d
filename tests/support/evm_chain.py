"""A chain in memory that answers JSON-RPC calls like a correct node of Base or Polygon."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from Crypto.Hash import keccak

Json = dict[str, Any]

NOBODY: Final = "0x" + "0" * 40
TRANSFER: Final = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
START_TIME: Final = 1_767_323_045
FINAL_BLOCKS: Final = 8
"""The number of blocks from the finalized block to the head."""


def keccak_of(data: bytes) -> bytes:
    return keccak.new(digest_bits=256, data=data).digest()


def bloom_of(logs: Sequence[Json]) -> str:
    """Return the Bloom filter of these logs in a node's format: 256 bytes in hexadecimal."""
    bits = bytearray(256)
    for log in logs:
        for word in (log["address"], *log["topics"]):
            digest = keccak_of(bytes.fromhex(word[2:]))
            for at in (0, 2, 4):
                bit = int.from_bytes(digest[at : at + 2], "big") % 2048
                bits[255 - bit // 8] |= 1 << bit % 8
    return "0x" + bits.hex()


@dataclass
class ChainBlock:
    """A block with its transactions and logs.

    Attributes:
        synced: Whether the last transaction is a state sync of Polygon.
    """

    number: int
    hash: str
    parent_hash: str
    transactions: list[Json]
    logs: list[Json]
    synced: bool = False

    @cached_property
    def bloom(self) -> str:
        """The Bloom filter in the header, which does not include the logs of a state sync."""
        system = self.transactions[-1]["hash"] if self.synced else None
        return bloom_of([log for log in self.logs if log["transactionHash"] != system])

    def header(self, *, full: bool) -> Json:
        transactions = self.transactions if full else [each["hash"] for each in self.transactions]
        return {
            "number": hex(self.number),
            "hash": self.hash,
            "parentHash": self.parent_hash,
            "timestamp": hex(START_TIME + 2 * self.number),
            "logsBloom": self.bloom,
            "transactions": transactions,
        }

    def receipts(self) -> list[Json]:
        return [self.receipt(each["hash"]) for each in self.transactions]

    def receipt(self, hash_: str) -> Json:
        (transaction,) = [each for each in self.transactions if each["hash"] == hash_]
        logs = [log for log in self.logs if log["transactionHash"] == hash_]
        return {
            "transactionHash": hash_,
            "blockHash": self.hash,
            "from": transaction["from"],
            "to": transaction["to"],
            "logs": logs,
            "logsBloom": bloom_of(logs),
            "status": "0x1",
            "gasUsed": "0x5208",
            "effectiveGasPrice": "0x7",
        }


@dataclass
class FakeChain:
    """A chain of random blocks.

    Attributes:
        sprint: State syncs occur at multiples of this block number, as on Polygon; None for no state syncs.
        restarted: Whether the log indexes of a state sync start at 0 again.
    """

    rng: random.Random
    chain_id: int = 8453
    sprint: int | None = None
    restarted: bool = False
    blocks: list[ChainBlock] = field(default_factory=list)
    _hashes: int = 0

    def mine(self, count: int = 1) -> None:
        for _ in range(count):
            self.blocks.append(self._block(len(self.blocks)))

    def reorganise(self, depth: int) -> list[ChainBlock]:
        """Replace the newest blocks, and add another one. Return the orphaned blocks."""
        depth = min(depth, len(self.blocks) - 1)
        orphans = self.blocks[len(self.blocks) - depth :]
        del self.blocks[len(self.blocks) - depth :]
        self.mine(depth + 1)
        return orphans

    @property
    def head(self) -> int:
        return len(self.blocks) - 1

    def answer(self, method: str, params: list[Any]) -> Any:
        """Return the result of a JSON-RPC call."""
        if method == "eth_chainId":
            return hex(self.chain_id)
        if method == "eth_getLogs":
            query = params[0]
            numbers = range(int(query["fromBlock"], 16), int(query["toBlock"], 16) + 1)
            return [log for number in numbers if number <= self.head for log in self.blocks[number].logs]
        if method == "eth_getTransactionReceipt":
            found = [block for block in self.blocks for each in block.transactions if each["hash"] == params[0]]
            return found[-1].receipt(params[0]) if found else None
        block = self.find(params[0])
        if block is None:
            return None
        return block.receipts() if method == "eth_getBlockReceipts" else block.header(full=params[1])

    def find(self, block: str) -> ChainBlock | None:
        tags = {"latest": self.head, "finalized": max(0, self.head - FINAL_BLOCKS)}
        number = tags[block] if block in tags else int(block, 16)
        return self.blocks[number] if number <= self.head else None

    def _block(self, number: int) -> ChainBlock:
        self._hashes += 1
        hash_ = "0x" + keccak_of(f"block {self.rng.random()} {self._hashes}".encode()).hex()
        parent = self.blocks[-1].hash if self.blocks else "0x" + "0" * 64
        block = ChainBlock(number, hash_, parent, [], [])
        for _ in range(self.rng.choice([0, 1, 2, 3, 5])):
            self._add(block, self._word(32), self._word(20), self._word(20), self.rng.choice([0, 0, 1, 2, 4]))
        if self.sprint and number % self.sprint == 0 and self.rng.random() < 0.6:
            system = (
                "0x" + keccak_of(b"matic-bor-receipt-" + number.to_bytes(8, "big") + bytes.fromhex(hash_[2:])).hex()
            )
            block.synced = True
            self._add(block, system, NOBODY, NOBODY, self.rng.choice([1, 2, 3]))
        return block

    def _add(self, block: ChainBlock, hash_: str, sender: str, receiver: str, logs: int) -> None:
        restarts = block.synced and self.restarted
        for count in range(logs):
            block.logs.append(
                {
                    "address": self._word(20),
                    "topics": [TRANSFER, self._word(32), self._word(32)],
                    "data": self._word(32),
                    "blockHash": block.hash,
                    "blockNumber": hex(block.number),
                    "transactionHash": hash_,
                    "transactionIndex": hex(len(block.transactions)),
                    "logIndex": hex(count if restarts else len(block.logs)),
                    "removed": False,
                }
            )
        block.transactions.append({"hash": hash_, "from": sender, "to": receiver, "value": "0x0"})

    def _word(self, size: int) -> str:
        return "0x" + self.rng.randbytes(size).hex()
