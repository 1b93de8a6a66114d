"""The demo must exit with status 0, and its checks must pass."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.installation import HEADWATER
from tests.acceptance.recorded import log_files, read_logs
from tests.support.processes import descendants
from tests.support.waiting import until

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


def dead_letters(client: httpx2.Client) -> int:
    """Return the number of dead letters of the pipeline with a script that needs amounts."""
    [flow] = client.get("/api/v1/flow", params={"external_id": "demo/watched"}).raise_for_status().json()
    groups = client.get(f"/api/v1/flow/{flow['id']}/dead-letters/summary").raise_for_status().json()["items"]
    return sum(group["count"] for group in groups)


class TestDemo:
    @pytest.mark.slow
    def test_generated_records(self) -> None:
        story = demo("--records", "60000")
        expected, missing, extra = counts(story)
        assert expected > 500
        assert (missing, extra) == (0, 0)
        assert re.search(r"steady: p50 \d+ ms, p99 \d+ ms", story)
        assert re.search(r"through the pipeline at [\d,]+ a second", story)
        assert "+ watched                              created and deployed" in story
        assert "✓ watched   created, deployed" in story
        assert "values  +1 −0 of 20 (replace)" in story
        assert "✓ watched   values written" in story
        assert len(re.findall(r'^{"amount":".*"at":"\d+/\d+"}$', story, re.MULTILINE)) == 4
        assert re.search(r"^0x42\w+ +2100 +\+5\.00 %", story, re.MULTILINE)

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

    @pytest.mark.parametrize(
        "signal_",
        [pytest.param(signal.SIGTERM, marks=pytest.mark.long), pytest.param(signal.SIGINT, marks=pytest.mark.slow)],
    )
    def test_it_is_kept_until_a_signal(self, signal_: signal.Signals) -> None:
        command = [*HEADWATER, "demo", "--records", "20000", "--keep"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout is not None
            story = ""
            while not (found := re.search(r"cd (\S+); export HEADWATER_URL=(\S+)", story)):
                line = process.stdout.readline()
                assert line, story
                story += line
            folder, url = Path(found[1]), found[2]
            [code] = re.findall(rf"^{url}/console/sign-in#code=(\S+)$", story, re.MULTILINE)
            key = httpx2.post(f"{url}/api/v1/flow/sign-in", json={"code": code}).raise_for_status().json()["key"]
            client = httpx2.Client(base_url=url, headers={"X-API-Key": key})
            until(lambda: dead_letters(client) > 0, 30, "a dead letter of a record that is written meanwhile")
            client.close()
            processes = [process.pid, *(each.pid for each in descendants(process.pid))]
            process.send_signal(signal_)
            assert process.wait(60) == 0, process.stdout.read()
        assert [pid for pid in processes if Path(f"/proc/{pid}").exists()] == []
        assert not folder.exists()

    def test_an_unusable_file(self, tmp_path: Path) -> None:
        file = tmp_path / "odd.jsonl"
        file.write_text('{"a": 1}\n')
        ended = subprocess.run([*HEADWATER, "demo", "--file", str(file)], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 2
        assert str(file) in ended.stderr
