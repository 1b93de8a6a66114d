"""The demo must exit with status 0, and its checks must pass."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.installation import HEADWATER
from tests.acceptance.recorded import log_files, read_logs

FOLDER = os.environ.get("HEADWATER_TEST_DATA", "")


def demo(*flags: str) -> str:
    ended = subprocess.run([*HEADWATER, "demo", *flags], capture_output=True, text=True, timeout=170)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def counts(story: str) -> tuple[int, int, int]:
    """Return the numbers of expected, missing and unexpected records that the demo prints."""
    sentence = r"([\d,]+) of [\d,]+ records should be delivered; ([\d,]+) are missing, ([\d,]+) are unexpected"
    found = re.search(sentence, " ".join(story.split()))
    assert found, story
    expected, missing, extra = (int(number.replace(",", "")) for number in found.groups())
    return expected, missing, extra


class TestDemo:
    @pytest.mark.slow
    def test_generated_records(self) -> None:
        story = demo("--records", "13000")
        expected, missing, extra = counts(story)
        assert expected > 500
        assert (missing, extra) == (0, 0)
        assert re.search(r"steady: p50 \d+ ms, p99 \d+ ms", story)
        assert re.search(r"through the pipeline at [\d,]+ a second", story)
        assert "without a redeploy" in story

    @pytest.mark.skipif(
        not Path(FOLDER, "evm").exists(), reason="HEADWATER_TEST_DATA names no folder with recorded data"
    )
    @pytest.mark.slow
    def test_recorded_records(self, tmp_path: Path) -> None:
        chain, path = next((c, p) for c, p in log_files(Path(FOLDER)) if "squid" in p.name)
        file = tmp_path / "logs.jsonl"
        file.write_text("".join(json.dumps(log) + "\n" for log in read_logs(path)))
        expected, missing, extra = counts(demo("--file", str(file), "--chain", chain, "--entity", "log"))
        assert expected > 100
        assert (missing, extra) == (0, 0)

    def test_an_unusable_file(self, tmp_path: Path) -> None:
        file = tmp_path / "odd.jsonl"
        file.write_text('{"a": 1}\n')
        ended = subprocess.run([*HEADWATER, "demo", "--file", str(file)], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 2
        assert str(file) in ended.stderr
