"""`headwater replay` writes files of all formats to a stream."""

import csv
import gzip
import io
import json
import os
import pty
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.acceptance.installation import HEADWATER, Installation, deployed, pipeline, reading

STREAM = ("--chain", "hyperliquid", "--entity", "block")
T0 = 1_767_323_045_000


def blocks(count: int, first: int = 1) -> list[dict[str, Any]]:
    return [
        {"height": n, "blockTime": T0 + 250 * n, "hash": f"0x{n:064x}", "proposer": None, "numTxs": 2**60 + n}
        for n in range(first, first + count)
    ]


def lines(records: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def write_all(folder: Path, records: list[dict[str, Any]]) -> list[Path]:
    """Write a third of the records in each format."""
    third = len(records) // 3
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(lines(records[:third])))
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]))
    writer.writeheader()
    writer.writerows(records[third : 2 * third])
    (folder / "b.csv").write_text(text.getvalue())
    pyarrow.parquet.write_table(pa.Table.from_pylist(records[2 * third :]), folder / "c.parquet")
    return [folder / "a.jsonl.gz", folder / "b.csv", folder / "c.parquet"]


@pytest.mark.long
def test_all_formats_in_one_call(installation: Installation, client: httpx2.Client, tmp_path: Path) -> None:
    records = blocks(300)
    files = write_all(tmp_path, records)
    with (tmp_path / "b.csv").open("a") as file:
        file.write("no height,1,0x,,0\n")
    with deployed(client, pipeline("block", "hyperliquid")) as deployment, reading(deployment.sink) as reader:
        done = installation.run("replay", *STREAM, "--skip-bad", *map(str, files))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [
            "300 records written to stream.hyperliquid.block",
            "1 entries were not valid records and were skipped",
        ]
        read = [record.json() for record in reader.read(300)]
    assert sorted(read, key=lambda record: int(record["height"])) == records


@pytest.mark.long
def test_a_pipe_is_replayed_in_real_time_with_current_timestamps(
    installation: Installation, client: httpx2.Client
) -> None:
    records = blocks(9)
    with deployed(client, pipeline("block", "hyperliquid")) as deployment, reading(deployment.sink) as reader:
        started = time.time()
        done = installation.run(
            "replay", *STREAM, "--pace", "1", "--times", "shift", "-", input=lines(records).decode()
        )
        assert done.returncode == 0, done.stderr
        assert time.time() - started >= 2
        read = [record.json() for record in reader.read(9)]
    moved = sorted(record["blockTime"] for record in read)
    assert [at - moved[0] for at in moved] == [250 * n for n in range(9)]
    assert started - 1 <= moved[0] / 1000 <= started + 30


def test_the_error_names_the_line_of_an_invalid_record(installation: Installation, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(blocks(2)) + b"{\n" + lines(blocks(1, 3)))
    done = installation.run("replay", *STREAM, str(tmp_path / "a.jsonl"))
    assert done.returncode == 2
    assert "a.jsonl, line 3: it is not valid JSON" in done.stderr
    assert "The 2 records before it are written." in done.stderr


def test_a_progress_bar_is_shown_in_a_terminal(installation: Installation, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(blocks(2000)))
    ours, theirs = pty.openpty()
    command = [*HEADWATER, "replay", *STREAM, "--data-dir", str(installation.data_dir), str(tmp_path / "a.jsonl")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=installation.environment) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
        assert process.wait(30) == 0
    os.close(ours)
    assert b"2,000 records" in shown
    assert b"100%" in shown


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the other end is closed
        return b""
