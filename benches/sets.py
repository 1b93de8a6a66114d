"""How fast the set store is on this machine, beside plain commands in the same run: `python -m benches.sets`.

Every answer is checked. Reference: one plain SET with the same values as text, asked by SMISMEMBER.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from headwater.model.dataset import MAX_PAGE, MAX_VALUES_PER_REQUEST, dataset_set
from headwater.stores.embedded import EmbeddedValkey
from headwater.stores.redis.client import Client, connect
from headwater.stores.redis.sets import RedisSetStore

TARGET = dataset_set("bench")
PLAIN = "plain"
LOOKUP = 1_000
ROUNDS = 30


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


def measure(client: Client, name: str, work: Callable[[], object], per: int, rounds: int = 1) -> None:
    """Print the median time of `work` per call, and the server's CPU, over `per` values."""
    took: list[float] = []
    cpu_before = cpu_s(client)
    for _ in range(rounds):
        before = time.perf_counter()
        work()
        took.append(time.perf_counter() - before)
    median, server = statistics.median(took), (cpu_s(client) - cpu_before) / rounds
    typer.echo(
        f"{name:32} {median * 1e3:9.2f} ms  {per / median:12,.0f} values/s  server {server / per * 1e6:5.2f} µs/value"
    )


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


def look_up(client: Client, store: RedisSetStore, values: Sequence[str]) -> None:
    """Batches of 1,000 with no, a tenth and all members, each beside the reference."""
    others = addresses(LOOKUP, seed=2)
    for at in range(0, len(values), 10_000):
        client.call("SADD", PLAIN, *values[at : at + 10_000])
    for hits in (0, LOOKUP // 10, LOOKUP):
        asked = [*values[:hits], *others[hits:]]
        expected = [True] * hits + [False] * (LOOKUP - hits)

        def ours(asked: list[str] = asked, expected: list[bool] = expected) -> None:
            assert store.contains_many(TARGET, asked) == expected

        def plain(asked: list[str] = asked, expected: list[bool] = expected) -> None:
            assert client.call("SMISMEMBER", PLAIN, *asked) == expected

        measure(client, f"contains_many, {hits} of {LOOKUP} in it", ours, LOOKUP, ROUNDS)
        measure(client, "  SMISMEMBER on a plain SET", plain, LOOKUP, ROUNDS)


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


def main(values: int = 500_000) -> None:
    """Run all."""
    chosen = addresses(values, seed=1)
    with valkey() as client:
        store = RedisSetStore(client)
        fill(client, store, chosen)
        memory = int(client.call("INFO", "memory")["used_memory"])
        typer.echo(f"{'memory':32} {memory / values:9.1f} bytes per value")
        look_up(client, store, chosen)
        list_pages(client, store, chosen)


if __name__ == "__main__":
    typer.run(main)
