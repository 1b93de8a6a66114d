"""The demo's second pipeline, which makes token prices of generated trades."""

import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2

from headwater.cli.demo.installation import checked

PIPELINE = "prices"
CHAIN, ENTITY = "base", "decoded_log"
WETH = "0x4200000000000000000000000000000000000006"
TRADES = ((3 * 3600, 2000.0), (1800, 2140.0), (600, 2090.0), (1, 2100.0))
"""The trades of the token: age in seconds, price in USD."""
OTHER_TOKENS = {
    "0xcbb7c0000ab88b473b1f5afd9ef808440eed33bf": 64_000.0,
    "0x940181a94a35a4569e4529a3cdfb74e38fd98631": 0.82,
}
"""Tokens that are traded in a demo that is kept running, and the price in USD at which `live_trades` starts."""
HISTORY_S = 24 * 3600
HISTORY_STEP_S = 600
LARGEST_CHANGE = 0.004

PIPELINE_FILE = f"""
name: {PIPELINE}
description: Prices of the tokens that are traded
source: {{chain: {CHAIN}, entity: {ENTITY}}}
transforms:
  - name: ticks
    v8: {{file: scripts/{PIPELINE}.js}}
sinks:
  - {{type: prices, name: ticks}}
""".lstrip()
SCRIPT = """
function process(swap) {
  return { chain: "base", token_address: swap.address, price_usd: swap.price, timestamp: swap.at, decimals: 18 };
}
""".lstrip()
EXPECTED_STATISTICS: dict[str, Any] = {
    "low_24h": 2000.0,
    "high_24h": 2140.0,
    "low_1h": 2090.0,
    "high_1h": 2140.0,
    "percent_change_24h": None,
    "percent_change_1h": 5.0,
}
READABLE_WITHIN_S = 30.0


def trade(token: str, price: float, age_s: float = 0.0) -> bytes:
    """Return a trade as a record of the stream."""
    return json.dumps({"address": token, "price": price, "at": time.time() - age_s}).encode()


def write_trades(write: Callable[[Path, str, str, Iterator[bytes], float], int], data_dir: Path) -> None:
    """Write the trades of the token to the stream."""
    write(data_dir, CHAIN, ENTITY, (trade(WETH, price, age_s) for age_s, price in TRADES), 0)


def past_trades() -> Iterator[bytes]:
    """Yield trades of the other tokens of the last 24 hours.

    They end near the prices in OTHER_TOKENS, at which `live_trades` starts.
    """
    random_numbers = _random()
    for token, price in OTHER_TOKENS.items():
        walk = [price]
        for _ in range(0, HISTORY_S, HISTORY_STEP_S):
            walk.append(_changed(walk[-1], random_numbers))
        ages = range(HISTORY_S, 0, -HISTORY_STEP_S)
        yield from (trade(token, price, age_s) for age_s, price in zip(ages, reversed(walk), strict=False))


def live_trades() -> Iterator[bytes]:
    """Yield trades of all tokens without end, each at the time at which it is asked for."""
    random_numbers = _random()
    walk = {WETH: TRADES[-1][1], **OTHER_TOKENS}
    for token in itertools.cycle(walk):
        walk[token] = _changed(walk[token], random_numbers)
        yield trade(token, walk[token])


def _random() -> random.Random:
    return random.Random(7)  # noqa: S311  # test data, not a secret


def _changed(price: float, random_numbers: random.Random) -> float:
    """Return the next price of a random walk."""
    return price * (1 + random_numbers.uniform(-LARGEST_CHANGE, LARGEST_CHANGE))


def poll_statistics(client: httpx2.Client) -> dict[str, Any] | None:
    """Poll the token's statistics until they are correct, at most READABLE_WITHIN_S seconds.

    Returns the last statistics, or None when the token has no price.
    """
    deadline, statistics = time.monotonic() + READABLE_WITHIN_S, None
    while time.monotonic() < deadline and not is_correct(statistics):
        response = client.post("/api/v1/developer/prices/stats", json=[{"token_address": WETH, "chain": CHAIN}])
        items: list[dict[str, Any]] = checked(response)["items"]
        statistics = items[0] if items else None
        time.sleep(0.1)
    return statistics


def is_correct(statistics: dict[str, Any] | None) -> bool:
    """Whether these are the statistics of the trades."""
    return statistics is not None and EXPECTED_STATISTICS.items() <= statistics.items()
