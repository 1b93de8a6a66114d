"""This version continues what an older version ran, on the same data directory."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Installation, Reader, reading
from tests.acceptance.upgrade.facts import Facts
from tests.support.waiting import until

FOLDER = Path(__file__).parent
FLOW = "/api/v1/flow"
STATS = "/api/v1/developer/prices/stats"
MORE = 200
"""How many records the stream gets after the upgrade."""
RUNNING = ("filtered", "watched", "slow", "exactly once", "prices")


class Upgraded(Installation):
    """An installation of this version on the data directory of an older one."""

    facts: Facts

    def sink(self, name: str) -> dict[str, Any]:
        """Return the sink of a pipeline as the older version showed it, at the new address."""
        ports = json.loads((self.data_dir / "ports.json").read_text())
        return self.facts.pipelines[name].sink | {"bootstrap_servers": f"127.0.0.1:{ports['kafka']}"}

    def expected(self, name: str, count: int) -> list[int]:
        """Return the numbers of the outputs of a pipeline, of `count` records of its stream."""
        rules = {"filtered": lambda n: n % 2 and n % 100 != 99, "watched": lambda n: n % 4 == 1}
        return list(filter(rules.get(name, lambda n: True), range(count)))


@pytest.fixture(params=["stopped", "killed"])
def upgraded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Upgraded]:
    """Start this version on an older data directory.

    It has other ports of Kafka, because other programs may use the ports of the older one.
    """
    data_dir = tmp_path / "data"
    with tarfile.open(FOLDER / f"{request.param}.tar.xz") as archive:
        archive.extractall(data_dir, filter="fully_trusted")
    (data_dir / "ports.json").unlink()
    installation = Upgraded(data_dir)
    installation.facts = Facts.read(data_dir)
    try:
        installation.start()
        yield installation
    finally:
        assert installation.stop() == 0, installation.log()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_upgrade_keeps_everything(upgraded: Upgraded, request: pytest.FixtureRequest) -> None:
    was_killed = "killed" in request.node.name
    with upgraded.client() as client:
        check_configurations(upgraded, client)
        check_values(upgraded.facts, client)
        check_prices(upgraded.facts, client)
        check_other_owner(upgraded)
        total = upgraded.facts.records + MORE
        transfers = map(upgraded.facts.transfer, range(upgraded.facts.records, total))
        upgraded.feed("base", "erc20_token_transfer", transfers)
        for name in ("filtered", "watched", "slow", "exactly once"):
            with reading(upgraded.sink(name)) as reader:
                check_outputs(reader, upgraded.expected(name, total), may_repeat=was_killed and name != "exactly once")
        check_dead_letters(upgraded, client, total)
        check_changes(upgraded, client, total)
    doctor = upgraded.run("doctor")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr


def ok(response: httpx2.Response) -> Any:
    assert response.is_success, response.text
    return response.json()


def check_configurations(upgraded: Upgraded, client: httpx2.Client) -> None:
    """All configurations are as they were, and the deployed ones run with their credentials."""
    facts = upgraded.facts
    deployments = {name: f"{FLOW}/{pipeline.configuration['id']}" for name, pipeline in facts.pipelines.items()}
    for name, url in deployments.items():
        before, after = facts.pipelines[name].configuration, ok(client.get(url))
        assert {key: after[key] for key in ("id", "name", "created_at")} == {
            key: before[key] for key in ("id", "name", "created_at")
        }
        kept = zip(before["pipeline_config"]["transforms"], after["pipeline_config"]["transforms"], strict=True)
        assert all(new["uid"] == old["uid"] and new["type"] == old["type"] for old, new in kept)
        deployed = ok(client.get(f"{url}/deploy"))
        assert deployed["status"] == "deployed", deployed
        sinks = [sink for sink in deployed["sinks"] if sink.get("topic")]
        for key in ("topic", "username", "password", "consumer_group"):
            assert [sink[key] for sink in sinks] == ([facts.pipelines[name].sink[key]] if sinks else [])
    assert ok(client.get(f"{FLOW}/{facts.draft['id']}"))["name"] == "draft"
    assert client.get(f"{FLOW}/{facts.torn_down}/deploy").status_code == 404
    states = {item["name"]: item["state"] for item in ok(client.get(f"{FLOW}/overview"))["items"]}
    assert states == {"draft": "draft", "torn down": "draft"} | dict.fromkeys(RUNNING, "deployed")


def check_values(facts: Facts, client: httpx2.Client) -> None:
    """Filters and the dataset have their values."""
    for configuration, values in (
        (facts.pipelines["filtered"].configuration, facts.tokens),
        (facts.draft, facts.tokens[:3]),
    ):
        uid = configuration["pipeline_config"]["transforms"][0]["uid"]
        path = f"{FLOW}/{configuration['id']}/transforms/{uid}/filter-values"
        assert sorted(ok(client.get(path, params={"count": 100}))["values"]) == sorted(values)
    entries = ok(client.get(f"{FLOW}/datasets/{facts.dataset_id}/entries", params={"limit": 100}))
    assert sorted(entries["values"]) == sorted(facts.entries)


def check_prices(facts: Facts, client: httpx2.Client) -> None:
    """All tokens have their price, or are stale because the archive is old."""
    asked = [{"token_address": record["token_address"], "chain": "base"} for record in facts.priced]
    answer = ok(client.post(STATS, json=asked))
    assert {status["status"] for status in answer["statuses"]} in ({"ok"}, {"stale"})
    prices = {item["mint"]: item["latest_price"] for item in answer["items"]}
    assert prices in ({}, {record["token_address"]: record["price_usd"] for record in facts.priced})


def check_other_owner(upgraded: Upgraded) -> None:
    """The API key of another owner works, and sees only that owner's objects."""
    with upgraded.client(upgraded.facts.other_owner_key) as client:
        assert ok(client.get(f"{FLOW}/me"))["owner"] == "acme"
        assert ok(client.get(FLOW)) == []


def check_outputs(reader: Reader, expected: list[int], *, may_repeat: bool) -> None:
    """A topic has all outputs, and repeats only with the same `headwater-src`."""
    records = reader.read(len(expected), 240)
    assert sorted(record.json()["n"] for record in records) == expected
    if not may_repeat:
        assert len(reader.records) == len(expected)


def check_dead_letters(upgraded: Upgraded, client: httpx2.Client, total: int) -> None:
    """The dead letters of the older version are listed beside the new ones."""
    url = f"{FLOW}/{upgraded.facts.pipelines['filtered'].configuration['id']}/dead-letters"

    def listed() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = ok(client.get(url, params={"limit": 100}))["items"]
        return items

    expected = set(range(99, total, 100))
    until(lambda: {item["record"]["n"] for item in listed()} == expected, 60, "all dead letters")
    assert {item["error"] for item in listed()} == {"RangeError"}


def check_changes(upgraded: Upgraded, client: httpx2.Client, total: int) -> None:
    """A pipeline of the older version can be changed, paused, resumed and redriven."""
    configuration = upgraded.facts.pipelines["filtered"].configuration
    url, script = f"{FLOW}/{configuration['id']}", configuration["pipeline_config"]["transforms"][1]
    fixed = {"type": "v8", "script": "function process(r) { return {n: r.n, fixed: true}; }"}
    ok(client.patch(f"{url}/transforms/{script['uid']}", json=fixed))
    ok(client.post(f"{url}/pause"))
    ok(client.post(f"{url}/resume"))
    redrive = ok(client.post(f"{url}/dead-letters/redrive", json={"all": True}))
    until(lambda: ok(client.get(f"{url}/redrives/{redrive['id']}"))["state"] == "done", 60, "the redrive")
    expected = [n for n in range(total) if n % 2]
    with reading(upgraded.sink("filtered")) as reader:
        assert sorted(record.json()["n"] for record in reader.read(len(expected))) == expected
