"""Section 8: limits."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.acceptance.conformance.owner import FLOW, Owner, faults, filter_path, json
from tests.acceptance.installation import Installation

CHUNK = 250_000
PARALLEL = 5


def chunk(number: int, size: int = CHUNK) -> bytes:
    """Return the request body with the values of one chunk."""
    first = number * CHUNK
    return b'{"values": [%s]}' % b",".join(b'"0x%040x"' % value for value in range(first, first + size))


def upload(http: httpx2.Client, path: str, content: bytes, method: str = "POST") -> httpx2.Response:
    return http.request(method, path, content=content, headers={"Content-Type": "application/json"}, timeout=120)


class TestPages:
    @pytest.mark.proves("8/Page size count", "4.3/GET")
    def test_count(self, alice: Owner) -> None:
        path = filter_path(alice.create())
        json(upload(alice.http, path, chunk(0, 10_001)))
        for count in (1, 10_000):
            page = json(alice.http.get(path, params={"count": count}))
            assert len(page["values"]) == count
            assert page["cursor"] is not None
        assert len(json(alice.http.get(path))["values"]) == 100
        for wrong in ("0", "10001", "-1", "x", "1.5", ""):
            assert set(faults(alice.http.get(path, params={"count": wrong}))) == {"/count"}

    @pytest.mark.proves("4.3/GET")
    def test_cursor(self, alice: Owner) -> None:
        path = filter_path(alice.create())
        for cursor in ("-1", "x", "1.5", str(2**53)):
            assert set(faults(alice.http.get(path, params={"cursor": cursor}))) == {"/cursor"}


class TestUploads:
    @pytest.mark.proves(
        "8/Values per request",
        "4.4/each-request-takes-at-most-250",
        "8/Concurrent upload requests",
        "8/larger-datasets-are-split-into-chunks",
    )
    @pytest.mark.slow
    def test_five_concurrent_chunks(self, installation: Installation, alice: Owner) -> None:
        dataset = alice.dataset()
        path = f"{FLOW}/datasets/{dataset['id']}/entries"
        by_name, name = f"{FLOW}/datasets/entries", dataset["name"].encode()

        def send(number: int) -> int:
            with installation.client(alice.key) as http:
                if number % 2:
                    body = chunk(number).replace(b"{", b'{"name": "%s", ' % name, 1)
                    return int(json(upload(http, by_name, body))["count"])
                return int(json(upload(http, path, chunk(number)))["count"])

        with ThreadPoolExecutor(PARALLEL) as pool:
            assert list(pool.map(send, range(PARALLEL))) == [CHUNK] * PARALLEL
        assert json(alice.http.get(path, params={"limit": 1}))["total_count"] == PARALLEL * CHUNK
        assert json(alice.http.get(f"{path}/check", params={"value": f"0x{CHUNK * PARALLEL - 1:040X}"})) == {
            "exists": True
        }

    @pytest.mark.proves("8/Values per request", "4.4/each-request-takes-at-most-250")
    def test_a_request_with_too_many_values_is_rejected_and_changes_nothing(self, alice: Owner) -> None:
        dataset = alice.dataset("kept")
        path = f"{FLOW}/datasets/{dataset['id']}/entries"
        too_many = chunk(0, CHUNK + 1)
        named = too_many.replace(b"{", b'{"name": "%s", ' % dataset["name"].encode(), 1)
        for target, body in ((path, too_many), (f"{FLOW}/datasets/entries", named)):
            assert set(faults(upload(alice.http, target, body))) == {"/values"}
        assert json(alice.http.get(path))["values"] == ["kept"]

    @pytest.mark.proves("8/Values per filter")
    @pytest.mark.slow
    def test_a_filter_of_a_million_values_in_one_body(self, alice: Owner) -> None:
        path = filter_path(alice.create())
        self.fill(alice, path, 1_000_000)

    @pytest.mark.slow
    @pytest.mark.timeout(1800)
    @pytest.mark.proves("8/Values per filter")
    def test_a_filter_of_ten_million_values_in_one_body(self, alice: Owner) -> None:
        path = filter_path(alice.create())
        self.fill(alice, path, 10_000_000)

    def fill(self, alice: Owner, path: str, count: int) -> None:
        headers = {"Content-Type": "application/json"}
        answer = alice.http.put(path, content=body(count), headers=headers, timeout=1200)
        assert json(answer)["count"] == count
        assert json(alice.http.get(f"{path}/count"))["count"] == count
        for number in (0, count // 2, count - 1, count):
            found = json(alice.http.get(f"{path}/check", params={"value": f"0x{number:040x}"}))
            assert found["is_member"] is (number < count)


def body(count: int) -> Iterator[bytes]:
    """Generate a body with `count` values while it is sent."""
    yield b'{"values": ['
    for first in range(0, count, 10_000):
        values = (b'"0x%040x"' % number for number in range(first, min(first + 10_000, count)))
        yield (b"," if first else b"") + b",".join(values)
    yield b"]}"
