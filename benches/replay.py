"""Measures the rate of `headwater replay` from files to a topic, by file format.

`python -m benches.replay` runs it.

The topic's records are counted after each run. The reference of the same run is a librdkafka producer with the same
settings that sends the file's lines without parsing them.
"""

import csv
import gzip
import itertools
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import typer
from confluent_kafka import Consumer, Producer

from benches._stream import PARTITIONS, WAIT_S, broker, records_in, topic
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import consumer_settings, producer_settings
from headwater.cli.demo.transfer_generator import TransferGenerator
from headwater.ingest.replay_writer import write_lines
from headwater.logging_setup import configure_logging
from headwater.model.access import KafkaAccess
from headwater.model.natural_key import natural_key
from headwater.model.stream import Entity, find_chain
from headwater.record_files.record_file import RecordFile
from headwater.sinks.idempotent_producer import IdempotentKafkaProducer

CHAIN, ENTITY = "base", "erc20_token_transfer"
PLAIN = "plain producer of the lines"


def entity() -> Entity:
    """Return the entity of the records."""
    chain = find_chain(CHAIN)
    found = chain.entity(ENTITY) if chain else None
    assert found is not None
    return found


def write_files(folder: Path, count: int) -> list[Path]:
    """Write the same transfers in each format, and return the files."""
    lines = list(itertools.islice(TransferGenerator(wallets=1000).lines(), count))
    plain, packed = folder / "transfers.jsonl", folder / "transfers.jsonl.gz"
    plain.write_bytes(b"\n".join(lines) + b"\n")
    packed.write_bytes(gzip.compress(plain.read_bytes(), 6))
    records = [json.loads(line) for line in lines]
    with (folder / "transfers.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, records[0])
        writer.writeheader()
        writer.writerows(records)
    columns = {name: [record[name] for record in records] for name in records[0]}
    columns["raw_amount"] = [str(amount) for amount in columns["raw_amount"]]  # wider than any number of Parquet
    pyarrow.parquet.write_table(pa.table(columns), folder / "transfers.parquet")
    return [plain, packed, folder / "transfers.csv", folder / "transfers.parquet"]


def replay(access: KafkaAccess, name: str, path: Path) -> int:
    """Replay a file into a topic; return the number of records. This is what is measured."""
    producer = IdempotentKafkaProducer(access, [name])
    producer.connect(WAIT_S)
    try:
        records = RecordFile(path, entity=entity())
        return write_lines(records, natural_key(CHAIN, ENTITY), name, PARTITIONS, producer)
    finally:
        producer.close()


def plain(access: KafkaAccess, name: str, path: Path) -> int:
    """Send the file's lines with a plain producer; return their number. This is the reference."""
    more = {
        "batch.num.messages": 10_000,
        "queue.buffering.max.messages": 100_000,
        "delivery.report.only.error": True,
    }
    producer = Producer(producer_settings(access, ClientErrors(access), 50) | more)
    sent = 0
    with path.open("rb") as file:
        for sent, line in enumerate(file, 1):
            while True:
                try:
                    producer.produce(name, line.rstrip(b"\n"), b"%d" % sent, sent % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.05)
    assert producer.flush(WAIT_S) == 0
    return sent


def rate(access: KafkaAccess, count: int, work: Callable[[str], int]) -> float:
    """Return the records per second of one run into a new topic."""
    with topic(access, f"replay-{time.monotonic_ns()}") as name:
        before = time.perf_counter()
        assert work(name) == count
        took = time.perf_counter() - before
        consumer = Consumer(consumer_settings(access, ClientErrors(access), "counts"))
        assert records_in(consumer, name) == count
        consumer.close()
    return count / took


def main(count: int = 200_000, rounds: int = 5) -> None:
    """Run the reference and all formats in turn, and print the medians."""
    configure_logging("error")
    rates: defaultdict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), count)
        with broker(Path(folder) / "kafka") as access:
            rate(access, count, lambda name: plain(access, name, files[0]))  # the broker warms up
            for _ in range(rounds):
                rates[PLAIN].append(rate(access, count, lambda name: plain(access, name, files[0])))
                for path in files:
                    rates[path.name].append(rate(access, count, lambda name: replay(access, name, path)))  # noqa: B023
    reference = statistics.median(rates[PLAIN])
    for name, measured in rates.items():
        rate_per_s = statistics.median(measured)
        spread = f"{min(measured) / 1000:,.0f}–{max(measured) / 1000:,.0f}"
        typer.echo(
            f"{name:30} {rate_per_s / 1000:6,.0f} k records/s ({spread}); {rate_per_s / reference:.2f} x the plain one"
        )


if __name__ == "__main__":
    typer.run(main)
