"""Requests while the command line writes to the database, and while the API stops."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Installation, in_background, pipeline, reading
from tests.support.processes import suspended
from tests.support.waiting import until

MOST = 50
_ALL = pytest.param(MOST, marks=[pytest.mark.slow, pytest.mark.timeout(300)])


class TestManyAtOnce:
    @pytest.mark.parametrize("parallel", [pytest.param(12, marks=pytest.mark.slow), _ALL])
    @pytest.mark.proves("3/configuration, not deployed: Deploy")
    def test_no_request_fails(self, installation: Installation, parallel: int) -> None:
        commands: list[int] = []

        def busy_command_line(stop: threading.Event) -> None:
            while not stop.wait(0.2):
                commands.append(installation.run("keys", "create", "--owner", "somebody").returncode)

        def one(number: int) -> tuple[list[int], str, dict[str, Any]]:
            filter_ = {"type": "redis_set_filter", "filter_expr": "root = this.n", "set_values": [str(number)]}
            with installation.client() as client:
                created = client.post("/api/v1/flow", json=pipeline(transforms=[filter_], name=f"busy {number}"))
                answer = deployed(client, created.json()["id"])
                return [created.status_code, answer.status_code], created.json()["id"], answer.json()

        with in_background(busy_command_line), ThreadPoolExecutor(parallel) as pool:
            results = list(pool.map(one, range(parallel)))
        assert Counter(status for statuses, _, _ in results for status in statuses) == {201: parallel, 200: parallel}
        assert set(commands) == {0}
        installation.feed("base", "erc20_token_transfer", ({"n": n} for n in range(parallel)))
        for number in (0, parallel // 3, parallel - 1):
            with reading(results[number][2]["sinks"][0]) as reader:
                assert reader.read(1)[0].json() == {"n": number}
        self.clean_up(installation, [config_id for _, config_id, _ in results])

    def clean_up(self, installation: Installation, config_ids: list[str]) -> None:
        def delete(config_id: str) -> httpx2.Response:
            with installation.client() as client:
                return client.delete(f"/api/v1/flow/{config_id}")

        with ThreadPoolExecutor(len(config_ids)) as pool:
            assert {answer.status_code for answer in pool.map(delete, config_ids)} == {200}
        assert installation.workers() == []


def test_a_deploy_whose_api_process_stops_is_sent_again(installation: Installation) -> None:
    with installation.client() as client, installation.client() as other, ThreadPoolExecutor(1) as pool:
        with suspended_controller(installation, client) as config_id:
            path = f"/api/v1/flow/{config_id}"
            waiting = pool.submit(client.post, f"{path}/deploy")
            until(lambda: other.get(f"{path}/deploy").status_code == httpx2.codes.OK)
            for pid in installation.processes("headwater api"):
                os.kill(pid, signal.SIGTERM)
            stopped = waiting.result()
        assert (stopped.status_code, stopped.json()["type"]) == (503, "urn:headwater:problem:api-stopping")
        assert "Send the same request again" in stopped.json()["detail"]
        assert deployed(client, config_id).status_code == 200
        assert client.delete(path).status_code == 200


@contextmanager
def suspended_controller(installation: Installation, client: httpx2.Client) -> Iterator[str]:
    """Suspend the controller, and return the id of a configuration that was created meanwhile.

    A suspended controller may hold the database's write lock. Then it is suspended again, at another moment.
    """
    for _ in range(5):
        with suspended(installation.processes("headwater controller")):
            created = client.post("/api/v1/flow", json=pipeline(name="stopping"))
            if created.status_code == httpx2.codes.CREATED:
                yield created.json()["id"]
                return
    raise AssertionError(created.text)


def deployed(client: httpx2.Client, config_id: str) -> httpx2.Response:
    """Return the response of a deploy. Repeat the request while the deployment is in progress."""
    while (answer := client.post(f"/api/v1/flow/{config_id}/deploy")).status_code == httpx2.codes.SERVICE_UNAVAILABLE:
        time.sleep(int(answer.headers["Retry-After"]))
    return answer
