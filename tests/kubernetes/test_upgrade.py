"""An upgrade of the release replaces all processes, while a pipeline copies its stream."""

import secrets
import threading
import time
from collections import defaultdict

import httpx2
import pytest

from tests.acceptance.conformance.test_memory import check_that_kills_are_reported
from tests.acceptance.installation import TopicRecord, deployed, in_background, pipeline, reading
from tests.kubernetes.cluster.image_builds import HEADWATER
from tests.kubernetes.release import Release
from tests.support.waiting import until

CHAIN, ENTITY = "base", "erc20_token_transfer"
SCRIPT = {"type": "v8", "script": "function process(r) { return {n: r.n, twice: 2 * r.n}; }"}
FEED_EVERY_S, CALL_EVERY_S = 0.05, 0.2
WORKERS = 2
WITHIN_S = 180.0


class Feeder:
    """Feeds a number of records per second."""

    def __init__(self, release: Release, rate: int) -> None:
        self._release = release
        self._rate = rate
        self.count = 0

    def __call__(self, stop: threading.Event) -> None:
        began = time.monotonic()
        while not stop.wait(FEED_EVERY_S):
            due = int((time.monotonic() - began) * self._rate)
            self._release.feed(CHAIN, ENTITY, ({"n": n} for n in range(self.count, due)))
            self.count = due


class ApiChecker:
    """Calls the API again and again, and keeps what went wrong."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self.calls = 0
        self.failures: list[str] = []

    def __call__(self, stop: threading.Event) -> None:
        while not stop.wait(CALL_EVERY_S):
            self.calls += 1
            try:
                with self._release.client() as client:
                    response = client.get("/api/v1/flow")
            except httpx2.TransportError as error:
                self.failures.append(repr(error))
            else:
                self.failures += [response.text] if response.status_code != 200 else []


class Pauses:
    """Measures how long no output of a partition arrives."""

    def __init__(self) -> None:
        self._last: dict[int, float] = {}
        self.longest: dict[int, float] = defaultdict(float)

    def on_outputs(self, records: list[TopicRecord]) -> None:
        """Take note of outputs that have just arrived."""
        now = time.monotonic()
        for partition in {record.partition for record in records}:
            self.longest[partition] = max(self.longest[partition], now - self._last.get(partition, now))
            self._last[partition] = now


def images(release: Release) -> set[str]:
    """Return the images of all Pods of the release and its workers."""
    pods = [pod for name in ("api", "controller", "prices", "worker") for pod in release.pods(name)]
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}


@pytest.fixture
def new_tag(release: Release) -> str:
    """Return a tag of Headwater's image that no Pod has."""
    tag = secrets.token_hex(4)
    for node in release.cluster.nodes.values():
        node.tag(f"{HEADWATER}:1", f"{HEADWATER}:{tag}")
    return tag


@pytest.mark.timeout(900)
@pytest.mark.slow
@pytest.mark.parametrize("rate", [500, 5000])
def test_an_upgrade_replaces_workers_without_a_loss(release: Release, new_tag: str, rate: int) -> None:
    body = pipeline(ENTITY, CHAIN, transforms=[SCRIPT], parallelism=WORKERS)
    with release.client() as client, deployed(client, body) as flow, reading(flow.sink) as reader:
        feeder, checker, pauses = Feeder(release, rate), ApiChecker(release), Pauses()
        upgrade = threading.Thread(target=lambda: release.upgrade({"image": {"tag": new_tag}}))
        with in_background(feeder), in_background(checker):
            reader.read(rate, WITHIN_S)
            upgrade.start()

            def is_upgraded() -> bool:
                pauses.on_outputs(reader.poll())
                return not upgrade.is_alive() and images(release) == {f"{HEADWATER}:{new_tag}"}

            until(is_upgraded, WITHIN_S, "the new image in all Pods")
            seen = len(reader.records)
            while len(reader.records) < seen + rate:
                pauses.on_outputs(reader.poll())
        upgrade.join()
        reader.read(feeder.count, WITHIN_S)
        until(lambda: not reader.poll(1.0), WITHIN_S, "the last outputs")
        print(f"{feeder.count} records at {rate}/s, longest pauses of output:")
        print(
            {partition: round(pause, 2) for partition, pause in sorted(pauses.longest.items())}, checker.calls, "calls"
        )
        assert sorted(record.json()["n"] for record in reader.records) == list(range(feeder.count))
        assert checker.failures == []
    assert release.worker_objects() == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_out_of_memory_kills_are_reported_as_such(release: Release, client: httpx2.Client) -> None:
    release.upgrade({"workers": {"memoryMb": 32}})
    try:
        check_that_kills_are_reported(client)
    finally:
        release.upgrade({})
