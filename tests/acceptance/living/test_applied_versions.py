"""A record that is sent after a version counts as applied is tested against this version.

The pipelines are redeployed all the time.
"""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Deployed, Installation, deployed, in_background, pipeline, reading
from tests.support.waiting import until

WAIT_S = 30
SLOW = [pytest.mark.slow, pytest.mark.timeout(1800)]
SIZES = [pytest.param(2, 5, id="few"), pytest.param(20, 50, id="many", marks=SLOW)]
"""How many threads change the set, and how many values each of them adds."""

Write = Callable[[str], int]
"""Adds a value, and returns the version after the write."""


def transfer(value: str) -> dict[str, Any]:
    return {"token_address": value, "from_address": value, "transaction_hash": value, "log_index": 0}


class Scene:
    """A pipeline that is redeployed all the time, and threads that add values to its set.

    Args:
        applied: The path of the set's `applied`.
        write: Adds a value.
    """

    def __init__(self, installation: Installation, deployment: Deployed, applied: str, write: Write) -> None:
        self._installation = installation
        self._deployment = deployment
        self._applied = applied
        self._write = write
        self.redeploys = 0

    def redeploy(self, stop: threading.Event) -> None:
        """Change the last transform, a script, until `stop` is set."""
        uid = self._deployment.uid(-1)
        script = self._deployment.configuration["pipeline_config"]["transforms"][-1]["script"]
        with self._installation.client() as client:
            while not stop.wait(0.5):
                body = {"type": "v8", "script": f"{script} // {self.redeploys}"}
                response = client.patch(f"/api/v1/flow/{self._deployment.id}/transforms/{uid}", json=body)
                assert response.status_code == 200, response.text
                self.redeploys += 1

    def add_values(self, group: int, count: int) -> list[str]:
        """Add values one by one. Send a record of each value as soon as the write is applied."""
        values = [f"0x{group:020x}{number:020x}" for number in range(count)]
        with self._installation.client() as client:
            for value in values:
                version = self._write(value)
                while True:
                    query = {"version": version, "wait": WAIT_S}
                    response = client.get(self._applied, params=query)
                    assert response.status_code == 200, response.text
                    body = response.json()
                    assert body["version"] == version
                    if body["applied"]:
                        break
                assert all(worker["version"] >= version for worker in body["workers"])
                self._installation.feed("base", "erc20_token_transfer", [transfer(value)])
        return values

    def run(self, groups: int, count: int) -> None:
        """Add values in parallel during redeploys. The record of every value must pass."""
        self._installation.feed("base", "erc20_token_transfer", [])  # create the producer before it is shared
        with reading(self._deployment.sink) as reader:
            with in_background(self.redeploy), ThreadPoolExecutor(groups) as pool:
                added = [pool.submit(self.add_values, group, count) for group in range(groups)]
                values = list(itertools.chain.from_iterable(future.result() for future in added))
                until(lambda: self.redeploys, what="a redeploy")
            records = reader.read(len(values), within_s=120)
        assert sorted(record.json()["token_address"] for record in records) == sorted(values)


@pytest.mark.parametrize(("groups", "count"), SIZES)
@pytest.mark.proves("11/GET /{config_id}/transforms/{transform_uid}/filter-values/applied")
def test_values_of_a_filter(installation: Installation, client: httpx2.Client, groups: int, count: int) -> None:
    filter_ = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}
    script = {"type": "v8", "script": "function process(record) { return record; }"}
    with deployed(client, pipeline(transforms=[filter_, script], parallelism=2)) as deployment:

        def write(value: str) -> int:
            with installation.client() as writer:
                return int(writer.post(deployment.filter_url(), json={"values": [value]}).json()["version"])

        Scene(installation, deployment, f"{deployment.filter_url()}/applied", write).run(groups, count)
        workers = client.get(f"{deployment.filter_url()}/applied", params={"wait": WAIT_S}).json()["workers"]
        assert len(workers) == 2


@pytest.mark.parametrize(("groups", "count"), SIZES)
@pytest.mark.proves("11/GET /datasets/{dataset_id}/entries/applied")
def test_entries_of_a_dataset(installation: Installation, client: httpx2.Client, groups: int, count: int) -> None:
    name = f"applied {groups}"
    created = client.post("/api/v1/flow/datasets", json={"name": name})
    assert created.status_code == 201, created.text
    path = f"/api/v1/flow/datasets/{created.json()['id']}/entries"
    script = f"function process(record) {{ return flow.contains({name!r}, [record.from_address]) ? record : null; }}"
    with deployed(client, pipeline(transforms=[{"type": "v8", "script": script}], parallelism=2)) as deployment:

        def write(value: str) -> int:
            with installation.client() as writer:
                return int(writer.post(path, json={"values": [value]}).json()["version"])

        Scene(installation, deployment, f"{path}/applied", write).run(groups, count)
    assert client.get(f"{path}/applied", params={"version": groups * count}).json()["applied"]
    assert client.delete(f"/api/v1/flow/datasets/{created.json()['id']}").status_code == 204


@pytest.mark.proves("11/GET /datasets/{dataset_id}/entries/applied")
def test_a_worker_that_has_looked_a_dataset_up_is_named(installation: Installation, client: httpx2.Client) -> None:
    created = client.post("/api/v1/flow/datasets", json={"name": "named"}).json()
    path = f"/api/v1/flow/datasets/{created['id']}/entries"
    version = client.post(path, json={"values": ["0xa"]}).json()["version"]
    assert client.get(f"{path}/applied").json() == {"version": version, "applied": True, "workers": []}
    script = "function process(record) { return flow.contains('named', [record.from_address]) ? record : null; }"
    with (
        deployed(client, pipeline(transforms=[{"type": "v8", "script": script}])) as deployment,
        reading(deployment.sink) as reader,
    ):
        installation.feed("base", "erc20_token_transfer", [transfer("0xa")])
        reader.read(1)
        version = client.post(path, json={"values": ["0xb"]}).json()["version"]

        def is_reported() -> bool:
            body = client.get(f"{path}/applied", params={"version": version, "wait": WAIT_S}).json()
            assert body["applied"]
            return [worker["name"].rpartition("-")[2] for worker in body["workers"]] == ["0"]

        until(is_reported, what="a report of the worker")
    assert client.delete(f"/api/v1/flow/datasets/{created['id']}").status_code == 204


@pytest.mark.proves("11/a-configuration-that-is-not-deployed")
def test_a_configuration_that_is_not_deployed(client: httpx2.Client) -> None:
    filter_ = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}
    flow = client.post("/api/v1/flow", json=pipeline(transforms=[filter_])).json()
    uid = flow["pipeline_config"]["transforms"][0]["uid"]
    response = client.get(f"/api/v1/flow/{flow['id']}/transforms/{uid}/filter-values/applied")
    assert response.status_code == 404, response.text
    assert client.delete(f"/api/v1/flow/{flow['id']}").status_code == 200
