"""Measures the time of selecting a field, and its ratio to parsing the whole record.

`python -m benches.filter` runs it.

Every result is checked.
"""

import json
import statistics
import time
from collections.abc import Callable
from functools import partial

import typer

from headwater.model.record import RecordBatch
from headwater.model.transforms.redis_set_filter import RedisSetFilterTransform
from headwater.transforms.base import TransformContext
from headwater.transforms.expression import parse
from headwater.transforms.redis_set_filter import build
from tests.support.memory.sets import MemoryDatasetNames, MemorySetStore

RECORD_BYTES = 850
ROUNDS = 15
EXPRESSIONS: dict[str, Callable[[int], list[str]]] = {
    "root = this.token_address": lambda number: [address(number)],
    "root = this.token.address": lambda number: [address(number)],
    "root = [this.from_address, this.to_address]": lambda number: [address(number + 1), address(number + 2)],
    "root = this.missing | this.token_address": lambda number: [address(number)],
    "root = this.topics.0": lambda number: [address(number)],
    "root = this.log_index": lambda number: [str(number)],
    "root = this.(missing | token_address)": lambda number: [address(number)],
    'root = this.missing | "none"': lambda _: ["none"],
    "root = this.missing | deleted()": lambda _: [],
    "root = this.topics[0]": lambda number: [address(number)],
    'root = this.transfers."*".to': lambda number: [address(number + 1), address(number + 2)],
    "root = this.transfers.map_each(t -> t.to)": lambda number: [address(number + 1), address(number + 2)],
    "root = this.transfers.map_each(this.to | this.from)": lambda number: [address(number + 1), address(number + 2)],
    'root = this.get("token.address")': lambda number: [address(number)],
    "root = this.token_address.or(this.log_index)": lambda number: [address(number)],
    'root = this.log_index.lowercase().catch("none")': lambda _: ["none"],
    "root = this.token_address.uppercase()": lambda number: [address(number)],
    "root = this.token_address.trim()": lambda number: [address(number)],
    'root = this.token_address.trim_prefix("0x")': lambda number: [address(number)[2:]],
    'root = this.token_address.trim_suffix("0x")': lambda number: [address(number)],
    "root = this.token_address.slice(-4)": lambda number: [address(number)[-4:]],
    'root = this.path.split("/")': lambda number: [str(number), "pools"],
    'root = this.path.split("/").index(1)': lambda number: [str(number)],
    "root = [this.topics, this.path].flatten()": lambda number: sorted(
        [address(number), f"0x{number:064x}", f"pools/{number}"]
    ),
    "root = this.token.values()": lambda number: [address(number), "18"],
    "root = this.log_index.string()": lambda number: [str(number)],
    "root = this.params.parse_json().to": lambda number: [str(number)],
}


def address(number: int) -> str:
    """Return an address that is unique to a number."""
    return f"0x{number:040x}"


def records(count: int) -> list[bytes]:
    """Return `count` transfers of 850 bytes each."""
    encoded = []
    for number in range(count):
        token = address(number)
        record = {
            "block_timestamp": "2026-01-02T03:04:05Z",
            "block_number": 40_000_000 + number,
            "transaction_hash": f"0x{number:064x}",
            "log_index": number,
            "from_address": address(number + 1),
            "to_address": address(number + 2),
            "token": {"address": token, "decimals": 18},
            "topics": [token, f"0x{number:064x}"],
            "transfers": [{"to": address(number + 1)}, {"to": address(number + 2)}],
            "path": f"pools/{number}",
            "params": json.dumps({"to": number}),
            "raw_amount": "123456789012345678901234567890",
            "token_address": token,
        }
        missing = RECORD_BYTES - len(json.dumps({**record, "pad": ""}))
        encoded.append(json.dumps({**record, "pad": "x" * missing}).encode())
    return encoded


def select_all(select: Callable[[bytes], list[str]], values: list[bytes]) -> list[list[str]]:
    """Select the values of every record."""
    return [select(value) for value in values]


def measure(name: str, work: Callable[[], object], count: int, reference_us: float | None = None) -> float:
    """Print and return the median time per record in µs, and print its ratio to a reference."""
    durations: list[float] = []
    for _ in range(ROUNDS):
        before = time.perf_counter()
        work()
        durations.append(time.perf_counter() - before)
    median_us = statistics.median(durations) / count * 1e6
    ratio = f"{median_us / reference_us:6.2f} of json.loads" if reference_us else ""
    typer.echo(f"{name:56} {median_us:6.2f} µs per record {ratio}")
    return median_us


def main(count: int = 5_000) -> None:
    """Measure every expression, then the whole transform."""
    values = records(count)
    assert {len(value) for value in values} == {RECORD_BYTES}
    reference_us = measure("json.loads", lambda: [json.loads(value) for value in values], count)
    for text, expected in EXPRESSIONS.items():
        select = parse(text).select
        assert [sorted(select(value)) for value in values] == [expected(number) for number in range(count)]
        measure(text, partial(select_all, select, values), count, reference_us)

    sets = MemorySetStore()
    resources = TransformContext("c", "owner", sets, MemoryDatasetNames())
    config = RedisSetFilterTransform(uid="t", type="redis_set_filter", filter_expr=next(iter(EXPRESSIONS)))
    transform = build(config, resources)
    numbers = [0] * count
    batch = RecordBatch.of("t", list(values), [None] * count, numbers, numbers, list(range(count)), numbers)
    assert len(transform.start(batch).result().output) == 0
    measure("the whole transform, sets in memory", lambda: transform.start(batch).result(), count, reference_us)


if __name__ == "__main__":
    typer.run(main)
