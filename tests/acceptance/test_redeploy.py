"""Redeploys lose, skip and repeat nothing, and a failed revision is rolled back."""

import threading
import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from confluent_kafka import Consumer, KafkaException

from tests.acceptance.installation import (
    Deployed,
    Installation,
    Reader,
    client_config,
    deployed,
    in_background,
    kill,
    pipeline,
    reading,
)
from tests.support.waiting import until

FLOW = "/api/v1/flow"
ENTITY = "erc721_token_transfer"
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.kind", "set_values": ["good"]}


def marks(mark: str) -> dict[str, str]:
    return {"type": "v8", "script": f"function process(r) {{ return {{n: r.n, mark: {mark!r}}}; }}"}


def record(n: int) -> dict[str, Any]:
    """Return a record. The keys spread the records over the partitions."""
    return {"n": n, "kind": "good", "transaction_hash": f"0x{n:064x}", "log_index": 0}


def ok(response: httpx2.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()


class Feeder:
    """Feeds records until it is stopped, and counts them."""

    def __init__(self, installation: Installation, entity: str = ENTITY) -> None:
        self._installation = installation
        self._entity = entity
        self.count = 0

    def __call__(self, stop: threading.Event) -> None:
        while not stop.wait(0.05):
            self._installation.feed("base", self._entity, map(record, range(self.count, self.count + 50)))
            self.count += 50


def state(client: httpx2.Client, deployment: Deployed) -> tuple[str, int, int]:
    seen = ok(client.get(f"{FLOW}/{deployment.id}/deploy"))
    return seen["condition"], seen["revision"], seen["desired_revision"]


def numbers(reader: Reader, count: int) -> list[int]:
    return sorted(each.json()["n"] for each in reader.read(count))


def newest(reader: Reader) -> dict[int, str]:
    """Return the mark of the newest record in each partition."""
    return {each.partition: each.json()["mark"] for each in reader.records}


@pytest.mark.long
class TestWithoutAFailure:
    def test_nothing_is_lost_repeated_or_out_of_order(self, installation: Installation, client: httpx2.Client) -> None:
        with (
            deployed(client, pipeline(ENTITY, transforms=[FILTER, marks("0")])) as deployment,
            reading(deployment.sink) as reader,
        ):
            fed = Feeder(installation)
            with in_background(fed):
                reader.read(1)
                for mark in ("1", "2"):
                    ok(client.patch(f"{FLOW}/{deployment.id}/transforms/{deployment.uid(1)}", json=marks(mark)))
                    until(lambda: reader.poll() != [] and reader.records[-1].json()["mark"] == mark)  # noqa: B023
                wider = pipeline(
                    ENTITY,
                    transforms=[{k: v for k, v in FILTER.items() if k != "set_values"}, marks("3")],
                    parallelism=2,
                    sinks=[{"type": "kafka", "name": "out"}, {"type": "kafka", "name": "second"}],
                )
                ok(client.put(f"{FLOW}/{deployment.id}", json=wider))
                answer = ok(client.post(f"{FLOW}/{deployment.id}/deploy"))
                assert answer["workers"] == 2
                assert [sink["name"] for sink in answer["sinks"]] == ["out", "second"]
                assert answer["sinks"][0] == deployment.sink
                until(lambda: reader.poll() != [] and reader.records[-1].json()["mark"] == "3")
            assert numbers(reader, fed.count) == list(range(fed.count))
            assert len(reader.records) == fed.count, "without a failure nothing is repeated"
            for partition in {each.partition for each in reader.records}:
                mine = [each for each in reader.records if each.partition == partition]
                assert [each.source[1] for each in mine] == sorted(each.source[1] for each in mine)
                assert [each.json()["mark"] for each in mine] == sorted(each.json()["mark"] for each in mine)
            with reading(answer["sinks"][1]) as second:
                assert {each.json()["mark"] for each in second.read(1)} == {"3"}

    @pytest.mark.slow
    def test_fewer_workers_read_all_partitions(self, installation: Installation, client: httpx2.Client) -> None:
        both = pipeline(ENTITY, transforms=[marks("0")], parallelism=2)
        with deployed(client, both) as deployment, reading(deployment.sink) as reader:
            fed = Feeder(installation)
            with in_background(fed):
                reader.read(1)
                ok(client.put(f"{FLOW}/{deployment.id}", json=pipeline(ENTITY, transforms=[marks("1")])))
                ok(client.post(f"{FLOW}/{deployment.id}/deploy"))
                until(lambda: reader.poll() is not None and set(newest(reader).values()) == {"1"})
            assert numbers(reader, fed.count) == list(range(fed.count))
            assert len(reader.records) == fed.count, "without a failure nothing is repeated"

    def test_deploying_the_same_revision_again_changes_nothing(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        with deployed(client, pipeline(ENTITY, transforms=[marks("0")])) as deployment:
            before = installation.workers_of(deployment)
            again = ok(client.post(f"{FLOW}/{deployment.id}/deploy"))
            assert again["sinks"] == deployment.deploy_response["sinks"]
            assert installation.workers_of(deployment) == before


class WorkerKiller:
    """Kills each new worker of a deployment some time after it appears."""

    def __init__(self, installation: Installation, deployment: Deployed, after_s: float) -> None:
        self._find: Callable[[], list[int]] = lambda: installation.workers_of(deployment)
        self._spared = set(self._find())
        self._after_s = after_s
        self.killed = 0

    def __call__(self, stop: threading.Event) -> None:
        seen: dict[int, float] = {}
        while not stop.wait(0.02):
            now = time.monotonic()
            for pid in set(self._find()) - self._spared:
                if now - seen.setdefault(pid, now) >= self._after_s:
                    kill([pid])
                    self._spared.add(pid)
                    self.killed += 1


class TestRollback:
    def test_old_workers_keep_running_if_new_ones_never_become_ready(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        with (
            deployed(client, pipeline(ENTITY, transforms=[marks("0")])) as deployment,
            reading(deployment.sink) as reader,
        ):
            before = installation.workers_of(deployment)
            fed = Feeder(installation)
            with in_background(fed):
                with in_background(WorkerKiller(installation, deployment, after_s=0)):
                    answer = client.patch(f"{FLOW}/{deployment.id}/transforms/{deployment.uid()}", json=marks("1"))
                assert answer.status_code == 422, answer.text
                assert "SIGKILL" in answer.json()["detail"]
                assert "Revision 2 is saved" in answer.json()["detail"]
            until(lambda: installation.workers_of(deployment) == before, what="the end of the new workers")
            assert state(client, deployment) == ("RolledBack", 1, 2)
            assert numbers(reader, fed.count) == list(range(fed.count))
            assert len(reader.records) == fed.count
            assert {each.json()["mark"] for each in reader.records} == {"0"}

    @pytest.mark.slow
    @pytest.mark.timeout(240)
    def test_a_revision_whose_workers_die_soon_is_rolled_back(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        body = pipeline(ENTITY, transforms=[FILTER, marks("0")])
        with deployed(client, body) as deployment, reading(deployment.sink) as reader:
            fed, assassin = Feeder(installation), WorkerKiller(installation, deployment, after_s=5)
            with in_background(fed), in_background(assassin):
                ok(client.put(f"{FLOW}/{deployment.id}/transforms", json=[marks("1") | {"uid": deployment.uid(1)}]))
                assert state(client, deployment)[:2] == ("RollingOut", 2)
                until(lambda: state(client, deployment)[0] == "RolledBack", 120)
                killed = assassin.killed
            until(lambda: state(client, deployment)[1] == 1)
            assert killed >= 2, "one death is not enough"
            assert "within 30 s of being ready" in ok(client.get(f"{FLOW}/{deployment.id}/deploy"))["reason"]
            assert numbers(reader, fed.count) == list(range(fed.count)), "nothing is lost"
            check = ok(client.get(f"{deployment.filter_url()}/check", params={"value": "good"}))
            assert check["is_member"], "the values of a filter that the failed revision removed"
            again = ok(client.post(f"{FLOW}/{deployment.id}/deploy"))
            assert (again["revision"], again["condition"]) == (2, "RollingOut")
            installation.feed("base", ENTITY, [record(fed.count)])
            assert reader.read(fed.count + 1)[-1].json() == {"n": fed.count, "mark": "1"}


class TestCredentials:
    @pytest.mark.long
    def test_rotation(self, installation: Installation, client: httpx2.Client) -> None:
        with (
            deployed(client, pipeline(ENTITY, transforms=[marks("0")])) as deployment,
            reading(deployment.sink) as reader,
        ):
            installation.feed("base", ENTITY, [record(0)])
            reader.read(1)
            rotated = ok(client.post(f"{FLOW}/{deployment.id}/deploy/credentials"))["sinks"][0]
            assert rotated["password"] != deployment.sink["password"]
            assert {**rotated, "password": "", "snippets": ""} == {**deployment.sink, "password": "", "snippets": ""}
            assert rotated["password"] in rotated["snippets"]["python"]
            assert ok(client.post(f"{FLOW}/{deployment.id}/deploy"))["sinks"] == [rotated]
            with pytest.raises(KafkaException):
                Consumer(client_config(deployment.sink)).list_topics(deployment.sink["topic"], timeout=3)
            installation.feed("base", ENTITY, [record(1)])
            with reading(rotated) as new:
                assert numbers(new, 2) == [0, 1]
            assert numbers(reader, 2) == [0, 1], "a connection that is open stays"


class TestLogs:
    @pytest.mark.long
    def test_lines_of_scripts_and_workers(self, installation: Installation, client: httpx2.Client) -> None:
        script = "function process(r) { console.log('saw', r.n); return r; }"
        with deployed(client, pipeline(ENTITY, transforms=[{"type": "v8", "script": script}])) as deployment:
            url = f"{FLOW}/{deployment.id}/deploy/logs"

            def lines() -> list[tuple[str, str]]:
                return [(line["source"], line["message"]) for line in ok(client.get(url))["lines"]]

            installation.feed("base", ENTITY, [record(7)])
            until(lambda: ("script", "saw 7") in lines())
            kill(installation.workers_of(deployment))
            until(lambda: any(source == "worker" and "SIGKILL" in message for source, message in lines()))
            newest = ok(client.get(url, params={"limit": 1}))["lines"]
            assert len(newest) == 1
            times = [line["time"] for line in ok(client.get(url))["lines"]]
            assert times == sorted(times, reverse=True)
