"""Sections 2.9 and 4.1: token price statistics from ticks of a pipeline with a prices sink."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from tests.acceptance.conformance.owner import FLOW, Owner, faults, json, owner
from tests.acceptance.installation import Deployed, Installation, deployed, pipeline, reading
from tests.support.waiting import until

STATS = "/api/v1/developer/prices/stats"
PRICES = {"type": "prices", "name": "ticks"}
MINT = "So11111111111111111111111111111111111111112"
HOUR, DAY = 3600, 86_400


def token(number: int) -> str:
    return f"0x{0xABCDEF << 100 | number:040x}"


def tick(address: str, price: Any, ago_s: float, chain: str = "base", **more: Any) -> dict[str, Any]:
    at = datetime.fromtimestamp(time.time() - ago_s, UTC).isoformat()
    return {"chain": chain, "token_address": address, "price_usd": price, "timestamp": at, "decimals": 18} | more


def ask(http: httpx2.Client, *tokens: str, chain: str = "base") -> dict[str, Any]:
    body = [{"token_address": address, "chain": chain} for address in tokens]
    answer: dict[str, Any] = json(http.post(STATS, json=body))
    return answer


@pytest.fixture(scope="module")
def feeder(installation: Installation, client: httpx2.Client) -> Iterator[Deployed]:
    """Deploy a pipeline with the local key, which has the scope to feed prices."""
    with deployed(client, pipeline("log", sinks=[PRICES, {"type": "kafka", "name": "seen"}])) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def fed(installation: Installation, feeder: Deployed, client: httpx2.Client) -> httpx2.Client:
    """Feed ticks of several tokens, and wait until their statistics are readable."""
    ticks = [
        tick(token(1), 100, 2.25 * HOUR),
        tick(token(1).upper().replace("X", "x"), "90", 45 * 60),
        tick(token(1), 99.5, 15 * 60),
        tick(token(2), 7, 3 * DAY),
        tick(token(3), 7, 8 * DAY),
        tick(MINT, 120.25, 60, chain="solana", decimals=9),
        tick("0x01", 1, 60, chain="madeupchain"),
        *(tick(token(4), 50, minute * 60) for minute in range(5, 10)),
        tick(token(4), 5e7, 60),
        tick(token(5), None, HOUR, price_quote="2.5", quote_address=token(1)),
        tick(token(6), None, 10 * 60, price_quote=2, quote_address=token(1).upper().replace("X", "x")),
        tick(token(9), 1, 1),
    ]
    installation.feed("base", "log", ticks)
    until(
        lambda: is_readable(client), what="the prices"
    )  # tokens are in different partitions, so their ticks become readable at different times
    return client


def is_readable(client: httpx2.Client) -> bool:
    """Return whether all fed ticks are readable.

    Ticks of different partitions become readable at different times.
    """
    items = ask(client, *map(token, (1, 2, 4, 5, 6, 9)))["items"] + ask(client, MINT, chain="solana")["items"]
    return len(items) == 7 and items[0]["latest_price"] == 99.5


class TestStats:
    @pytest.mark.proves(
        "1/token-price-statistics",
        "2.9/mint",
        "2.9/chain",
        "2.9/timestamp",
        "2.9/latest_price",
        "2.9/low_24h",
        "2.9/high_24h",
        "2.9/low_1h",
        "2.9/high_1h",
        "2.9/percent_change_24h",
        "2.9/percent_change_1h",
        "2.9/decimals",
        "2.9/price-stats-response.items",
        "2.9/price-stats-response.cursor",
        "2.9/price-stats-response.message",
        "4.1/Method and path",
        "4.1/Request body",
        "4.1/Object fields",
        "4.1/Response (success)",
    )
    def test_a_token(self, fed: httpx2.Client) -> None:
        answer = ask(fed, token(1))
        [item] = answer["items"]
        traded = datetime.fromisoformat(item.pop("timestamp"))
        assert abs((datetime.now(UTC) - traded).total_seconds() - 15 * 60) < 120
        assert item == {
            "mint": token(1),
            "chain": "base",
            "latest_price": 99.5,
            "low_24h": 90.0,
            "high_24h": 100.0,
            "low_1h": 90.0,
            "high_1h": 99.5,
            "percent_change_24h": None,
            "percent_change_1h": pytest.approx(-0.5),
            "decimals": 18,
        }
        assert answer["cursor"] is None
        assert answer["message"] == "All tokens have a price."

    @pytest.mark.proves("2.9/price-stats-response.message", "2.9/price-stats-response.items")
    def test_missing_tokens_are_listed(self, fed: httpx2.Client) -> None:
        asked = [(token(77), "base"), (token(1), "base"), (token(3), "base"), ("0x01", "nochain"), (token(1), "base")]
        asked.append(("0x02", "madeupchain"))
        body = [{"token_address": address, "chain": chain} for address, chain in asked]
        answer = json(fed.post(STATS, json=body))
        assert [item["mint"] for item in answer["items"]] == [token(1), token(1)]
        statuses = ["unknown_token", "ok", "stale", "unknown_chain", "ok", "unknown_token"]
        assert answer["statuses"] == [one | {"status": s} for one, s in zip(body, statuses, strict=True)]
        assert answer["message"] == (
            "4 of 6 tokens have no price: 1 stale (no trade for 7 days), 2 unknown token, 1 unknown chain."
        )

    def test_a_quiet_token(self, fed: httpx2.Client) -> None:
        [item] = ask(fed, token(2))["items"]
        figures = [item[name] for name in ("latest_price", "low_24h", "high_24h", "low_1h", "high_1h")]
        assert figures == [7.0] * 5
        assert (item["percent_change_24h"], item["percent_change_1h"]) == (0.0, 0.0)

    def test_outliers_are_ignored(self, fed: httpx2.Client) -> None:
        answer = ask(fed, token(4))
        [item], [status] = answer["items"], answer["statuses"]
        assert (item["latest_price"], item["high_24h"]) == (50.0, 50.0)
        assert status["status"] == "held"
        assert item["timestamp"] < status["held_since"]

    def test_prices_quoted_in_another_token(self, fed: httpx2.Client) -> None:
        answer = ask(fed, token(5), token(6))
        assert [item["latest_price"] for item in answer["items"]] == [250.0, 199.0]
        assert [status["status"] for status in answer["statuses"]] == ["ok", "ok"]
        assert (
            answer["statuses"][0]["quote_stale"] is True
        )  # the quote token's last trade was more than an hour earlier
        assert "quote_stale" not in answer["statuses"][1]

    @pytest.mark.proves("2.9/mint", "4.1/Object fields")
    @pytest.mark.parametrize("address", [MINT, MINT.lower(), MINT.upper()])
    def test_a_mint_is_found_in_any_case(self, fed: httpx2.Client, address: str) -> None:
        [item] = ask(fed, address, chain="solana")["items"]
        assert (item["mint"], item["decimals"], item["latest_price"]) == (MINT, 9, 120.25)

    def test_an_address_is_found_in_any_case(self, fed: httpx2.Client) -> None:
        [item] = ask(fed, token(1).upper(), chain="Base")["items"]
        assert (item["mint"], item["chain"]) == (token(1), "base")

    @pytest.mark.proves("4.1/Request body", "8/Items per request")
    def test_the_number_of_tokens_is_limited(self, fed: httpx2.Client) -> None:
        assert faults(fed.post(STATS, json=[])).keys() == {""}
        assert len(ask(fed, *[token(1)] * 200)["items"]) == 200
        assert faults(fed.post(STATS, json=[{"token_address": token(1), "chain": "base"}] * 201)).keys() == {""}

    @pytest.mark.proves("4.1/Object fields")
    @pytest.mark.parametrize(
        ("one", "pointer"),
        [
            ({"chain": "base"}, "/0/token_address"),
            ({"token_address": "0x1"}, "/0/chain"),
            ({"token_address": 1, "chain": "base"}, "/0/token_address"),
            ({"token_address": "0x1", "chain": None}, "/0/chain"),
            ({"token_address": "0x1", "chain": "base", "more": 1}, "/0/more"),
            ("0x1", "/0"),
        ],
    )
    def test_wrong_types(self, fed: httpx2.Client, one: Any, pointer: str) -> None:
        assert faults(fed.post(STATS, json=[one])).keys() == {pointer}

    def test_a_body_that_is_not_an_array(self, fed: httpx2.Client) -> None:
        assert faults(fed.post(STATS, json={"token_address": "0x1", "chain": "base"})).keys() == {""}


class TestFeeding:
    def test_bad_ticks_are_dead_letters(
        self, installation: Installation, feeder: Deployed, client: httpx2.Client
    ) -> None:
        bad: list[dict[str, Any] | bytes] = [
            tick(token(20), 0, 1),
            tick(token(20), 1, -600),
            tick(token(20), "1_000", 1),
            tick(token(20), 1, 1, timestamp="20260102"),
            tick(token(20), 1, 1, price_quote=1, quote_address=token(1)),
            {name: value for name, value in tick(token(20), 1, 1).items() if name != "decimals"},
            b"no json",
        ]
        seen = feeder.deploy_response["sinks"][1]
        with reading(seen, feeder.deploy_response["dead_letter"]["topic"]) as reader:
            installation.feed("base", "log", bad)
            letters = reader.read(len(bad))
        assert [letter.headers["headwater-error"] for letter in letters if letter.value == b"no json"] == [
            "InvalidJSON"
        ]
        assert {letter.headers["headwater-transform"] for letter in letters} == {"ticks"}
        assert sum("ahead" in letter.headers["headwater-message"] for letter in letters) == 1
        assert ask(client, token(20))["items"] == []

    def test_the_sink_has_no_topic(self, feeder: Deployed) -> None:
        prices, kafka = feeder.deploy_response["sinks"]
        assert prices == {"uid": prices["uid"], "name": "ticks", "type": "prices"}
        assert kafka["type"] == "kafka"

    def test_exactly_once_pipelines_feed_prices(self, installation: Installation, client: httpx2.Client) -> None:
        body = pipeline("decoded_log", sinks=[PRICES], delivery="exactly_once")
        with deployed(client, body):
            installation.feed("base", "decoded_log", [tick(token(30), 5, 1)])
            until(lambda: ask(client, token(30))["items"], what="its price")

    def test_feeding_needs_its_scope(self, installation: Installation, alice: Owner) -> None:
        body = pipeline("log", sinks=[PRICES])
        assert "prices:write" in json(alice.http.post(FLOW, json=body), 403)["detail"]
        plain = alice.create()
        assert "prices:write" in json(alice.http.put(f"{FLOW}/{plain['id']}", json=body), 403)["detail"]

    def test_deploying_a_prices_sink_needs_the_scope(self, installation: Installation) -> None:
        scopes = ("flow:read", "flow:write", "flow:deploy")
        with owner(installation, "feeder", *scopes, "prices:write") as full:
            flow = full.create(sinks=[PRICES], transforms=[])
            result = installation.run("keys", "create", "--owner", full_name(full), *with_scopes(scopes))
            with installation.client(result.stdout.strip()) as narrow:
                path = f"{FLOW}/{flow['id']}"
                assert "prices:write" in json(narrow.post(f"{path}/deploy"), 403)["detail"]
                assert "prices:write" in json(narrow.put(f"{path}/transforms", json=[]), 403)["detail"]
                json(narrow.get(path))


def full_name(new_owner: Owner) -> str:
    """Return the owner's name as it appears in configurations."""
    flow = new_owner.create()
    return str(flow["owner_org_team_user_id"])


def with_scopes(scopes: tuple[str, ...]) -> list[str]:
    return [part for scope in scopes for part in ("--scope", scope)]
