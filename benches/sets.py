"""How fast the set store is on this machine, beside plain commands in the same run: `python -m benches.sets`.

Every answer is checked. Reference: one plain SET with the same values as text, asked by SMISMEMBER.
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

from headwater.model.value_sets import MAX_PAGE, MAX_VALUES_PER_REQUEST, dataset_set
from headwater.stores.embedded_valkey import EmbeddedValkey
from headwater.stores.redis.client import Client, connect
from headwater.stores.redis.sets.lookup import LOOKUPS_PER_VALUE_BEFORE_BUILD, RedisSetLookup
from headwater.stores.redis.sets.set_store import RedisSetStore

TARGET = dataset_set("bench")
PLAIN = "plain"
LOOKUP = 1_000
ROUNDS = 100


def addresses(count: int, seed: int) -> list[str]:
    """Random addresses."""
    rng = random.Random(seed)
    return [f"0x{rng.getrandbits(160):040x}" for _ in range(count)]


@contextmanager
def valkey() -> Iterator[Client]:
    """An embedded Valkey that ends with the block."""
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
    """CPU time that the server has used."""
    told = client.call("INFO", "cpu")
    return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])


def measure(
    client: Client,
    name: str,
    work: Callable[[], object],
    per: int,
    rounds: int = 1,
    before: Callable[[], object] = lambda: None,
) -> float:
    """Print and return the median time of `work` per call, and the server's CPU, over `per` values."""
    took: list[float] = []
    cpu_before = cpu_s(client)
    for _ in range(rounds):
        before()
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    median, server = statistics.median(took), (cpu_s(client) - cpu_before) / rounds
    typer.echo(
        f"{name:32} {median * 1e3:9.2f} ms  {per / median:12,.0f} values/s  server {server / per * 1e6:5.2f} µs/value"
    )
    return median


def fill(client: Client, store: RedisSetStore, values: list[str]) -> None:
    """Add and replace."""

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
    """Batches of 1,000 as workers ask, with a part of them members, each beside the reference."""
    others = addresses(LOOKUP * ROUNDS, seed=2)
    for at in range(0, len(values), 10_000):
        client.call("SADD", PLAIN, *values[at : at + 10_000])
    with closing(RedisSetLookup(client)) as lookup:
        measure(client, "build of the filter", lambda: warm(lookup, len(values), others), len(values))
        for hits in (0, LOOKUP // 100, LOOKUP // 10, LOOKUP // 2, LOOKUP):
            batches = [mixed(values, others, hits, number) for number in range(ROUNDS)]
            expected = [True] * hits + [False] * (LOOKUP - hits)

            ours = partial(lookup.contains_many, TARGET)
            took = look_up_all(client, f"lookup, {hits} of {LOOKUP} in it", ours, batches, expected)
            plain = partial(in_plain_set, client)
            reference = look_up_all(client, "  SMISMEMBER on a plain SET", plain, batches, expected)
            typer.echo(f"  {took / reference:.2f} x the reference")


def in_plain_set(client: Client, values: list[str]) -> list[bool]:
    """The reference."""
    answers: list[bool] = client.call("SMISMEMBER", PLAIN, *values)
    return answers


def look_up_all(
    client: Client,
    name: str,
    ask: Callable[[list[str]], list[bool]],
    batches: list[list[str]],
    expected: list[bool],
) -> float:
    """Ask about each batch. Its values were made just before, as a worker has just decoded them."""
    rest = iter(batches)
    batch: list[str] = []

    def decode() -> None:
        batch[:] = [value[:2] + value[2:] for value in next(rest)]

    def one() -> None:
        assert ask(batch) == expected

    return measure(client, name, one, LOOKUP, ROUNDS, before=decode)


def mixed(values: Sequence[str], others: Sequence[str], hits: int, number: int) -> list[str]:
    """A batch that was not asked before: members first."""
    return [*values[number * LOOKUP :][:hits], *others[number * LOOKUP : (number + 1) * LOOKUP - hits]]


def warm(lookup: RedisSetLookup, count: int, others: Sequence[str]) -> None:
    """Ask until a filter was worth its while, and wait for it."""
    for _ in range(int(count * LOOKUPS_PER_VALUE_BEFORE_BUILD) // len(others) + 2):
        lookup.contains_many(TARGET, others)
        lookup.wait()


def list_pages(client: Client, store: RedisSetStore, values: Sequence[str]) -> None:
    """Pages of 100 from the start, then a whole listing."""

    def page() -> None:
        assert len(store.page(TARGET, None, 100).values) == min(100, len(values))

    def listing() -> None:
        found: list[str] = []
        cursor = None
        while True:
            one = store.page(TARGET, cursor, MAX_PAGE)
            found += one.values
            cursor = one.cursor
            if cursor is None:
                break
        assert sorted(found) == sorted(values)

    measure(client, "page of 100", page, 100, ROUNDS)
    measure(client, f"listing, {MAX_PAGE:,} per page", listing, len(values))


def main(values: int = 500_000, lookups_only: bool = False) -> None:
    """Run all; with --lookups-only a replace and the lookups."""
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
