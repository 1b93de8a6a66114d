"""Price statistics of real trades over HTTP, compared with their definitions."""

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import HEADWATER, STOP_WITHIN_S, Installation, deployed, in_background, pipeline
from tests.acceptance.recorded_prices import BLOCK, Trade, orca_day, uniswap_day
from tests.support.prices import DAY, HOUR, BruteForceStats, brute_force
from tests.support.waiting import until

FOLDER = Path(os.environ.get("HEADWATER_TEST_DATA") or "nowhere")
STATS = "/api/v1/developer/prices/stats"
PRICES = pipeline("log", sinks=[{"type": "prices", "name": "ticks"}], name="prices")


def generated(draw: random.Random) -> list[Trade]:
    """Generate trades of one and a half days."""
    trades, at, price = [], 1_700_000_000_000, 100.0
    for number in range(600):
        at += draw.choice([0, 1000, draw.randrange(10 * 60_000)])
        price *= 1000 if draw.random() < 0.004 else draw.uniform(0.97, 1.03)
        trades.append((at, number // 3 * BLOCK + number % 3, price))
        price = price if price < 10_000 else price / 1000
    return trades


def series() -> list[list[Trade]]:
    trades_list = [generated(random.Random(seed)) for seed in range(3)]
    if FOLDER.exists():
        trades_list += [uniswap_day(FOLDER), *orca_day(FOLDER).values()]
    return trades_list


def record(address: str, trade: Trade) -> dict[str, Any]:
    at, order, price = trade
    place = {"block_number": order // BLOCK, "log_index": order % BLOCK}
    return {"chain": "base", "token_address": address, "price_usd": price, "timestamp": at, "decimals": 6} | place


def ask(client: httpx2.Client, tokens: Sequence[str]) -> tuple[int, int, list[dict[str, Any]]]:
    """Return the items with their `held_since`, and two times in ms.

    The items were computed between the two times.
    """
    began = int(time.time() * 1000)
    answer = client.post(STATS, json=[{"token_address": address, "chain": "base"} for address in tokens])
    assert answer.status_code == 200, answer.text
    assert [item["mint"] for item in answer.json()["items"]] == list(tokens), answer.json()["message"]
    ended, found = int(time.time() * 1000) + 1, answer.json()
    items = [
        item | {"held_since": status.get("held_since")}
        for item, status in zip(found["items"], found["statuses"], strict=True)
    ]
    return began, ended, items


def possible(trades: Sequence[Trade], began: int, ended: int) -> list[BruteForceStats | None]:
    """Return the possible statistics between two times.

    There are several, because trades leave the windows meanwhile.
    """
    leaving = {at + width for at, _, _ in trades for width in (HOUR, DAY) if began < at + width <= ended}
    return [brute_force(trades, now) for now in sorted({began, *leaving})]


def figures(item: dict[str, Any]) -> BruteForceStats:
    """Convert an item for a comparison with `brute_force`."""
    names = ("latest_price", "low_24h", "high_24h", "low_1h", "high_1h", "percent_change_24h", "percent_change_1h")
    held_since = item["held_since"] and milliseconds(item["held_since"])
    return BruteForceStats(*[milliseconds(item["timestamp"]), *(item[name] for name in names), held_since])


def milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def address(run: int, number: int) -> str:
    return f"0x{run:08x}{number:032x}"


class Moments:
    """Random times of the series.

    Each is a token whose trades are shifted so that this time is now.
    """

    def __init__(self, count: int, seed: int) -> None:
        draw = random.Random(seed)
        all_series, run = series(), draw.getrandbits(32)
        self.trades: dict[str, list[Trade]] = {}
        self.records: list[dict[str, Any]] = []
        now = int(time.time() * 1000)
        for number in range(count):
            trades = draw.choice(all_series)
            moment = draw.uniform(trades[0][0], trades[-1][0] + 2 * HOUR)
            later = draw.choice([0, 0, 0, 26 * HOUR, 3 * DAY])
            moved = [(int(at - moment) + now - later, order, price) for at, order, price in trades if at <= moment]
            ticks_with_repeats = moved + draw.sample(moved, len(moved) // 20)
            if number % 2:
                draw.shuffle(ticks_with_repeats)
            self.trades[address(run, number)] = moved
            self.records += [record(address(run, number), trade) for trade in ticks_with_repeats]

    def check(self, client: httpx2.Client) -> None:
        """Assert that the current statistics of all tokens are correct."""
        tokens = [*self.trades]
        for first in range(0, len(tokens), 200):
            some = tokens[first : first + 200]
            began, ended, items = ask(client, some)
            for token, item in zip(some, items, strict=True):
                trades = self.trades[token]
                assert figures(item) in possible(trades, began, ended), token


def feed(installation: Installation, client: httpx2.Client, records: Sequence[dict[str, Any]]) -> None:
    """Feed all trades, and wait until the last ones are readable."""
    for first in range(0, len(records), 20_000):
        installation.feed("base", "log", records[first : first + 20_000])
    ends = [f"0x{random.getrandbits(160):040x}" for _ in range(1000)]
    now = int(time.time() * 1000)
    installation.feed("base", "log", [record(end, (now, number, 1.0)) for number, end in enumerate(ends)])
    for first in range(0, len(ends), 200):
        body = [{"token_address": end, "chain": "base"} for end in ends[first : first + 200]]
        until(lambda b=body: len(client.post(STATS, json=b).json()["items"]) == len(b), 600, "all ticks folded")  # type: ignore[misc]  # a default binds the loop's variable


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_statistics_of_recorded_trades_at_random_times(
    installation: Installation, client: httpx2.Client, count: int
) -> None:
    moments = Moments(count, seed=count)
    with deployed(client, PRICES):
        feed(installation, client, moments.records)
        moments.check(client)
    assert len(moments.trades) == count


class SecondWorker:
    """A second prices worker, which is started again whenever it ends."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.pid = 0

    def run(self, stop: threading.Event) -> None:
        command = [*HEADWATER, "prices", "worker", "--data-dir", str(self._installation.data_dir)]
        while not stop.is_set():
            process = subprocess.Popen(command, env=self._installation.environment)
            self.pid = process.pid
            while process.poll() is None and not stop.wait(0.1):
                pass
            process.terminate()
            process.wait(STOP_WITHIN_S)


@pytest.mark.parametrize(
    ("workers", "kills", "every_s"),
    [
        (1, 3, 1.5),
        (2, 4, 4.0),
        pytest.param(1, 12, 1.5, marks=pytest.mark.slow),
        pytest.param(2, 20, 60.0, marks=[pytest.mark.slow, pytest.mark.timeout(2400)]),
    ],
)
@pytest.mark.long
def test_killed_workers_lose_nothing(
    installation: Installation, client: httpx2.Client, workers: int, kills: int, every_s: float
) -> None:
    """Ticks are fed while one of the workers after the other is killed."""
    moments, killed = Moments(10 * workers, seed=kills), set[int]()
    second = SecondWorker(installation)

    def kill_now_and_then(stop: threading.Event) -> None:
        while not stop.wait(every_s):
            first = [pid for pid in installation.processes("prices worker") if pid != second.pid]
            for pid in first if not second.pid or len(killed) % 2 else [second.pid]:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)

    with deployed(client, PRICES), contextlib.ExitStack() as running:
        if workers > 1:
            running.enter_context(in_background(second.run))
        chunks = kills * 10
        size = len(moments.records) // chunks + 1
        with in_background(kill_now_and_then):
            for first in range(0, len(moments.records), size):
                installation.feed("base", "log", moments.records[first : first + size])
                time.sleep(every_s / 10)
        feed(installation, client, [])
        moments.check(client)
    assert len(killed) >= kills - 1
