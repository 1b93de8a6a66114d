"""Headwater on a real cluster, installed by its chart with two APIs and two controllers."""

import httpx2
import pytest

from tests.acceptance.installation import deployed, pipeline, reading
from tests.kubernetes.release import Release
from tests.support.waiting import until

CHAIN, ENTITY = "base", "erc20_token_transfer"
SCRIPT = {"type": "v8", "script": "function process(r) { return r.n % 2 ? null : { n: r.n, twice: 2 * r.n }; }"}
FASTER = {"type": "v8", "script": "function process(r) { return r.n % 2 ? null : { n: r.n, twice: 3 * r.n }; }"}


def test_a_script_runs_in_the_real_sandbox(release: Release, client: httpx2.Client) -> None:
    with deployed(client, pipeline(ENTITY, CHAIN, transforms=[SCRIPT])) as flow:
        release.feed(CHAIN, ENTITY, ({"n": n} for n in range(1000)))
        with reading(flow.sink) as reader:
            assert sorted(record.json()["twice"] for record in reader.read(500)) == list(range(0, 2000, 4))
        stats = client.get(f"/api/v1/flow/{flow.id}/deploy/stats").json()
        assert [pod["is_ready"] for pod in stats["workers_health"]["workers"]] == [True]
    until(lambda: not release.pods("worker"), 60, "the end of the workers")


@pytest.mark.parametrize(
    "script",
    ["for (;;);", "const a = []; for (;;) a.push(Array(1e5).fill(1.5));", "Deno.readTextFileSync('/etc/passwd');"],
)
def test_a_hostile_script_fails_its_records_only(release: Release, client: httpx2.Client, script: str) -> None:
    hostile = {"type": "v8", "script": f"function process(r) {{ if (r.n === 3) {{ {script} }} return r; }}"}
    with deployed(client, pipeline(ENTITY, CHAIN, transforms=[hostile])) as flow:
        release.feed(CHAIN, ENTITY, ({"n": n} for n in range(10)))
        with reading(flow.sink) as reader:
            assert {record.json()["n"] for record in reader.read(9)} == set(range(10)) - {3}
        until(lambda: client.get(f"/api/v1/flow/{flow.id}/dead-letters").json()["items"], 60, "the dead letter")
        stats = client.get(f"/api/v1/flow/{flow.id}/deploy/stats").json()
        assert [pod["restart_count"] for pod in stats["workers_health"]["workers"]] == [0]


def test_a_change_of_the_script_repeats_and_loses_nothing(release: Release, client: httpx2.Client) -> None:
    with deployed(client, pipeline(ENTITY, CHAIN, transforms=[SCRIPT], parallelism=2)) as flow:
        release.feed(CHAIN, ENTITY, ({"n": n} for n in range(1000)))
        changed = client.patch(f"/api/v1/flow/{flow.id}/transforms/{flow.uid()}", json=FASTER)
        assert changed.status_code == 200, changed.text
        release.feed(CHAIN, ENTITY, ({"n": n} for n in range(1000, 2000)))
        with reading(flow.sink) as reader:
            reader.read(1000)
            assert len(reader.records) == 1000
            assert {record.json()["twice"] for record in reader.records if record.json()["n"] >= 1000} == set(
                range(3000, 6000, 6)
            )
