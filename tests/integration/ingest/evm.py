"""Runs `headwater ingest evm` as a process, and sends known transfers of tokens.

Each test has new topics.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Message, TopicPartition

from headwater.brokers.read_to_end import read_table
from headwater.errors import BrokerUnavailable
from headwater.ingest.evm.records import ENTITIES
from headwater.ingest.writer import POSITIONS_TOPIC
from tests.support.anvil import Anvil
from tests.support.kafka import KafkaServer

WITHIN_S = 60.0
NOBODY = "0x" + "0" * 40


@dataclass
class Written:
    """A committed record of a stream."""

    key: str
    value: dict[str, Any]
    raw: bytes


@dataclass
class Streams:
    """The streams of `base`, bound to topics of one test.

    The ingests use `folder` as their data directory.
    """

    kafka: KafkaServer
    folder: Path
    zerolag: bool = False
    prefix: str = field(init=False)

    def __post_init__(self) -> None:
        self.prefix = self.kafka.unique("evm")
        names = [*ENTITIES, *(f"{name}.zerolag" for name in ENTITIES if self.zerolag)]
        bindings = {f"base.{name}": self.topic(name) for name in names}
        (self.folder / "bindings.json").write_text(json.dumps(bindings))

    def topic(self, stream: str) -> str:
        return f"{self.prefix}.{stream}"

    @property
    def environment(self) -> dict[str, str]:
        access = self.kafka.access
        return os.environ | {
            "HEADWATER_KAFKA_BOOTSTRAP_SERVERS": access.bootstrap_servers,
            "HEADWATER_KAFKA_USERNAME": access.username,
            "HEADWATER_KAFKA_PASSWORD": access.password,
            "HEADWATER_KAFKA_REPLICATION": "1",
            "HEADWATER_STREAM_BINDINGS": str(self.folder / "bindings.json"),
            "HEADWATER_DATA_DIR": str(self.folder),
        }

    def read(self, stream: str) -> list[Written]:
        """Return all committed records of a stream, sorted by partition and offset."""
        return list(map(_written, self.kafka.read_all(self.topic(stream))))

    def wait(self, stream: str, enough: Callable[[list[Written]], bool]) -> None:
        """Wait until the records of a stream satisfy a condition.

        The topic must exist: see `wait_begun`.
        """
        deadline = time.monotonic() + WITHIN_S
        found: list[Written] = []
        with self.kafka.consumer() as consumer:
            partitions = consumer.list_topics(self.topic(stream), WITHIN_S).topics[self.topic(stream)].partitions
            consumer.assign([TopicPartition(self.topic(stream), number, 0) for number in partitions])
            while not enough(found):
                assert time.monotonic() < deadline, f"{len(found)} records in {stream} are not enough"
                found += map(_written, consumer.consume(1000, 0.1))

    def wait_begun(self, name: str = "") -> None:
        """Wait until an ingest has stored its start position."""
        key = (name or f"{self.prefix}-live").encode()
        deadline = time.monotonic() + WITHIN_S
        while key not in self._positions():
            assert time.monotonic() < deadline, "the ingest did not begin"
            time.sleep(0.2)

    def _positions(self) -> dict[bytes, bytes]:
        """Return None while the topic is being created."""
        if POSITIONS_TOPIC not in self.kafka.admin.list_topics(timeout=10).topics:
            return {}
        try:
            return read_table(self.kafka.access, POSITIONS_TOPIC)
        except BrokerUnavailable:  # the partition has no leader yet
            return {}

    def start(self, url: str, *flags: str, name: str = "live") -> subprocess.Popen[str]:
        """Start an ingest. The node's URL is only in its environment."""
        command = ["evm", "--chain", "base", "--poll-s", "0.1", "--name", f"{self.prefix}-{name}", *flags]
        return self._start(command, {"HEADWATER_EVM_RPC": url})

    def _start(self, command: list[str], more: dict[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "headwater", "ingest", *command],
            env=self.environment | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ingest(self, url: str, *flags: str) -> AbstractContextManager[subprocess.Popen[str]]:
        """Run an ingest for the block; see `running`."""
        return _ending(self.start(url, *flags))

    def running(self, command: list[str], more: dict[str, str]) -> AbstractContextManager[subprocess.Popen[str]]:
        """Run `headwater ingest` for the block with more environment variables.

        It must exit with status 0.
        """
        return _ending(self._start(command, more))


@contextmanager
def _ending(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=WITHIN_S)
        assert process.returncode == 0, errors
    finally:
        kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _written(message: Message) -> Written:
    key, value = message.key(), message.value()
    assert message.error() is None, message.error()
    assert isinstance(key, bytes)
    assert isinstance(value, bytes)
    return Written(key.decode(), json.loads(value), value)


Transfer = tuple[str, ...]
"""Entity, token, sender, receiver, token id or "", amount, and transaction hash of a transfer."""


@dataclass
class Tokens:
    """An ERC-20, an ERC-721 and an ERC-1155 token.

    Attributes:
        sent: All transfers so far."""

    anvil: Anvil
    sent: list[Transfer] = field(default_factory=list)
    birds: int = 0

    def __post_init__(self) -> None:
        anvil = self.anvil
        self.owner, self.friend = anvil.accounts[:2]
        self.coin = anvil.deploy("Coin", 2**255, kinds=["uint256"])
        self.coin_block = anvil.height
        self.bird, self.tools, self.diary = anvil.deploy("Bird"), anvil.deploy("Tools"), anvil.deploy("Diary")

    def pay(self, amount: int) -> None:
        sent = self.anvil.send(self.coin, "transfer(address,uint256)", self.friend, amount)
        self.sent.append(("erc20", self.coin, self.owner, self.friend, "", str(amount), sent))

    def give_bird(self) -> None:
        self.birds += 1
        minted = self.anvil.send(self.bird, "mint(uint256)", self.birds)
        moved = self.anvil.send(self.bird, "transferFrom(address,address,uint256)", self.owner, self.friend, self.birds)
        self.sent.append(("erc721", self.bird, NOBODY, self.owner, str(self.birds), "1", minted))
        self.sent.append(("erc721", self.bird, self.owner, self.friend, str(self.birds), "1", moved))

    def give_tools(self, *ids: int) -> None:
        for each in ids:
            minted = self.anvil.send(self.tools, "mint(uint256,uint256)", each, 10)
            self.sent.append(("erc1155", self.tools, NOBODY, self.owner, str(each), "10", minted))
        signature = "safeBatchTransferFrom(address,address,uint256[],uint256[])"
        moved = self.anvil.send(self.tools, signature, self.owner, self.friend, ids, [7] * len(ids))
        self.sent += [("erc1155", self.tools, self.owner, self.friend, str(each), "7", moved) for each in ids]

    def note(self, mood: int) -> None:
        places = [("Uyuni", 3656), ("Badwater", -86)]
        signature = "note(string,string,(string,int64)[],uint256)"
        self.anvil.send(self.diary, signature, "salt", "white, flat", places, mood)

    def all_kinds(self, number: int) -> None:
        """Send transfers of each kind in one block."""
        self.pay(10**18 + number)
        self.give_bird()
        self.give_tools(number, number + 1000)
        self.anvil.mine()


def transfer_of(kind: str, record: dict[str, Any]) -> Transfer:
    """Convert a record to the form of `Tokens.sent`."""
    return (
        kind,
        record["token_address"],
        record["from_address"],
        record["to_address"],
        record.get("token_id", ""),
        record["raw_amount_str"],
        record["transaction_hash"],
    )


def chain_logs(anvil: Anvil, first: int, last: int) -> list[dict[str, Any]]:
    """Return the node's logs of a range of blocks."""
    found: list[dict[str, Any]] = anvil.rpc("eth_getLogs", {"fromBlock": hex(first), "toBlock": hex(last)})
    return found


def log_key(log: dict[str, Any]) -> str:
    """Return the natural key of a node's log."""
    return f"base:{log['transactionHash']}:{int(log['logIndex'], 16)}"


def by_key(records: list[Written]) -> dict[str, list[Written]]:
    """Return the records of each key in order, which are on one partition."""
    found: dict[str, list[Written]] = defaultdict(list)
    for record in records:
        found[record.key].append(record)
    return found
