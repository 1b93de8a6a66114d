"""Concurrent deploys and teardowns leave nothing behind although the controller is killed."""

import itertools
import random
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.acceptance.installation import Installation, in_background, kill, pipeline
from tests.support.waiting import until

FLOW = "/api/v1/flow"
SIDE_BY_SIDE = 8


def send(client: httpx2.Client, method: str, path: str, **options: Any) -> httpx2.Response:
    """Send a request, and repeat it while the response says that the operation is in progress."""
    while True:
        answer = client.request(method, path, **options)
        if answer.status_code != 503:
            return answer
        time.sleep(float(answer.headers["retry-after"]))


def left_on_the_broker(installation: Installation) -> dict[str, list[str]]:
    admin = AdminClient(installation.admin_config() | {"log_level": 0})
    anything: Any = None  # the type annotations lack that None is a wildcard
    everything = AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        anything,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    users: Any = admin.describe_user_scram_credentials()
    found = {
        "topics": list(admin.list_topics(timeout=10).topics),
        "users": list(users.result()),
        "rules": [rule.principal for rule in admin.describe_acls(everything).result()],
        "groups": [group.group_id for group in admin.list_consumer_groups().result().valid],
    }
    ours = ("flow.", "dep-", "wrk-", "User:dep-", "User:wrk-")
    return {kind: [name for name in names if name.startswith(ours)] for kind, names in found.items()}


def rounds(installation: Installation, count: int, kill_every_s: tuple[float, float]) -> list[float]:
    """Return the seconds of each round, in the order of their start."""
    rng, numbers = random.Random(7), itertools.count()
    took: dict[int, float] = {}
    kills = 0

    def disturb(stop: threading.Event) -> None:
        nonlocal kills
        while not stop.wait(rng.uniform(*kill_every_s)):
            kill(installation.processes("headwater controller"))
            kills += 1

    def work(_: int) -> None:
        with installation.client() as client:
            config_id = client.post(FLOW, json=pipeline(name="round")).json()["id"]
            while (number := next(numbers)) < count:
                began = time.monotonic()
                for call in ("deploy", "teardown"):
                    answer = send(client, "POST", f"{FLOW}/{config_id}/{call}")
                    assert answer.status_code == 200, answer.text
                took[number] = time.monotonic() - began
            assert send(client, "DELETE", f"{FLOW}/{config_id}").status_code == 200

    with in_background(disturb), ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(work, range(SIDE_BY_SIDE)))
    assert kills > 0
    print(f"{count} rounds, {kills} kills of the controller")
    return [took[number] for number in range(count)]


def nothing_is_left(installation: Installation) -> None:
    until(lambda: not any(left_on_the_broker(installation).values()), 120, "an empty broker")
    assert installation.workers() == []
    assert installation.sandboxes() == []


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_a_thousand_rounds(own_installation: Installation) -> None:
    own_installation.start()
    began = time.monotonic()
    took = rounds(own_installation, 1000, (20, 60))
    first, last = statistics.median(took[:100]), statistics.median(took[-100:])
    print(f"{time.monotonic() - began:.0f} s in all; a round takes {first:.2f} s (first 100), {last:.2f} s (last 100)")
    nothing_is_left(own_installation)
