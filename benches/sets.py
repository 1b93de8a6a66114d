"""Measures the speed of sets in Valkey, compared with plain Redis commands in the same run.

`python -m benches.sets` runs it.

Every result is checked. The reference is a plain Redis set of the same values as strings, queried by SMISMEMBER.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import typer

from headwater.model.value_sets import MAX_VALUES_PER_PAGE, MAX_VALUES_PER_REQUEST, dataset_set_id
from headwater.stores.embedded_valkey import EmbeddedValkey
from headwater.stores.redis.client import Client, connect
from headwater.stores.redis.sets.lookup import LOOKUPS_PER_VALUE_BEFORE_BUILD, RedisSetLookup
from headwater.stores.redis.sets.set_store import RedisSetStore

TARGET = dataset_set_id("bench")
PLAIN = "plain"
LOOKUP = 1_000
ROUNDS = 100


def addresses(count: int, seed: int) -> list[str]:
    """Return random addresses."""
    rng = random.Random(seed)
    return [f"0x{rng.getrandbits(160):040x}" for _ in range(count)]


@contextmanager
def valkey() -> Iterator[Client]:
    """Run an embedded Valkey for the block."""
    with tempfile.TemporaryDirectory() as directory:
        embedded = EmbeddedValkey(Path(directory))
        child = embedded.start()
        embedded.wait_ready(child, timeout_s=30.0)
        client = connect(embedded.url)
        try:
            yield client
        finally:
            client.close()
            child.stop(grace_s=10.0)


def cpu_s(client: Client) -> float:
    """Return the CPU seconds that the server has used."""
    info = client.call("INFO", "cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def measure(
    client: Client,
    name: str,
    work: Callable[[], object],
    per: int,
    rounds: int = 1,
    before: Callable[[], object] = lambda: None,
) -> float:
    """Run `work` on `per` values several times.

    Print and return its median time, and print the server's CPU.
    """
    took: list[float] = []
    cpu_before = cpu_s(client)
    for _ in range(rounds):
        before()
        started = time.perf_counter()
        work()
        took.append(time.perf_counter() - started)
    median, server = statistics.median(took), (cpu_s(client) - cpu_before) / rounds
    typer.echo(
        f"{name:32} {median * 1e3:9.2f} ms  {per / median:12,.0f} values/s  server {server / per * 1e6:5.2f} µs/value"
    )
    return median


def fill(client: Client, store: RedisSetStore, values: list[str]) -> None:
    """Measure adding and replacing values."""

    def add() -> None:
        for at in range(0, len(values), MAX_VALUES_PER_REQUEST):
            part = values[at : at + MAX_VALUES_PER_REQUEST]
            assert store.add(TARGET, part).changed == len(part)

    def add_again() -> None:
        assert store.add(TARGET, values[:MAX_VALUES_PER_REQUEST]).changed == 0

    def replace() -> None:
        assert store.replace(TARGET, values).count == len(values)

    measure(client, f"add, {MAX_VALUES_PER_REQUEST:,} per call", add, len(values))
    measure(client, "the same values again", add_again, min(len(values), MAX_VALUES_PER_REQUEST))
    measure(client, "replace", replace, len(values))


def look_up(client: Client, values: Sequence[str]) -> None:
    """Measure lookups of 1,000 values, with several shares of members.

    Each measurement is followed by one of the reference.
    """
    others = addresses(LOOKUP * ROUNDS, seed=2)
    for at in range(0, len(values), 10_000):
        client.call("SADD", PLAIN, *values[at : at + 10_000])
    with closing(RedisSetLookup(client)) as lookup:
        measure(client, "build of the filter", lambda: wait_for_filter(lookup, len(values), others), len(values))
        for hits in (0, LOOKUP // 100, LOOKUP // 10, LOOKUP // 2, LOOKUP):
            batches = [mixed(values, others, hits, number) for number in range(ROUNDS)]
            expected = [True] * hits + [False] * (LOOKUP - hits)

            ours = partial(lookup.contains_many, TARGET)
            took = look_up_all(client, f"lookup, {hits} of {LOOKUP} in it", ours, batches, expected)
            plain = partial(in_plain_set, client)
            reference = look_up_all(client, "  SMISMEMBER on a plain SET", plain, batches, expected)
            typer.echo(f"  {took / reference:.2f} x the reference")


def in_plain_set(client: Client, values: list[str]) -> list[bool]:
    """Look the values up in the plain set; this is the reference."""
    hits: list[bool] = client.call("SMISMEMBER", PLAIN, *values)
    return hits


def look_up_all(
    client: Client,
    name: str,
    contains_many: Callable[[list[str]], list[bool]],
    batches: list[list[str]],
    expected: list[bool],
) -> float:
    """Look up every batch.

    Its strings are new objects each time, like the values that a worker has just decoded.
    """
    rest = iter(batches)
    batch: list[str] = []

    def decode() -> None:
        batch[:] = [value[:2] + value[2:] for value in next(rest)]

    def look_up_batch() -> None:
        assert contains_many(batch) == expected

    return measure(client, name, look_up_batch, LOOKUP, ROUNDS, before=decode)


def mixed(values: Sequence[str], others: Sequence[str], hits: int, number: int) -> list[str]:
    """Return batch `number`, whose first `hits` values are members.

    No two batches share a value.
    """
    return [*values[number * LOOKUP :][:hits], *others[number * LOOKUP : (number + 1) * LOOKUP - hits]]


def wait_for_filter(lookup: RedisSetLookup, count: int, others: Sequence[str]) -> None:
    """Look values up until the lookup builds its filter, and wait until the filter is ready."""
    for _ in range(int(count * LOOKUPS_PER_VALUE_BEFORE_BUILD) // len(others) + 2):
        lookup.contains_many(TARGET, others)
        lookup.wait()


def list_pages(client: Client, store: RedisSetStore, values: Sequence[str]) -> None:
    """Measure the first page of 100 values, and a listing of all pages."""

    def page() -> None:
        assert len(store.page(TARGET, None, 100).values) == min(100, len(values))

    def listing() -> None:
        listed: list[str] = []
        cursor = None
        while True:
            result = store.page(TARGET, cursor, MAX_VALUES_PER_PAGE)
            listed += result.values
            cursor = result.cursor
            if cursor is None:
                break
        assert sorted(listed) == sorted(values)

    measure(client, "page of 100", page, 100, ROUNDS)
    measure(client, f"listing, {MAX_VALUES_PER_PAGE:,} per page", listing, len(values))


def main(values: int = 500_000, lookups_only: bool = False) -> None:
    """Measure everything, or with --lookups-only just the lookups."""
    chosen = addresses(values, seed=1)
    with valkey() as client:
        store = RedisSetStore(client)
        if lookups_only:
            store.replace(TARGET, chosen)
            look_up(client, chosen)
            return
        fill(client, store, chosen)
        memory = int(client.call("INFO", "memory")["used_memory"])
        typer.echo(f"{'memory':32} {memory / values:9.1f} bytes per value")
        look_up(client, chosen)
        list_pages(client, store, chosen)


if __name__ == "__main__":
    typer.run(main)
