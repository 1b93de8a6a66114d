"""After a restore, deployments of the backup run, and later resources wait for an operator."""

import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from confluent_kafka.admin import AdminClient

from tests.acceptance.installation import Deployed, Installation, deploy, pipeline, reading, without_repeats
from tests.acceptance.test_lossless import numbered
from tests.support.waiting import until

SWEEP_EVERY_S = 30
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}


def topics(installation: Installation) -> set[str]:
    return {
        name for name in AdminClient(installation.admin_config()).list_topics(timeout=20).topics if name[:5] == "flow."
    }


def of(deployment: Deployed) -> set[str]:
    return {deployment.sink["topic"], deployment.deploy_response["dead_letter"]["topic"]}


def swept(installation: Installation, *arguments: str) -> str:
    done = installation.run("sweep", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def values(client: httpx2.Client, deployment: Deployed) -> Any:
    return client.get(deployment.filter_url(), params={"count": 100}).json()["values"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_backup_change_restore_and_start(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "data")
    installation.start()
    file = tmp_path / "backup"
    with installation.client() as client:
        kept = deploy(client, pipeline())
        again = deploy(client, pipeline())  # the deployment is torn down in the backup
        body = pipeline(transforms=[{**FILTER, "set_values": ["0xaa", "0xbb"]}])
        filtering = client.post("/api/v1/flow", json=body).json()
        filtered = Deployed(filtering["id"], filtering, {})
        assert client.post(f"/api/v1/flow/{again.id}/teardown").status_code == 200
        installation.feed("base", "erc20_token_transfer", numbered(500))
        with reading(kept.sink) as reader:
            reader.read(500)

        done = installation.run("backup", str(file))
        assert done.returncode == 0, done.stderr
        assert "The backup was verified" in done.stdout

        assert client.put(filtered.filter_url(), json={"values": ["0xcc"]}).status_code == 200
        fresh = deploy(client, pipeline(name="after the backup"))
        answer = client.post(f"/api/v1/flow/{again.id}/deploy")
        assert answer.status_code == 200, answer.text
        revived = Deployed(again.id, again.configuration, answer.json())
        installation.feed("base", "erc20_token_transfer", numbered(500, 500))
        with reading(fresh.sink) as reader:
            after_backup = reader.read(500)
        with reading(kept.sink) as reader:
            reader.read(1000)
    refused = installation.run("restore", str(file), "--replace")
    assert refused.returncode == 2
    assert "in use by another" in refused.stderr
    before = topics(installation)
    assert of(kept) | of(fresh) | of(revived) <= before
    assert installation.stop() == 0

    assert installation.run("restore", str(file), "--check").returncode == 0
    assert "--replace" in installation.run("restore", str(file)).stderr
    done = installation.run("restore", str(file), "--replace")
    assert done.returncode == 0, done.stderr

    installation.start()
    with installation.client() as client:
        assert {flow["id"] for flow in client.get("/api/v1/flow").json()} == {kept.id, again.id, filtered.id}
        assert sorted(values(client, filtered)) == ["0xaa", "0xbb"]
        installation.feed("base", "erc20_token_transfer", numbered(500, 1000))
        with reading(kept.sink) as reader:  # with the credentials from before the backup
            assert len(without_repeats(reader.read(1500))) == 1500
        until(lambda: "headwater sweep" in installation.log(), what="the report of what is unknown")
        listed = swept(installation)
        unknown = [deployment.sink["username"].removeprefix("dep-") for deployment in (fresh, revived)]
        assert all(each in listed for each in [*unknown, *of(fresh), *of(revived)])
        assert kept.sink["username"] not in listed

        # The sweeper has run: nothing is removed, and consumers continue.
        time.sleep(3 * SWEEP_EVERY_S)
        assert topics(installation) == before
        with reading(fresh.sink) as reader:
            assert len(without_repeats(reader.read(len(after_backup)))) == len(after_backup)

        assert "Removed." in swept(installation, "--confirm", unknown[0])
        assert topics(installation) == before - of(fresh)
        assert "Removed." in swept(installation, "--confirm")
        assert topics(installation) == of(kept)
        assert "holds nothing" in swept(installation)
        answer = client.post(f"/api/v1/flow/{again.id}/deploy")
        assert answer.status_code == 200, answer.text
        assert answer.json()["sinks"][0]["username"] not in listed
        until(lambda: client.get(f"/api/v1/flow/{kept.id}/deploy").json()["status"] == "deployed")
    assert installation.stop() == 0
