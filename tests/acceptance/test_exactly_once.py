"""With `"delivery": "exactly_once"`, a read_committed consumer sees each output once."""

import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import (
    Deployed,
    Installation,
    Reader,
    deployed,
    in_background,
    kill,
    pipeline,
    reading,
)
from tests.acceptance.test_redeploy import FLOW, Feeder, marks, ok
from tests.support.waiting import until

ENTITY = "decoded_log"
ONCE = {"delivery": "exactly_once"}
KILLS = 3


def check_once(reader: Reader, count: int) -> None:
    """Assert that every number came once, without removing repeats, and in order per partition."""
    reader.read(count)
    assert sorted(each.json()["n"] for each in reader.records) == list(range(count))
    for partition in {each.partition for each in reader.records}:
        mine = [each.source[1] for each in reader.records if each.partition == partition]
        assert mine == sorted(mine)


def shown(client: httpx2.Client, deployment: Deployed) -> str:
    mode: str = ok(client.get(f"{FLOW}/{deployment.id}"))["pipeline_config"]["delivery"]
    return mode


class Killer:
    """Kills the workers of a deployment at random times."""

    def __init__(self, installation: Installation, deployment: Deployed) -> None:
        self._installation, self._made, self._draw = installation, deployment, random.Random(5)
        self.killed = 0

    def __call__(self, stop: threading.Event) -> None:
        while not stop.wait(self._draw.uniform(0.3, 1.5)):
            pids = self._installation.workers_of(self._made)
            kill(pids)
            self.killed += len(pids)


@pytest.mark.slow
def test_kills_and_redeploys(installation: Installation, client: httpx2.Client, tmp_path: Path) -> None:
    with (
        deployed(client, pipeline(ENTITY, transforms=[marks("0")], **ONCE)) as deployment,
        reading(deployment.sink) as reader,
    ):
        assert shown(client, deployment) == "exactly_once"
        fed, killer = Feeder(installation, ENTITY), Killer(installation, deployment)
        with in_background(fed):
            with in_background(killer):
                until(lambda: (reader.poll(), killer.killed >= KILLS)[1], what="some kills")
            ok(client.patch(f"{FLOW}/{deployment.id}/transforms/{deployment.uid()}", json=marks("1")))
            until(lambda: reader.poll() != [] and reader.records[-1].json()["mark"] == "1")
            kill(installation.workers_of(deployment))
            at_least_once = pipeline(ENTITY, transforms=[marks("2")])
            ok(client.put(f"{FLOW}/{deployment.id}", json=at_least_once))
            ok(client.post(f"{FLOW}/{deployment.id}/deploy"))
            assert shown(client, deployment) == "at_least_once"
            until(lambda: reader.poll() != [] and reader.records[-1].json()["mark"] == "2")
            ok(client.put(f"{FLOW}/{deployment.id}", json=pipeline(ENTITY, transforms=[marks("3")], **ONCE)))
            ok(client.post(f"{FLOW}/{deployment.id}/deploy"))
            until(lambda: reader.poll() != [] and reader.records[-1].json()["mark"] == "3")
        check_once(reader, fed.count)
        assert printed(deployment.sink["snippets"]["python"], tmp_path, fed.count) == list(range(fed.count))


def printed(program: str, folder: Path, count: int) -> list[Any]:
    """Return what the program in the deploy response prints."""
    path = folder / "read.py"
    path.write_text(program, "utf-8")
    limit = {"HEADWATER_MAX_RECORDS": str(count)}
    done = subprocess.run(
        [sys.executable, path], env=os.environ | limit, capture_output=True, timeout=60, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    return sorted(json.loads(line)["n"] for line in done.stdout.splitlines())


@pytest.mark.parametrize("mode", ["at_most_once", 1])
def test_other_delivery_modes_are_rejected(client: httpx2.Client, mode: object) -> None:
    refused = client.post(FLOW, json=pipeline(ENTITY, delivery=mode))
    assert refused.status_code == 422
    assert [fault["pointer"] for fault in refused.json()["errors"]] == ["/pipeline_config/delivery"]


def test_a_stream_on_another_cluster_than_the_sink_is_rejected(client: httpx2.Client) -> None:
    body = pipeline(ENTITY, **ONCE)
    body["pipeline_config"]["source"]["is_zerolag"] = True
    refused = client.post(FLOW, json=body)
    assert refused.status_code == 422
    faults = {fault["pointer"]: fault["detail"] for fault in refused.json()["errors"]}
    assert "not bound to a topic of the Kafka cluster" in faults["/pipeline_config/delivery"]
