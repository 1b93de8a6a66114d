"""Token prices: what folding ticks costs, and what readers notice: `python -m benches.prices`.

A whole installation with 100,000 tokens, traded by Zipf's law. Ticks are written while its prices worker stands still;
then it works them off alone, and what it has folded is compared with the ticks. References of the same run: a program
that only reads and unpacks the same ticks (fold), GET /healthz (requests).
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

from benches._installation import installation
from headwater.model.price.band import HOUR_MS
from headwater.model.price.tick import (
    PARTITIONS,
    SEPARATOR,
    TICKS_TOPIC,
    VALUE_BYTES,
    from_topic,
    pack,
    partition_of,
    quoted_key,
    token_key,
)
from headwater.stores.embedded_valkey import EmbeddedValkey
from headwater.stores.redis.client import Client, connect
from tests.acceptance.stack import Stack
from tests.support.processes import cpu_seconds, suspended
from tests.support.waiting import until

CHAIN, TOKENS, PROBES = "base", 100_000, 200
"""Tokens that are traded, and others that the staleness is measured with: theirs are the only ticks, so the latest."""
STATS = "/api/v1/developer/prices/stats"
PER_REQUEST = 200
DAY_MS = 24 * HOUR_MS
WORKED_OFF_WITHIN_S, READABLE_WITHIN_S = 600.0, 30.0
Ticks = Iterator[tuple[int, int, float]]
"""Token, time in ms, price."""


def address(number: int) -> str:
    return f"0x{number * 0x9E3779B97F4A7C15F39CC0605CEDC834109F0123 % (1 << 160):040x}"


QUOTE = TOKENS + PROBES
"""The token that others are quoted in."""
KEYS = [token_key(CHAIN, address(number)).encode() for number in range(QUOTE + 1)]
WHERE = [partition_of(key) for key in KEYS]


def traded(count: int, start: int, end: int, seed: int) -> Ticks:
    """By Zipf's law, 5 % of them up to 30 s late."""
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

    def __init__(self, stack: Stack) -> None:
        self._config: Any = stack.admin_config()
        self._producer = Producer(self._config | {"linger.ms": 20, "queue.buffering.max.messages": 200_000})
        self._number = 0

    def write(self, ticks: Ticks, quote: str = "") -> int:
        """All of them; how many. quote: The address of the token that the prices are in; empty for US dollars."""
        before, names = self._number, quote.encode() + SEPARATOR if quote else b""
        for token, at, price in ticks:
            self._number += 1
            key = quoted_key(KEYS[token]) if quote else KEYS[token]
            while True:
                try:
                    value = pack(at, self._number, price, 18) + names
                    self._producer.produce(TICKS_TOPIC, value, key, WHERE[token])
                    break
                except BufferError:
                    self._producer.poll(0.05)
        assert self._producer.flush(60) == 0
        return self._number - before

    def ends(self) -> dict[int, int]:
        """The next offsets."""
        with closing(self._consumer()) as consumer:
            return {p: consumer.get_watermark_offsets(TopicPartition(TICKS_TOPIC, p))[1] for p in range(PARTITIONS)}

    def _consumer(self) -> Consumer:
        return Consumer(self._config | {"group.id": "bench", "fetch.wait.max.ms": 10})

    def read(self, starts: dict[int, int], count: int) -> float:
        """CPU seconds of this process for reading and unpacking so many ticks."""
        with closing(self._consumer()) as consumer:
            consumer.assign([TopicPartition(TICKS_TOPIC, p, start) for p, start in starts.items()])
            before = time.process_time()
            while count > 0:
                messages = consumer.consume(2000, 1.0)
                count -= len([*from_topic([(m.value() or b"")[:VALUE_BYTES] for m in messages])])
            return time.process_time() - before


def positions(client: Client) -> dict[int, int]:
    """What the price states reach."""
    ends = {p: client.call("HGET", f"{{px:{p}}}:who", "end") or b"0" for p in range(PARTITIONS)}
    return {p: int(end.rpartition(b":")[2]) for p, end in ends.items()}


def work_off(stack: Stack, client: Client, topic: Topic, ticks: Ticks, what: str, quote: str = "") -> None:
    """Write ticks while the worker stands still, then let it fold them, and print how fast it was."""
    [worker] = stack.below("prices worker")
    starts = topic.ends()
    with suspended([worker]):
        count = topic.write(ticks, quote)
        ends, before, began = topic.ends(), cpu_seconds(worker), time.monotonic()
    until(lambda: positions(client) == ends, WORKED_OFF_WITHIN_S, "all ticks readable")
    took_s, used_s = time.monotonic() - began, cpu_seconds(worker) - before
    reference_s = topic.read(starts, count)
    typer.echo(
        f"{what}: {count:,} ticks; {count / used_s:,.0f} per CPU second, {count / took_s:,.0f} per second; "
        f"reading them alone {count / reference_s:,.0f} per CPU second ({reference_s / used_s:.2f} x)"
    )


def api_processes(stack: Stack) -> list[int]:
    return stack.below(" api ")


def requests(stack: Stack, seconds: float, at_once: int, path: str = STATS) -> None:
    """Ask for 200 tokens again and again, from so many threads; the reference asks for nothing."""
    took: list[float] = []
    stop = time.monotonic() + seconds

    def ask(seed: int) -> None:
        draw = random.Random(seed)
        with stack.client() as http:
            while time.monotonic() < stop:
                chosen = (address(draw.randrange(TOKENS)) for _ in range(PER_REQUEST))
                tokens = [{"token_address": one, "chain": CHAIN} for one in chosen]
                began = time.perf_counter()
                answer = http.get(path) if path != STATS else http.post(path, json=tokens)
                took.append(1000 * (time.perf_counter() - began))
                answer.raise_for_status()

    used = sum(map(cpu_seconds, api_processes(stack)))
    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = sum(map(cpu_seconds, api_processes(stack))) - used
    cuts = statistics.quantiles(took, n=100)
    typer.echo(
        f"  {path}, {at_once} at once: p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms, {len(took) / seconds:,.0f} a "
        f"second, {1000 * used / len(took):.1f} ms of CPU each"
    )


def memory(client: Client, topic: Topic, tokens: int = 2_000, per_day: int = 200) -> None:
    """What a token takes in the store that is traded 200 times a day, at moments of their own."""
    draw, now = random.Random(5), int(time.time() * 1000)
    ticks = sorted((now - draw.randrange(DAY_MS), TOKENS - 1 - n) for n in range(tokens) for _ in range(per_day))
    before = _used(client)
    topic.write((token, at, 100 * draw.lognormvariate(0, 0.02)) for at, token in ticks)
    ends = topic.ends()
    until(lambda: positions(client) == ends, WORKED_OFF_WITHIN_S, "all ticks readable")
    typer.echo(f"{(_used(client) - before) / tokens:,.0f} bytes per token with {per_day} ticks a day")


def _used(client: Client) -> int:
    return int(client.call("INFO", "memory")["used_memory"])


def staleness(stack: Stack, topic: Topic, rate: int) -> None:
    """From the write of a tick until it can be read by HTTP, while others are written at a rate."""
    stop, took, others = threading.Event(), list[float](), Topic(stack)

    def load() -> None:
        for seed in range(1 << 30):
            began, now = time.monotonic(), int(time.time() * 1000)
            others.write(traded(rate, now - 1000, now, seed))
            if stop.wait(max(0.0, 1 - (time.monotonic() - began))):
                return

    thread = threading.Thread(target=load)
    thread.start()
    with stack.client() as http:
        for token in range(TOKENS, TOKENS + PROBES):
            began = time.monotonic()
            topic.write(iter([(token, int(time.time() * 1000), float(token))]))
            while latest(http, token) != token:
                assert time.monotonic() < began + READABLE_WITHIN_S
                time.sleep(0.01)
            took.append(time.monotonic() - began)
    stop.set()
    thread.join()
    cuts = statistics.quantiles(took, n=100)
    typer.echo(f"tick to readable, at {rate:,} ticks a second: p50 {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s")


def latest(http: httpx2.Client, token: int) -> float | None:
    """The token's latest price."""
    answer = http.post(STATS, json=[{"token_address": address(token), "chain": CHAIN}]).json()
    return answer["items"][0]["latest_price"] if answer["items"] else None


def main(count: int = 2_000_000, seconds: float = 20) -> None:
    """Run all."""
    with installation(["--no-price-filter"]) as stack, closing(connect(EmbeddedValkey(stack.data_dir).url)) as client:
        topic, now = Topic(stack), int(time.time() * 1000)
        memory(client, topic)
        work_off(stack, client, topic, traded(count, now - DAY_MS, now - HOUR_MS // 6, 1), "a day of history")
        work_off(stack, client, topic, traded(count, now - HOUR_MS // 6, now, 2), "ten minutes of trade")
        for at_once in (1, 4):
            requests(stack, seconds, at_once)
        requests(stack, 5, 1, "/healthz")
        staleness(stack, topic, 5_000)
        now = int(time.time() * 1000)
        topic.write((QUOTE, now - ago * 1000, 2000 + ago % 7) for ago in range(HOUR_MS // 1000))
        quoted = traded(count // 4, now - HOUR_MS // 6, now, 3)
        work_off(stack, client, topic, quoted, "ten minutes of trade quoted in another token", address(QUOTE))
        requests(stack, seconds, 1)


if __name__ == "__main__":
    typer.run(main)
