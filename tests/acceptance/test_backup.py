"""Restore a backup: deployments from before it run, and resources that were created after it wait for an operator."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from tests.acceptance.stack import Deployed, Stack, deploy, pipeline, reading, unrepeated, until
from tests.acceptance.test_lossless import numbered

SWEEP_EVERY_S = 30
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}


def topics(stack: Stack) -> set[str]:
    return {name for name in AdminClient(stack.admin_config()).list_topics(timeout=20).topics if name[:5] == "flow."}


def of(made: Deployed) -> set[str]:
    return {made.sink["topic"], made.answer["dead_letter"]["topic"]}


def swept(stack: Stack, *arguments: str) -> str:
    done = stack.run("sweep", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def values(client: httpx.Client, made: Deployed) -> Any:
    return client.get(made.filter_url(), params={"count": 100}).json()["values"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_backup_change_restore_and_start(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "data")
    stack.start()
    file = tmp_path / "backup"
    with stack.client() as client:
        kept = deploy(client, pipeline())
        again = deploy(client, pipeline())  # the deployment is torn down in the backup
        body = pipeline(transforms=[{**FILTER, "set_values": ["0xaa", "0xbb"]}])
        filtering = client.post("/api/v1/flow", json=body).json()
        filtered = Deployed(filtering["id"], filtering, {})
        assert client.post(f"/api/v1/flow/{again.id}/teardown").status_code == 200
        stack.feed("base", "erc20_token_transfer", numbered(500))
        with reading(kept.sink) as reader:
            reader.read(500)

        done = stack.run("backup", str(file))
        assert done.returncode == 0, done.stderr
        assert "The backup was verified" in done.stdout

        assert client.put(filtered.filter_url(), json={"values": ["0xcc"]}).status_code == 200
        fresh = deploy(client, pipeline(name="after the backup"))
        answer = client.post(f"/api/v1/flow/{again.id}/deploy")
        assert answer.status_code == 200, answer.text
        revived = Deployed(again.id, again.flow, answer.json())
        stack.feed("base", "erc20_token_transfer", numbered(500, 500))
        with reading(fresh.sink) as reader:
            after_backup = reader.read(500)
        with reading(kept.sink) as reader:
            reader.read(1000)
    refused = stack.run("restore", str(file), "--replace")
    assert refused.returncode == 2
    assert "in use by another" in refused.stderr
    before = topics(stack)
    assert of(kept) | of(fresh) | of(revived) <= before
    assert stack.stop() == 0

    assert stack.run("restore", str(file), "--check").returncode == 0
    assert "--replace" in stack.run("restore", str(file)).stderr
    done = stack.run("restore", str(file), "--replace")
    assert done.returncode == 0, done.stderr

    stack.start()
    with stack.client() as client:
        assert {flow["id"] for flow in client.get("/api/v1/flow").json()} == {kept.id, again.id, filtered.id}
        assert sorted(values(client, filtered)) == ["0xaa", "0xbb"]
        stack.feed("base", "erc20_token_transfer", numbered(500, 1000))
        with reading(kept.sink) as reader:  # with the credentials from before the backup
            assert len(unrepeated(reader.read(1500))) == 1500
        until(lambda: "headwater sweep" in stack.log(), what="the report of what is unknown")
        listed = swept(stack)
        unknown = [made.sink["username"].removeprefix("dep-") for made in (fresh, revived)]
        assert all(each in listed for each in [*unknown, *of(fresh), *of(revived)])
        assert kept.sink["username"] not in listed

        # The sweeper has run: nothing is removed, and consumers continue.
        time.sleep(3 * SWEEP_EVERY_S)
        assert topics(stack) == before
        with reading(fresh.sink) as reader:
            assert len(unrepeated(reader.read(len(after_backup)))) == len(after_backup)

        assert "Removed." in swept(stack, "--confirm", unknown[0])
        assert topics(stack) == before - of(fresh)
        assert "Removed." in swept(stack, "--confirm")
        assert topics(stack) == of(kept)
        assert "holds nothing" in swept(stack)
        answer = client.post(f"/api/v1/flow/{again.id}/deploy")
        assert answer.status_code == 200, answer.text
        assert answer.json()["sinks"][0]["username"] not in listed
        until(lambda: client.get(f"/api/v1/flow/{kept.id}/deploy").json()["status"] == "deployed")
    assert stack.stop() == 0
