"""Timestamps and progress of replayed records."""

import json
import time
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from headwater.app.replay import Replay, TimeMode
from headwater.cli.application import app
from headwater.errors import SetupError
from headwater.record_files.record_file import STDIN

T0 = 1_767_323_045_000


def written(folder: Path, name: str, *times: object) -> Path:
    (folder / name).write_text("".join(json.dumps({"height": n, "blockTime": at}) + "\n" for n, at in enumerate(times)))
    return folder / name


def times_of(source: Replay) -> list[Any]:
    return [json.loads(record)["blockTime"] for record in source.records()]


def test_the_newest_record_of_all_files_gets_the_current_time(tmp_path: Path) -> None:
    files = [written(tmp_path, "a.jsonl", T0, T0 + 9_500), written(tmp_path, "b.jsonl", T0 + 2_000)]
    now = time.time() * 1000
    first, newest, last = times_of(Replay("hyperliquid", "block", files, time_mode="shift"))
    assert now - 1_500 <= newest <= now + 5_000
    assert (newest - first, last - first) == (9_500, 2_000)


def test_each_record_gets_the_current_time(tmp_path: Path) -> None:
    now = time.time() * 1000
    files = [written(tmp_path, "a.jsonl", T0, "soon", T0 + 9_500)]
    source = Replay("hyperliquid", "block", files, time_mode="now")
    first, unknown, last = times_of(source)
    assert now - 1 <= first <= last <= now + 5_000
    assert unknown == "soon"
    assert list(source.notes()) == ["1 records have no known time and were written unchanged"]


def test_times_are_kept(tmp_path: Path) -> None:
    assert times_of(Replay("hyperliquid", "block", [written(tmp_path, "a.jsonl", T0, "soon")])) == [T0, "soon"]


@pytest.mark.parametrize("time_mode", get_args(TimeMode))
def test_the_progress(tmp_path: Path, time_mode: TimeMode) -> None:
    files = [written(tmp_path, "a.jsonl", T0), written(tmp_path, "b.jsonl", T0)]
    source = Replay("hyperliquid", "block", files, time_mode=time_mode)
    shares = [source.bytes_read() / source.size() for _ in source.records()]
    assert shares == [0.5, 1.0]


def test_standard_input_has_no_newest_record() -> None:
    with pytest.raises(SetupError, match="Name files"):
        Replay("hyperliquid", "block", [STDIN], time_mode="shift").records()


def test_two_speeds(tmp_path: Path) -> None:
    flags = ["replay", "--chain", "base", "--entity", "log", "--rate", "5", "--pace", "1", "a.jsonl"]
    done = CliRunner().invoke(app, [*flags, "--data-dir", str(tmp_path)])
    assert (done.exit_code, "use one of them" in done.output) == (2, True)
