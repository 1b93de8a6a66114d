"""An owner who has reached all quotas does not affect the other owner."""

from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import external_servers, running
from tests.acceptance.installation import Installation, pipeline
from tests.chaos.neighbours import Greedy, flags, measure

SMALL = {
    "configurations": 8,
    "stored_bytes": 10_000_000,
    "script_bytes": 10_000,
    "deployments": 1,
    "workers": 2,
    "datasets": 2,
    "set_values": 1_000,
}


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Installation]:
    directory = tmp_path_factory.mktemp("bounded")
    with external_servers(request.config.getoption("--external"), directory) as servers:
        yield from running(Installation(directory / "data", flags=flags(SMALL), external=servers))


@pytest.mark.long
def test_an_owner_at_all_quotas_does_not_affect_another_owner(bounded: Installation) -> None:
    report = measure(bounded, rounds=1, deploys=1, lists=5)
    at_quota = {name: used for name, (used, allowed) in report.used.items() if used == allowed}
    assert set(at_quota) == set(SMALL) - {"stored_bytes"}
    assert set(report.refused) == {"create 403", "deploy 403", "dataset 403", "values 403"}


@pytest.mark.long
def test_an_operator_raises_the_quota_of_an_owner(bounded: Installation) -> None:
    with bounded.client() as client:
        Greedy(client).use_up_quotas()
        refused = client.post("/api/v1/flow", json=pipeline())
        assert refused.status_code == 403
        assert refused.json()["type"] == "urn:headwater:problem:quota"
        assert "You have 8 of 8 configurations" in refused.json()["detail"]
        assert (refused.json()["used"], refused.json()["allowed"]) == (8, 8)
        assert bounded.run("owners", "set", "local", "--max-configurations", "9").returncode == 0
        assert client.post("/api/v1/flow", json=pipeline()).status_code == 201
        assert client.post("/api/v1/flow", json=pipeline()).status_code == 403
        shown = bounded.run("owners", "show", "local")
        assert shown.returncode == 0, shown.stderr
        assert "1,000" in shown.stdout
        assert "local" in bounded.run("owners", "list").stdout
