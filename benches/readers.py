"""Four readers look up 50,000 values a second together while a set grows: `python -m benches.readers`.

The values are added in requests of 250,000. Every answer is checked: a value whose request was answered before the
lookup began is in the set, and one that is never sent is not. Reference of the same run: the same lookups while nothing
is written.
"""

import math
import statistics
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import typer

from headwater.model.dataset import MAX_VALUES_PER_REQUEST, dataset_set
from headwater.stores.embedded import EmbeddedValkey
from headwater.stores.redis.client import connect
from headwater.stores.redis.lookup import RedisSetLookup
from headwater.stores.redis.sets import RedisSetStore

TARGET = dataset_set("bench")
READERS = 4
RATE = 50_000 // READERS
BATCH = 500
HITS = BATCH // 100
ODD = 0x9E3779B97F4A7C15F39CC0605CEDC834109F0123
WRITERS = 5
QUIET_S = 5.0


def address(number: int) -> str:
    """An address that stands for a number, and looks random."""
    return f"0x{number * ODD % (1 << 160):040x}"


def read(url: str, written: "Synchronized[int]", stop: Event, results: Any, seed: int) -> None:
    """Looks batches up at a steady rate; a hundredth of each are members that were answered for."""
    client = connect(url)
    lookup = RedisSetLookup(client)
    took, wrong, number = [], 0, seed << 40
    due = time.perf_counter()
    while not stop.is_set():
        sure = written.value
        members = [address((number + step * 7919) % sure) for step in range(HITS if sure else 0)]
        strangers = [address(10**15 + number + step) for step in range(BATCH - len(members))]
        number += BATCH
        began = time.perf_counter()
        answers = lookup.contains_many(TARGET, [*members, *strangers])
        took.append(time.perf_counter() - began)
        wrong += answers != [True] * len(members) + [False] * len(strangers)
        due = max(due + BATCH / RATE, time.perf_counter() - 1)
        time.sleep(max(0.0, due - time.perf_counter()))
    lookup.close()
    results.put((took, wrong))


def write(url: str, values: int, written: "Synchronized[int]", part: int) -> None:
    """Adds every WRITERS-th request; readers count on what all writers have answered for, in order."""
    client = connect(url)
    store = RedisSetStore(client)
    for first in range(part * MAX_VALUES_PER_REQUEST, values, WRITERS * MAX_VALUES_PER_REQUEST):
        end = min(first + MAX_VALUES_PER_REQUEST, values)
        assert store.add(TARGET, [address(number) for number in range(first, end)]).changed == end - first
        while written.value != first:
            time.sleep(0.001)
        written.value = end
    client.close()


def with_readers(url: str, written: "Synchronized[int]", work: Any) -> None:
    """Run `work` while the readers read, and print what they saw."""
    context = get_context("spawn")
    stop, results = context.Event(), context.Queue()
    readers = [context.Process(target=read, args=(url, written, stop, results, seed)) for seed in range(READERS)]
    for reader in readers:
        reader.start()
    began = time.perf_counter()
    work()
    spent = time.perf_counter() - began
    stop.set()
    told = [results.get() for _ in readers]
    for reader in readers:
        reader.join()
    took = sorted(one for some, _ in told for one in some)
    typer.echo(
        f"  {len(took) * BATCH / spent:,.0f} values/s looked up; batch of {BATCH}:"
        f" p50 {statistics.median(took) * 1e3:.2f} ms  p99 {took[math.ceil(0.99 * len(took)) - 1] * 1e3:.1f} ms"
        f"  most {took[-1] * 1e3:.0f} ms;"
        f" wrong answers {sum(wrong for _, wrong in told)}"
    )
    assert not any(wrong for _, wrong in told)


def main(values: int = 10_000_000) -> None:
    """Run all."""
    context = get_context("spawn")
    written = context.Value("q", 0)
    with tempfile.TemporaryDirectory() as directory:
        embedded = EmbeddedValkey(Path(directory))
        child = embedded.start()
        embedded.wait_ready(child, timeout_s=30.0)
        try:

            def grow() -> None:
                began = time.perf_counter()
                writers = [
                    context.Process(target=write, args=(embedded.url, values, written, part)) for part in range(WRITERS)
                ]
                for writer in writers:
                    writer.start()
                for writer in writers:
                    writer.join()
                spent = time.perf_counter() - began
                assert written.value == values
                typer.echo(
                    f"{values:,} values in requests of {MAX_VALUES_PER_REQUEST:,}: {values / spent:,.0f} values/s"
                )

            with_readers(embedded.url, written, grow)
            typer.echo("  reference, nothing written:")
            with_readers(embedded.url, written, lambda: time.sleep(QUIET_S))
        finally:
            child.stop(grace_s=10.0)


if __name__ == "__main__":
    typer.run(main)
