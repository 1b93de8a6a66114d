"""What selecting a field costs, beside parsing the whole record: `python -m benches.filter`. Results are checked."""

import json
import statistics
import time
from collections.abc import Callable
from functools import partial

import typer

from headwater.model.record import RecordBatch
from headwater.model.transform import RedisSetFilterTransform
from headwater.stores.memory.sets import MemoryDatasetNames, MemorySetStore
from headwater.transforms.base import Resources
from headwater.transforms.expression import parse
from headwater.transforms.redis_set_filter import build

RECORD_BYTES = 850
ROUNDS = 15
EXPRESSIONS: dict[str, Callable[[int], list[str]]] = {
    "root = this.token_address": lambda number: [address(number)],
    "root = this.token.address": lambda number: [address(number)],
    "root = [this.from_address, this.to_address]": lambda number: [address(number + 1), address(number + 2)],
    "root = this.missing | this.token_address": lambda number: [address(number)],
    "root = this.topics.0": lambda number: [address(number)],
    "root = this.log_index": lambda number: [str(number)],
}


def address(number: int) -> str:
    """An address that stands for a number."""
    return f"0x{number:040x}"


def records(count: int) -> list[bytes]:
    """Transfers of 850 bytes."""
    made = []
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
            "raw_amount": "123456789012345678901234567890",
            "token_address": token,
        }
        missing = RECORD_BYTES - len(json.dumps({**record, "pad": ""}))
        made.append(json.dumps({**record, "pad": "x" * missing}).encode())
    return made


def select_all(select: Callable[[bytes], list[str]], values: list[bytes]) -> list[list[str]]:
    """What is timed."""
    return [select(value) for value in values]


def measure(name: str, work: Callable[[], object], count: int) -> None:
    """Print the median time per record."""
    took: list[float] = []
    for _ in range(ROUNDS):
        before = time.perf_counter()
        work()
        took.append(time.perf_counter() - before)
    typer.echo(f"{name:48} {statistics.median(took) / count * 1e6:6.2f} µs per record")


def main(count: int = 5_000) -> None:
    """Run all."""
    values = records(count)
    assert {len(value) for value in values} == {RECORD_BYTES}
    measure("json.loads", lambda: [json.loads(value) for value in values], count)
    for text, expected in EXPRESSIONS.items():
        select = parse(text).select
        assert [sorted(select(value)) for value in values] == [expected(number) for number in range(count)]
        measure(text, partial(select_all, select, values), count)

    sets = MemorySetStore()
    resources = Resources("c", "owner", sets, MemoryDatasetNames(), jit=False, log=typer.echo)
    config = RedisSetFilterTransform(uid="t", type="redis_set_filter", filter_expr=next(iter(EXPRESSIONS)))
    transform = build(config, resources)
    numbers = [0] * count
    batch = RecordBatch.of("t", list(values), [None] * count, numbers, numbers, list(range(count)), numbers)
    assert len(transform.start(batch).result().kept) == 0
    measure("the whole transform, sets in memory", lambda: transform.start(batch).result(), count)


if __name__ == "__main__":
    typer.run(main)
