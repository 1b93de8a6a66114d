"""Rate limits of API keys."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

from headwater.api.rate_limits import rate_headers
from headwater.services.rate_limits import RateDecision, RateLimits
from headwater.stores.redis.client import connect
from headwater.stores.redis.token_buckets import RedisTokenBuckets
from tests.support.memory.token_buckets import MemoryBuckets
from tests.unit.api.installation import FLOW, Installation, Unread, User, flow_body

BURST = 3


@pytest.fixture
def limited(portal: BlockingPortal) -> Iterator[Installation]:
    """A limit of one request in two seconds, with bursts of three."""
    headwater = Installation(portal)
    with headwater.serving(rate_limits=RateLimits(MemoryBuckets(headwater.clock.monotonic), 0.5, BURST)):
        yield headwater


@pytest.fixture
def storeless(portal: BlockingPortal, tmp_path: Path) -> Iterator[Installation]:
    """A limit whose Valkey is unavailable."""
    with closing(connect(f"unix://{tmp_path}/none.sock")) as client:
        headwater = Installation(portal)
        with headwater.serving(rate_limits=RateLimits(RedisTokenBuckets(client), 1.0, BURST)):
            yield headwater


class TestLimited:
    def test_429_has_retry_after(self, limited: Installation) -> None:
        alice = limited.user("alice")
        for left in (2, 1, 0):
            response = alice.get(FLOW)
            assert response.status_code == 200
            assert response.headers["ratelimit-policy"] == '"key";q=3;w=6'
            assert response.headers["ratelimit"].startswith(f'"key";r={left};')
        refused = alice.get(FLOW)
        assert "after 2 s" in alice.problem(refused, 429, "rate-limited")["detail"]
        assert (refused.headers["retry-after"], refused.headers["ratelimit"]) == ("2", '"key";r=0;t=6')
        limited.clock.forward(2)
        assert alice.get(FLOW).status_code == 200
        assert alice.get(FLOW).status_code == 429

    def test_head_has_the_headers_too(self, limited: Installation) -> None:
        alice = limited.user("alice")
        for left in (2, 1, 0):
            assert alice.request("HEAD", FLOW).headers["ratelimit"].startswith(f'"key";r={left};')
        refused = alice.request("HEAD", FLOW)
        assert (refused.status_code, refused.headers["ratelimit"]) == (429, '"key";r=0;t=6')

    def test_each_key_has_its_own(self, limited: Installation) -> None:
        first, second = (limited.user("alice") for _ in range(2))
        for _ in range(BURST):
            first.get(FLOW)
        assert first.get(FLOW).status_code == 429
        assert second.get(FLOW).status_code == 200

    def test_after_key_and_scope_and_before_all_else(self, limited: Installation) -> None:
        reader = limited.user("alice", ("flow:read",))
        assert [reader.post(FLOW, {}).status_code for _ in range(BURST + 1)] == [403] * (BURST + 1)
        assert [limited.nobody().get(FLOW).status_code for _ in range(BURST + 1)] == [401] * (BURST + 1)
        for _ in range(BURST):
            assert reader.get(f"{FLOW}/unknown").status_code == 404
        assert reader.get(f"{FLOW}/unknown").status_code == 429
        alice = limited.user("alice")
        for _ in range(BURST):
            alice.get(FLOW)
        assert alice.request("POST", FLOW, content=Unread()).status_code == 429

    def test_429_is_not_remembered(self, limited: Installation) -> None:
        alice = limited.user("alice")
        for _ in range(BURST):
            alice.get(FLOW)
        headers = {"Idempotency-Key": "k-1"}
        assert alice.post(FLOW, flow_body(), headers=headers).status_code == 429
        limited.clock.forward(2)
        assert alice.post(FLOW, flow_body(), headers=headers).status_code == 201

    def test_uploads_have_their_own_bucket(self, limited: Installation) -> None:
        alice = limited.user("alice")
        dataset = alice.post(f"{FLOW}/datasets", {"name": "a"}).json()["id"]
        path = f"{FLOW}/datasets/{dataset}/entries"
        for _ in range(BURST):
            alice.get(FLOW)
        assert [alice.post(path, {"values": ["a"]}).status_code for _ in range(6)] == [200] * 5 + [429]

    def test_health_needs_no_key_and_has_no_limit(self, limited: Installation) -> None:
        assert {limited.nobody().get("/healthz").status_code for _ in range(10)} == {200}


class TestOff:
    def test_by_default(self, headwater: Installation, alice: User) -> None:
        responses = [alice.get(FLOW) for _ in range(50)]
        assert {response.status_code for response in responses} == {200}
        assert "ratelimit" not in responses[0].headers


class TestStoreAway:
    def test_open_for_reads_closed_for_deploys_and_counted(self, storeless: Installation) -> None:
        alice = storeless.user("alice")
        flow = alice.create()
        assert {alice.get(FLOW).status_code for _ in range(BURST + 2)} == {200}
        for path in ("deploy", "teardown"):
            response = alice.post(f"{FLOW}/{flow['id']}/{path}")
            assert response.status_code == 503
            assert "retry-after" in response.headers
        transforms, uid = flow_body()["pipeline_config"]["transforms"], flow["pipeline_config"]["transforms"][0]["uid"]
        for response in (
            alice.put(f"{FLOW}/{flow['id']}/transforms", transforms),
            alice.patch(f"{FLOW}/{flow['id']}/transforms/{uid}", transforms[0]),
            alice.delete(f"{FLOW}/{flow['id']}"),
        ):
            assert response.status_code == 503
        assert alice.get(f"{FLOW}/{flow['id']}/deploy").status_code == 404
        metrics = storeless.nobody().get("/metrics").text
        assert re.search(r'headwater_rate_limit_uncounted_total\{outcome="passed"\} 7\.0', metrics)
        assert re.search(r'headwater_rate_limit_uncounted_total\{outcome="refused"\} 5\.0', metrics)


def test_headers_of_a_bucket_that_fills() -> None:
    decision = RateDecision(allowed=True, remaining=5, limit=20, window_s=2, retry_after_s=1)
    assert rate_headers(decision) == {"RateLimit-Policy": '"key";q=20;w=2', "RateLimit": '"key";r=5;t=2'}
