"""The replay writer keys records by natural id, and limits the rate.

A key has a fixed partition, and unstored records are an error.
"""

import itertools
import json
from collections.abc import Iterator

import pytest

from headwater.cli.demo.transfer_generator import TransferGenerator
from headwater.errors import BrokerUnavailable, SetupError
from headwater.ingest.partitioner import partition_of
from headwater.ingest.replay_writer import write_lines
from headwater.model.natural_key import natural_key
from headwater.sinks.base import ProducerFailure
from headwater.sinks.outputs import OutputBatch

KEY_OF = natural_key("base", "log")


class Recorder:
    """A producer that records its input; `unstored` records are never acknowledged."""

    def __init__(self, unstored: int = 0, rejected: tuple[str, ...] = ()) -> None:
        self.rows: list[tuple[bytes | None, bytes | None, int]] = []
        self._unstored = unstored
        self._rejected = list(rejected)

    def connect(self, timeout_s: float) -> None:
        pass

    def produce(self, outputs: OutputBatch) -> None:
        self.rows += zip(outputs.values, outputs.keys, outputs.partitions, strict=True)

    def append(self, topic: str, value: bytes, key: bytes | None, partition: int) -> None:
        self.rows.append((value, key, partition))

    def is_queue_full(self) -> bool:
        return False

    def outstanding(self) -> int:
        return self._unstored

    def flush(self, timeout_s: float) -> int:
        return self._unstored

    def take_failures(self) -> list[ProducerFailure]:
        return [ProducerFailure(reason) for reason in self._rejected]

    def close(self) -> None:
        pass


class TestWriteLines:
    def test_equal_keys_share_a_partition_in_order(self) -> None:
        lines = [json.dumps({"transaction_hash": f"0x{n % 7}", "log_index": 0, "n": n}).encode() for n in range(70)]
        producer = Recorder()
        assert write_lines(lines, KEY_OF, "t", 4, producer) == 70
        for value, key, partition in producer.rows:
            assert value is not None
            assert key is not None
            assert partition == partition_of(key, 4)
        assert [value for value, _, _ in producer.rows] == lines

    def test_lines_without_an_id_are_spread_round_robin(self) -> None:
        producer = Recorder()
        write_lines([b"{}"] * 8, KEY_OF, "t", 4, producer)
        assert [partition for _, _, partition in producer.rows] == [0, 1, 2, 3] * 2

    def test_the_rate_is_limited(self) -> None:
        now = 0.0

        def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds

        write_lines([b"{}"] * 1000, KEY_OF, "t", 1, Recorder(), rate=200, clock=lambda: now, sleep=sleep)
        assert now == pytest.approx(5.0)

    @pytest.mark.parametrize("producer", [Recorder(unstored=3), Recorder(rejected=("no",))])
    def test_records_that_were_not_stored_are_an_error(self, producer: Recorder) -> None:
        with pytest.raises(BrokerUnavailable, match="of 5 records were not stored"):
            write_lines([b"{}"] * 5, KEY_OF, "t", 1, producer)

    def test_records_before_an_invalid_one_are_written(self) -> None:
        def lines() -> Iterator[bytes]:
            yield from [b"{}"] * 3
            raise SetupError("a.jsonl, line 4: it is no JSON.")

        producer = Recorder()
        with pytest.raises(SetupError, match=r"line 4: it is no JSON\. The 3 records before it are written\."):
            write_lines(lines(), KEY_OF, "t", 1, producer)
        assert len(producer.rows) == 3


class TestGenerator:
    def test_the_same_seed_gives_the_same_records(self) -> None:
        first, second = (list(itertools.islice(TransferGenerator(seed=3, wallets=50).lines(), 200)) for _ in range(2))
        assert first == second
        assert first != list(itertools.islice(TransferGenerator(seed=4, wallets=50).lines(), 200))

    def test_the_written_records(self) -> None:
        records = list(itertools.islice(TransferGenerator(wallets=50).records(), 3000))
        assert len({record["unique_id"] for record in records}) == len(records)
        amounts = [record["raw_amount"] for record in records]
        assert all(isinstance(amount, int) and 0 <= amount < 2**256 for amount in amounts)
        assert sum(isinstance(amount, int) and amount > 2**53 for amount in amounts) > len(amounts) / 2
        places = [(record["block_number"], record["log_index"]) for record in records]
        assert places == sorted(places)

    def test_traffic_is_skewed(self) -> None:
        stream = TransferGenerator(wallets=100)
        senders = [record["from_address"] for record in itertools.islice(stream.records(), 5000)]
        assert senders.count(stream.wallet(0)) > 5 * senders.count(stream.wallet(90))
