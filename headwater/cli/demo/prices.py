"""The demo's last step: a second pipeline turns generated trades into token prices."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2

TOKEN, CHAIN, ENTITY = "0x4200000000000000000000000000000000000006", "base", "decoded_log"
TRADES = ((3 * 3600, 2000.0), (1800, 2140.0), (600, 2090.0), (1, 2100.0))
"""The generated trades: age in seconds, price in USD."""
SCRIPT = """
function process(swap) {
  return { chain: "base", token_address: swap.address, price_usd: swap.price, timestamp: swap.at, decimals: 18 };
}"""
BODY: dict[str, Any] = {
    "name": "Headwater demo: prices",
    "pipeline_config": {
        "source": {"chain": CHAIN, "entity": ENTITY},
        "transforms": [{"type": "v8", "script": SCRIPT}],
        "sinks": [{"type": "prices", "name": "ticks"}],
    },
}
EXPECTED_STATISTICS: dict[str, Any] = {
    "low_24h": 2000.0,
    "high_24h": 2140.0,
    "low_1h": 2090.0,
    "high_1h": 2140.0,
    "percent_change_24h": None,
    "percent_change_1h": 5.0,
}
READABLE_WITHIN_S = 30.0


def trades() -> Iterator[bytes]:
    """Yield the generated trades as records of the stream."""
    now = time.time()
    return (json.dumps({"address": TOKEN, "price": price, "at": now - age_s}).encode() for age_s, price in TRADES)


def poll_statistics(client: httpx2.Client) -> dict[str, Any] | None:
    """Poll the token's statistics until they are correct, at most READABLE_WITHIN_S seconds.

    Returns the last statistics, or None when the token has no price.
    """
    deadline, statistics = time.monotonic() + READABLE_WITHIN_S, None
    while time.monotonic() < deadline and not is_correct(statistics):
        response = client.post(
            "/api/v1/developer/prices/stats", json=[{"token_address": TOKEN, "chain": CHAIN}]
        ).raise_for_status()
        items: list[dict[str, Any]] = response.json()["items"]
        statistics = items[0] if items else None
        time.sleep(0.1)
    return statistics


def is_correct(statistics: dict[str, Any] | None) -> bool:
    """Whether these are the statistics of the generated trades."""
    return statistics is not None and EXPECTED_STATISTICS.items() <= statistics.items()


def write_trades(write: Callable[[Path, str, str, Iterator[bytes], float], int], data_dir: Path) -> None:
    """Write the generated trades to the stream."""
    write(data_dir, CHAIN, ENTITY, trades(), 0)
