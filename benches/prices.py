"""Measures the CPU time of folding ticks, and the latency of price requests and updates.

`python -m benches.prices` runs it.

A complete installation has 100,000 tokens, whose trades are distributed by Zipf's law. Ticks are written while the
prices worker is paused by SIGSTOP; then it folds all of them, and the positions that it reaches are checked. The
references of the same run are a program that only reads and unpacks the same ticks (for folding), and GET /healthz
(for requests).
"""

import random
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import numpy as np
import typer
from confluent_kafka import Consumer, Producer, TopicPartition

from benches._installation import running_installation
from headwater.model.price.band import HOUR_MS
from headwater.model.price.tick import (
    SEPARATOR,
    TICKS_PARTITIONS,
    TICKS_TOPIC,
    VALUE_BYTES,
    decode_ticks,
    encode_value,
    key_of_quoted_ticks,
    partition_of,
    token_key,
)
from headwater.stores.embedded_valkey import EmbeddedValkey
from headwater.stores.redis.client import Client, connect
from tests.acceptance.installation import Installation
from tests.support.processes import cpu_seconds, suspended
from tests.support.waiting import until

CHAIN, TOKENS, PROBES = "base", 100_000, 200
"""The number of traded tokens, and of the tokens that staleness is measured with, which get no other ticks."""
STATS = "/api/v1/developer/prices/stats"
PER_REQUEST = 200
DAY_MS = 24 * HOUR_MS
FOLDED_WITHIN_S, READABLE_WITHIN_S = 600.0, 30.0
Ticks = Iterator[tuple[int, int, float]]
"""Number of the token, time in ms, price."""


def address(number: int) -> str:
    return f"0x{number * 0x9E3779B97F4A7C15F39CC0605CEDC834109F0123 % (1 << 160):040x}"


QUOTE = TOKENS + PROBES
"""The number of the token in which other tokens are quoted."""
KEYS = [token_key(CHAIN, address(number)).encode() for number in range(QUOTE + 1)]
TICK_PARTITIONS = [partition_of(key) for key in KEYS]


def traded(count: int, start: int, end: int, seed: int) -> Ticks:
    """Generate trades by Zipf's law between two times in ms; 5 % of them are up to 30 s late."""
    draw = np.random.default_rng(seed)
    weights = 1 / np.arange(1, TOKENS + 1)
    tokens = draw.choice(TOKENS, count, p=weights / weights.sum())
    times = np.linspace(start, end, count).astype(np.int64) - (draw.random(count) < 0.05) * draw.integers(
        0, 30_000, count
    )
    prices = 1 + tokens % 977 + np.cumsum(draw.normal(0, 1e-5, count))
    return zip(tokens.tolist(), times.tolist(), prices.tolist(), strict=True)


class Topic:
    """The ticks topic of an installation."""

    def __init__(self, installation: Installation) -> None:
        self._config: Any = installation.admin_config()
        self._producer = Producer(self._config | {"linger.ms": 20, "queue.buffering.max.messages": 200_000})
        self._number = 0

    def write(self, ticks: Ticks, quote: str = "") -> int:
        """Write all ticks and return their number.

        Prices are in the token with address `quote`, or in US dollars.
        """
        before, suffix = self._number, quote.encode() + SEPARATOR if quote else b""
        for token, at, price in ticks:
            self._number += 1
            key = key_of_quoted_ticks(KEYS[token]) if quote else KEYS[token]
            while True:
                try:
                    value = encode_value(at, self._number, price, 18) + suffix
                    self._producer.produce(TICKS_TOPIC, value, key, TICK_PARTITIONS[token])
                    break
                except BufferError:
                    self._producer.poll(0.05)
        assert self._producer.flush(60) == 0
        return self._number - before

    def ends(self) -> dict[int, int]:
        """Return the end offset of each partition."""
        with closing(self._consumer()) as consumer:
            return {
                p: consumer.get_watermark_offsets(TopicPartition(TICKS_TOPIC, p))[1] for p in range(TICKS_PARTITIONS)
            }

    def _consumer(self) -> Consumer:
        return Consumer(self._config | {"group.id": "bench", "fetch.wait.max.ms": 10})

    def read(self, starts: dict[int, int], count: int) -> float:
        """Return the CPU seconds of this process for reading and unpacking `count` ticks."""
        with closing(self._consumer()) as consumer:
            consumer.assign([TopicPartition(TICKS_TOPIC, p, start) for p, start in starts.items()])
            before = time.process_time()
            while count > 0:
                messages = consumer.consume(2000, 1.0)
                count -= len([*decode_ticks([(m.value() or b"")[:VALUE_BYTES] for m in messages])])
            return time.process_time() - before


def positions(client: Client) -> dict[int, int]:
    """Return the offset up to which the stored prices include ticks, by partition."""
    ends = {p: client.call("HGET", f"{{px:{p}}}:who", "end") or b"0" for p in range(TICKS_PARTITIONS)}
    return {p: int(end.rpartition(b":")[2]) for p, end in ends.items()}


def fold_backlog(
    installation: Installation, client: Client, topic: Topic, ticks: Ticks, label: str, quote: str = ""
) -> None:
    """Write ticks while the worker is paused, let it fold them, and print its rates."""
    [worker] = installation.processes("prices worker")
    starts = topic.ends()
    with suspended([worker]):
        count = topic.write(ticks, quote)
        ends, before, started = topic.ends(), cpu_seconds(worker), time.monotonic()
    until(lambda: positions(client) == ends, FOLDED_WITHIN_S, "all ticks readable")
    wall_s, cpu_s = time.monotonic() - started, cpu_seconds(worker) - before
    reference_s = topic.read(starts, count)
    typer.echo(
        f"{label}: {count:,} ticks; {count / cpu_s:,.0f} per CPU second, {count / wall_s:,.0f} per second; "
        f"reading them alone {count / reference_s:,.0f} per CPU second ({reference_s / cpu_s:.2f} x)"
    )


def api_processes(installation: Installation) -> list[int]:
    return installation.processes(" api ")


def requests(installation: Installation, seconds: float, at_once: int, path: str = STATS) -> None:
    """Request 200 random tokens repeatedly from `at_once` threads, and print the latencies.

    Other paths use GET.
    """
    latencies: list[float] = []
    stop = time.monotonic() + seconds

    def ask(seed: int) -> None:
        draw = random.Random(seed)
        with installation.client() as http:
            while time.monotonic() < stop:
                addresses = (address(draw.randrange(TOKENS)) for _ in range(PER_REQUEST))
                tokens = [{"token_address": token, "chain": CHAIN} for token in addresses]
                started = time.perf_counter()
                response = http.get(path) if path != STATS else http.post(path, json=tokens)
                latencies.append(1000 * (time.perf_counter() - started))
                response.raise_for_status()

    used = sum(map(cpu_seconds, api_processes(installation)))
    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = sum(map(cpu_seconds, api_processes(installation))) - used
    percentiles = statistics.quantiles(latencies, n=100)
    typer.echo(
        f"  {path}, {at_once} at once: p50 {percentiles[49]:.1f} ms, p99 {percentiles[98]:.1f} ms, "
        f"{len(latencies) / seconds:,.0f} per second, {1000 * used / len(latencies):.1f} ms of CPU each"
    )


def memory(client: Client, topic: Topic, tokens: int = 2_000, per_day: int = 200) -> None:
    """Print the store's memory per token, for tokens with `per_day` trades a day.

    The trades are at random times of the day.
    """
    draw, now = random.Random(5), int(time.time() * 1000)
    ticks = sorted((now - draw.randrange(DAY_MS), TOKENS - 1 - n) for n in range(tokens) for _ in range(per_day))
    before = _used(client)
    topic.write((token, at, 100 * draw.lognormvariate(0, 0.02)) for at, token in ticks)
    ends = topic.ends()
    until(lambda: positions(client) == ends, FOLDED_WITHIN_S, "all ticks readable")
    typer.echo(f"{(_used(client) - before) / tokens:,.0f} bytes per token with {per_day} ticks a day")


def _used(client: Client) -> int:
    return int(client.call("INFO", "memory")["used_memory"])


def staleness(installation: Installation, topic: Topic, rate: int) -> None:
    """Print the time from writing a tick until HTTP returns it.

    Other ticks are written at `rate` per second meanwhile.
    """
    stop, latencies, others = threading.Event(), list[float](), Topic(installation)

    def load() -> None:
        for seed in range(1 << 30):
            started, now = time.monotonic(), int(time.time() * 1000)
            others.write(traded(rate, now - 1000, now, seed))
            if stop.wait(max(0.0, 1 - (time.monotonic() - started))):
                return

    thread = threading.Thread(target=load)
    thread.start()
    with installation.client() as http:
        for token in range(TOKENS, TOKENS + PROBES):
            started = time.monotonic()
            topic.write(iter([(token, int(time.time() * 1000), float(token))]))
            while latest(http, token) != token:
                assert time.monotonic() < started + READABLE_WITHIN_S
                time.sleep(0.01)
            latencies.append(time.monotonic() - started)
    stop.set()
    thread.join()
    percentiles = statistics.quantiles(latencies, n=100)
    typer.echo(
        f"tick to readable, at {rate:,} ticks a second: p50 {percentiles[49]:.2f} s, p99 {percentiles[98]:.2f} s"
    )


def latest(http: httpx2.Client, token: int) -> float | None:
    """Return the token's latest price from the API."""
    response = http.post(STATS, json=[{"token_address": address(token), "chain": CHAIN}]).json()
    return response["items"][0]["latest_price"] if response["items"] else None


def main(count: int = 2_000_000, seconds: float = 20) -> None:
    """Run the benchmark on a new installation."""
    with (
        running_installation(["--no-price-filter"]) as installation,
        closing(connect(EmbeddedValkey(installation.data_dir).url)) as client,
    ):
        topic, now = Topic(installation), int(time.time() * 1000)
        memory(client, topic)
        fold_backlog(
            installation, client, topic, traded(count, now - DAY_MS, now - HOUR_MS // 6, 1), "a day of history"
        )
        fold_backlog(installation, client, topic, traded(count, now - HOUR_MS // 6, now, 2), "ten minutes of trade")
        for at_once in (1, 4):
            requests(installation, seconds, at_once)
        requests(installation, 5, 1, "/healthz")
        staleness(installation, topic, 5_000)
        now = int(time.time() * 1000)
        topic.write((QUOTE, now - ago * 1000, 2000 + ago % 7) for ago in range(HOUR_MS // 1000))
        quoted = traded(count // 4, now - HOUR_MS // 6, now, 3)
        fold_backlog(
            installation, client, topic, quoted, "ten minutes of trade quoted in another token", address(QUOTE)
        )
        requests(installation, seconds, 1)


if __name__ == "__main__":
    typer.run(main)
