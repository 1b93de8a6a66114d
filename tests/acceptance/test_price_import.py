"""`headwater prices import` imports a price history from files."""

import gzip
import json
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.acceptance.installation import Installation
from tests.support.waiting import until

STATS = "/api/v1/developer/prices/stats"
HOUR = 3600


def address(number: int) -> str:
    return f"0x{number:039x}f"


def ticks(token: str) -> list[dict[str, str]]:
    """Return ticks of 3 h, 40 min and 5 min ago, with numbers as strings, as in CSV."""
    now = time.time()
    return [
        {"chain": "base", "token_address": token, "price_usd": price, "timestamp": f"{now - ago:.3f}", "decimals": "8"}
        for ago, price in ((3 * HOUR, "100"), (40 * 60, "120"), (300, "110"))
    ]


def written(folder: Path, form: str, token: str) -> Path:
    records = ticks(token)
    if form == "csv":
        rows = [",".join(records[0]), *(",".join(record.values()) for record in records)]
        (folder / "ticks.csv").write_text("\n".join(rows) + "\n", "utf-8-sig")
        return folder / "ticks.csv"
    if form == "parquet":
        times = [float(record["timestamp"]) * 1000 for record in records]
        columns: dict[str, Any] = {name: [record[name] for record in records] for name in records[0]}
        columns["timestamp"] = pa.array(map(round, times), pa.timestamp("ms"))
        columns["price_usd"] = pa.array([Decimal(record["price_usd"]) for record in records], pa.decimal128(20, 6))
        pyarrow.parquet.write_table(pa.table(columns), folder / "ticks.parquet")
        return folder / "ticks.parquet"
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "ticks.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return folder / "ticks.jsonl.gz"


@pytest.mark.parametrize(
    ("form", "number"),
    [
        pytest.param("csv", 0xC5, marks=pytest.mark.slow),
        pytest.param("jsonl", 0x15, marks=pytest.mark.slow),
        ("parquet", 0x9A),
    ],
)
def test_an_imported_history_is_readable_immediately(
    installation: Installation, client: httpx2.Client, tmp_path: Path, form: str, number: int
) -> None:
    token, file = address(number), written(tmp_path, form, address(number))
    for _ in range(2):  # a second import changes nothing
        done = installation.run("prices", "import", str(file))
        assert (done.returncode, done.stdout) == (0, "3 ticks written\n"), done.stderr
    body = [{"token_address": token, "chain": "base"}]
    names = ("latest_price", "low_24h", "high_24h", "low_1h", "high_1h", "percent_change_24h", "percent_change_1h")

    def figures() -> list[float | None]:
        items = client.post(STATS, json=body).json()["items"]
        return [items[0][name] for name in names] if items else []

    until(lambda: figures() == [110, 100, 120, 110, 120, None, pytest.approx(10.0)], what="the history")


def test_the_error_names_an_invalid_tick(installation: Installation, tmp_path: Path) -> None:
    good = json.dumps(ticks(address(0xBAD))[0])
    (tmp_path / "ticks.jsonl").write_text(f'{good}\n{{"chain": "base"}}\nno json\n')
    done = installation.run("prices", "import", str(tmp_path / "ticks.jsonl"))
    assert done.returncode == 1
    assert "1 ticks written" in done.stdout
    assert "record 2 is not a valid tick: token_address" in done.stdout
    assert "record 3 is not a valid tick" in done.stdout
    assert "2 records were rejected" in done.stdout


def test_a_missing_file(installation: Installation, tmp_path: Path) -> None:
    done = installation.run("prices", "import", str(tmp_path / "nowhere.csv"))
    assert done.returncode == 2
    assert "nowhere.csv" in done.stderr
