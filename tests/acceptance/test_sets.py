"""Filter values over HTTP.

There are large PUTs, interrupted uploads, and listings during changes and crashes.
"""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Installation, kill, pipeline
from tests.support.waiting import until

FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}
READERS = 4


def addresses(first: int, last: int) -> list[str]:
    return [f"0x{number:040x}" for number in range(first, last)]


@contextmanager
def filter_values(client: httpx2.Client) -> Iterator[str]:
    """Return the path of the values of an empty filter."""
    flow = client.post("/api/v1/flow", json=pipeline(transforms=[FILTER])).json()
    uid = flow["pipeline_config"]["transforms"][0]["uid"]
    yield f"/api/v1/flow/{flow['id']}/transforms/{uid}/filter-values"
    assert client.delete(f"/api/v1/flow/{flow['id']}").status_code == 200


def put(client: httpx2.Client, path: str, values: list[str]) -> dict[str, int]:
    answer = client.put(path, json={"values": values}, timeout=600)
    assert answer.status_code == 200, answer.text
    body: dict[str, int] = answer.json()
    return body


class TestReplace:
    @pytest.mark.parametrize(
        "count", [30_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
    )
    def test_no_reader_sees_old_and_new_together(
        self, installation: Installation, client: httpx2.Client, count: int
    ) -> None:
        """If an old value is gone, the new one exists, and vice versa.

        So each reader looks up both values, in either order, during a PUT.
        """
        old, new = addresses(0, count), addresses(count, 2 * count)
        wrong: list[Any] = []
        finished: list[bool] = []
        with filter_values(client) as path:
            for present, coming in ((old, new), (new, old), (old, new)):
                put(client, path, present)
                stop = threading.Event()
                readers = [
                    threading.Thread(target=watch, args=(installation, path, present, coming, stop, wrong, finished))
                    for _ in range(READERS)
                ]
                for reader in readers:
                    reader.start()
                assert put(client, path, coming)["count"] == count
                stop.set()
                for reader in readers:
                    reader.join()
        assert wrong == []
        assert finished == [True] * (3 * READERS)

    def test_the_put_that_ends_last_replaces_all_values(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        ours, theirs = addresses(0, 20_000), addresses(20_000, 40_000)

        def slowly() -> Iterator[bytes]:
            yield b'{"values": ["' + b'","'.join(value.encode() for value in ours[:-1]) + b'",'
            assert put(client, path, theirs)["count"] == len(theirs)
            yield b'"' + ours[-1].encode() + b'"]}'

        with filter_values(client) as path, installation.client() as other:
            answer = other.put(path, content=slowly(), headers={"Content-Type": "application/json"})
            assert answer.json()["count"] == len(ours)
            assert sorted(listing(client, path, 10_000)) == ours

    def test_an_interrupted_put_changes_nothing(self, installation: Installation, client: httpx2.Client) -> None:
        with filter_values(client) as path:
            put(client, path, ["a"])
            before = client.get(f"{path}/count").json()
            for method in ("PUT", "POST"):
                with socket.create_connection(("127.0.0.1", installation.port)) as connection:
                    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {installation.key}\r\n"
                    head += "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
                    connection.sendall(head.encode() + b'{"values": ["b", "c", "' + b'd", "' * 50_000)
                bad = client.request(method, path, json={"values": [*addresses(0, 50_000), " "]})
                assert bad.status_code == 422
                assert bad.json()["errors"][0]["pointer"] == "/values/50000"
            assert client.get(f"{path}/count").json() == before
            assert client.get(path).json()["values"] == ["a"]
            assert put(client, path, []) == {"count": 0, "version": before["version"] + 1}


def watch(
    installation: Installation,
    path: str,
    present: list[str],
    coming: list[str],
    stop: threading.Event,
    wrong: list[Any],
    finished: list[bool],
) -> None:
    """Look up old and new values until the new ones exist."""
    rng = random.Random()
    with installation.client() as client:

        def is_member(value: str) -> bool:
            return bool(client.get(f"{path}/check", params={"value": value}).json()["is_member"])

        seen_new = False
        while not seen_new or not stop.is_set():
            answered = stop.is_set()
            one, other = rng.choice(present), rng.choice(coming)
            if not is_member(one) and not is_member(other):
                wrong.append(("neither", one, other))
            seen_new = is_member(other)
            if seen_new and is_member(one):
                wrong.append(("both", one, other))
            if answered and not seen_new:
                wrong.append(("not seen after the answer", one, other))
                break
        finished.append(True)


def page(client: httpx2.Client, path: str, cursor: int | None, count: int) -> dict[str, Any]:
    """Return one page. Repeat the request while the store is unavailable, as a user would."""
    parameters = {"count": count} | ({} if cursor is None else {"cursor": cursor})
    answers: list[httpx2.Response] = []

    def answered() -> bool:
        answers.append(client.get(path, params=parameters))
        assert answers[-1].status_code in (200, 503), answers[-1].text
        return answers[-1].status_code == 200

    until(answered, what="a page")
    found: dict[str, Any] = answers[-1].json()
    return found


def listing(client: httpx2.Client, path: str, count: int) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        one = page(client, path, cursor, count)
        found += one["values"]
        cursor = one["cursor"]
        if cursor is None:
            return found


class TestListing:
    @pytest.mark.parametrize(
        ("stable_count", "count"),
        [
            pytest.param(3_000, 777, marks=pytest.mark.long),
            pytest.param(200_000, 10_000, marks=pytest.mark.slow),
            pytest.param(200_000, 777, marks=pytest.mark.slow),
        ],
    )
    def test_each_unchanged_value_is_listed_once_despite_changes_and_crashes(
        self, own_installation: Installation, stable_count: int, count: int
    ) -> None:
        own_installation.start()
        stable, others = addresses(0, stable_count), addresses(10**6, 10**6 + 2_000)
        rng = random.Random(count)
        pages = stable_count // count
        with own_installation.client() as client, filter_values(client) as path:
            put(client, path, stable + others[:1_000])
            found: list[str] = []
            cursor = None
            for number in range(2 * pages + 10):
                one = page(client, path, cursor, count)
                assert len(one["values"]) == count or one["cursor"] is None
                found += one["values"]
                cursor = one["cursor"]
                if cursor is None:
                    break
                for method in ("POST", "DELETE"):
                    body = {"values": rng.sample(others, 20)}
                    until(lambda m=method, b=body: client.request(m, path, json=b).status_code == 200, what=method)  # type: ignore[misc]  # defaults bind the loop's variables
                if number in (pages // 3, 2 * pages // 3):
                    kill(own_installation.processes("valkey-server"))
            assert cursor is None
            assert sorted(value for value in found if value <= stable[-1]) == stable
        assert own_installation.stop() == 0
