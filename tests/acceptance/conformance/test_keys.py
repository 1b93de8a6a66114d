"""Section 5: authentication."""

from typing import Any

import httpx2
import pytest

from tests.acceptance.conformance.owner import FLOW, Owner, json, owner
from tests.acceptance.installation import Installation


def operations(http: httpx2.Client) -> list[tuple[str, str, dict[str, Any]]]:
    """Return all operations that need a key, with ids that do not exist."""
    paths = json(http.get("/openapi.json"))["paths"]
    return [
        (method.upper(), path.replace("{", "").replace("}", ""), operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if "security" in operation
    ]


class TestKeys:
    @pytest.mark.proves("5/every-endpoint-requires-an-api-key", "4/all-endpoints-need-an-api-key")
    def test_every_endpoint_needs_a_key(self, installation: Installation, http: httpx2.Client) -> None:
        answers = []
        with httpx2.Client(base_url=installation.url) as nobody:
            for method, path, _ in operations(http):
                for headers in ({}, {"X-API-Key": "hw_live_wrong"}, {"X-API-Key": ""}):
                    answer = nobody.request(method, path, headers=headers)
                    assert answer.status_code == 401, (method, path)
                    assert answer.headers["www-authenticate"].startswith("ApiKey")
                    body = answer.json()
                    answers.append({n: v for n, v in body.items() if n not in ("request_id", "instance")})
        assert len(answers) > 60
        assert all(answer == answers[0] for answer in answers)  # the response does not say why the key is invalid

    @pytest.mark.proves("5/every-endpoint-requires-an-api-key", "5/the-key-value-is-written-api_key")
    @pytest.mark.parametrize("name", ["X-API-Key", "X-API-KEY", "x-api-key"])
    def test_the_header_name_is_case_insensitive(self, installation: Installation, alice: Owner, name: str) -> None:
        assert httpx2.get(f"{installation.url}{FLOW}", headers={name: alice.key}).status_code == 200

    def test_every_endpoint_needs_its_scope(self, installation: Installation, http: httpx2.Client) -> None:
        with owner(installation, "narrow", "admin") as narrow:
            for method, path, operation in operations(http):
                answer = json(narrow.http.request(method, path), 403)
                assert operation["x-scope"] in answer["detail"], (method, path)

    @pytest.mark.proves(
        "5/dataset-by-name-resolves-only-among",
        "7/Add entries by dataset name when no dataset of that name exists for the authenticated API key",
        "4.4/POST /api/v1/flow/datasets/entries",
    )
    def test_a_dataset_name_refers_to_the_owners_datasets(self, alice: Owner, bob: Owner) -> None:
        dataset = alice.dataset("a")
        body = {"name": dataset["name"], "values": ["b"]}
        json(bob.http.post(f"{FLOW}/datasets/entries", json=body), 404)
        own = json(bob.http.post(f"{FLOW}/datasets", json={"name": dataset["name"]}), 201)
        assert json(bob.http.post(f"{FLOW}/datasets/entries", json=body))["count"] == 1
        assert json(bob.http.get(f"{FLOW}/datasets/{own['id']}/entries"))["values"] == ["b"]
        assert json(alice.http.get(f"{FLOW}/datasets/{dataset['id']}/entries"))["values"] == ["a"]

    @pytest.mark.proves("5/pipeline-listing-returns-the-configurations-of", "4.2/GET /api/v1/flow")
    def test_a_list_has_only_the_owners_resources(self, alice: Owner, bob: Owner) -> None:
        mine, other = alice.create()["id"], bob.create()["id"]
        for one, expected, foreign in ((alice, mine, other), (bob, other, mine)):
            ids = [flow["id"] for flow in json(one.http.get(FLOW))]
            assert expected in ids
            assert foreign not in ids
