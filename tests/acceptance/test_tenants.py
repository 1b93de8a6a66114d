"""The resources of one owner do not exist for another owner.

That holds on any path, with any method and any id.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from tests.acceptance.conformance.owner import FILTER, FLOW, SCRIPT, Owner, faults, filter_path, json, owner
from tests.acceptance.installation import Installation, pipeline

UNKNOWN = "01aaaaaaaaaaaaaaaaaaaaaaaa"
OF_STREAMS = {"chain", "entity"}
"""Path parameters of streams, which belong to no owner."""
PER_REQUEST = ("request_id", "instance")
NO_IDS = {"chain": "base", "entity": "erc20_token_transfer", "revision": "1"}
"""Parameters of paths that name nothing of an owner, with a value."""
BAD_BODIES: tuple[Any, ...] = ({}, [], {"values": [""]}, {"values": []}, "text", None)


@dataclass
class Operation:
    """An operation of the OpenAPI description whose path has an id of an owner's resource."""

    method: str
    path: str
    parameters: list[str]
    query: dict[str, str]
    bodies: list[Any]

    def send(self, http: httpx2.Client, ids: dict[str, str], body: Any) -> httpx2.Response:
        options = {} if body is None else {"json": body}
        return http.request(self.method, self.path.format(**NO_IDS, **ids), params=self.query, **options)


def operations(http: httpx2.Client) -> Iterator[Operation]:
    """Return all operations whose path has an id, each with its example bodies."""
    for path, methods in json(http.get("/openapi.json"))["paths"].items():
        for method, operation in methods.items():
            parameters = operation.get("parameters", [])
            names = [p["name"] for p in parameters if p["in"] == "path" and p["name"] not in NO_IDS]
            query = {p["name"]: p["schema"]["examples"][0] for p in parameters if p["in"] == "query" and p["required"]}
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            bodies = [example["value"] for example in content.get("examples", {}).values()]
            bodies += [content["example"]] if "example" in content else []
            if names and not set(names) & OF_STREAMS:
                yield Operation(method.upper(), path, names, query, bodies or [None])
                if method == "get":
                    yield Operation("HEAD", path, names, query, [None])


def seen(answer: httpx2.Response, sent: dict[str, str]) -> tuple[int, Any, set[str]]:
    """Return a response without the ids that were sent.

    Content that differs from request to request is also removed.
    """
    body = answer.json() if answer.content else {}
    text = str({name: value for name, value in body.items() if name not in PER_REQUEST})
    for value in sent.values():
        text = text.replace(value, "…")
    return answer.status_code, text, set(answer.headers)


@pytest.fixture(scope="module")
def alice(installation: Installation) -> Iterator[Owner]:
    with owner(installation, "tenant") as new_owner:
        yield new_owner


@pytest.fixture(scope="module")
def bob(installation: Installation) -> Iterator[Owner]:
    with owner(installation, "tenant") as new_owner:
        yield new_owner


@pytest.fixture(scope="module")
def ids(alice: Owner) -> dict[str, str]:
    """Create a deployed configuration with filter values, and a dataset, for Alice.

    Return their ids.
    """
    flow = alice.create(transforms=[{**FILTER, "set_values": ["a"]}, SCRIPT])
    json(alice.http.post(f"{FLOW}/{flow['id']}/deploy"))
    redrive = json(alice.http.post(f"{FLOW}/{flow['id']}/dead-letters/redrive", json={"all": True}), 202)
    return {
        "config_id": flow["id"],
        "transform_uid": flow["pipeline_config"]["transforms"][0]["uid"],
        "dataset_id": alice.dataset("a")["id"],
        "redrive_id": redrive["id"],
    }


def snapshot(alice: Owner, ids: dict[str, str]) -> list[Any]:
    config, entries = f"{FLOW}/{ids['config_id']}", f"{FLOW}/datasets/{ids['dataset_id']}/entries"
    values = f"{config}/transforms/{ids['transform_uid']}/filter-values"
    return [json(alice.http.get(path)) for path in (FLOW, config, f"{config}/deploy", values, entries)]


@pytest.mark.proves("11/owners")
class TestForeignIds:
    def test_foreign_ids_are_answered_like_unknown_ids(self, alice: Owner, bob: Owner, ids: dict[str, str]) -> None:
        own = bob.create()
        bobs = {"config_id": own["id"], "transform_uid": own["pipeline_config"]["transforms"][0]["uid"]}
        before = snapshot(alice, ids)
        tried = 0
        for operation in operations(alice.http):
            for foreign in combinations(operation.parameters, ids, bobs):
                unknown = {n: UNKNOWN if value == ids[n] else value for n, value in foreign.items()}
                for body in operation.bodies:
                    answer = operation.send(bob.http, foreign, body)
                    assert answer.status_code == 404, (operation, foreign, answer.text)
                    other = operation.send(bob.http, unknown, body)
                    assert seen(answer, foreign) == seen(other, unknown), (operation, foreign)
                    tried += 1
        assert tried > 30
        assert snapshot(alice, ids) == before

    def test_errors_in_a_body_reveal_nothing(self, alice: Owner, bob: Owner, ids: dict[str, str]) -> None:
        unknown = dict.fromkeys(ids, UNKNOWN)
        for operation, body in itertools.product(operations(alice.http), BAD_BODIES):
            if operation.bodies != [None]:
                answers = [seen(operation.send(bob.http, which, body), which) for which in (ids, unknown)]
                assert answers[0] == answers[1], (operation, body)
                assert answers[0][0] in (400, 404, 415, 422), (operation, body)

    def test_foreign_ids_in_a_body(self, bob: Owner, ids: dict[str, str]) -> None:
        own = bob.create()
        path = f"{FLOW}/{own['id']}"
        for uid in (ids["transform_uid"], UNKNOWN):
            transforms = [{**FILTER, "uid": uid}]
            pointer = "/pipeline_config/transforms/0/uid"
            refused = faults(bob.http.put(path, json=pipeline(transforms=transforms)))
            assert set(refused) == {pointer}
            assert set(faults(bob.http.put(f"{path}/transforms", json=transforms))) == {"/0/uid"}
            assert uid not in str(refused)

    def test_a_foreign_configuration_in_a_tail(self, bob: Owner, ids: dict[str, str]) -> None:
        for sink in ("out", "dlq"):
            answers = [
                bob.http.get(f"{FLOW}/tail", params={"of": f"{config_id}/{sink}"})
                for config_id in (ids["config_id"], UNKNOWN)
            ]
            found = [seen(answer, {"id": ids["config_id"], "unknown": UNKNOWN}) for answer in answers]
            assert found[0] == found[1]
            assert found[0][0] == 404

    def test_a_foreign_configuration_in_a_trial(self, bob: Owner, ids: dict[str, str]) -> None:
        found = []
        for config_id in (ids["config_id"], UNKNOWN):
            body = {**pipeline(), "id": config_id, "against": "deployed", "records": [{}]}
            found.append(seen(bob.http.post(f"{FLOW}/validate", json=body), {"id": config_id}))
        assert found[0] == found[1]
        assert found[0][0] == 404

    def test_the_overview_has_no_foreign_configuration(self, bob: Owner, ids: dict[str, str]) -> None:
        for query in ({}, {"q": ids["config_id"]}, {"state": "deployed"}):
            assert ids["config_id"] not in bob.http.get(f"{FLOW}/overview", params=query).text

    def test_lists_have_no_foreign_resources(self, alice: Owner, bob: Owner, ids: dict[str, str]) -> None:
        for path in (FLOW, f"{FLOW}/datasets"):
            theirs = {one["id"] for one in json(bob.http.get(path))}
            assert not theirs & set(ids.values())
        name = json(alice.http.get(f"{FLOW}/datasets/{ids['dataset_id']}"))["name"]
        assert json(bob.http.get(f"{FLOW}/datasets", params={"names": name})) == []


def combinations(names: list[str], ids: dict[str, str], bobs: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield each assignment of Alice's and Bob's ids to the parameters.

    At least one id is Alice's.
    """
    choices = [[(name, ids[name]), *([(name, bobs[name])] if name in bobs else [])] for name in names]
    for chosen in itertools.product(*choices):
        assignment = dict(chosen)
        if any(assignment[name] == ids[name] for name in names):
            yield assignment


class TestScopes:
    def test_changing_a_running_pipeline_needs_the_deploy_scope(
        self, installation: Installation, ids: dict[str, str], alice: Owner
    ) -> None:
        name = json(alice.http.get(f"{FLOW}/{ids['config_id']}"))["owner_org_team_user_id"]
        result = installation.run("keys", "create", "--owner", name, "--scope", "flow:write", "--scope", "flow:read")
        path = f"{FLOW}/{ids['config_id']}"
        with installation.client(result.stdout.strip()) as http:
            for answer in (
                http.patch(f"{path}/transforms/{ids['transform_uid']}", json=FILTER),
                http.put(f"{path}/transforms", json=[SCRIPT]),
                http.delete(path),
                http.post(f"{path}/deploy"),
                http.post(f"{path}/teardown"),
                http.get(f"{path}/deploy"),
            ):
                assert "flow:deploy" in json(answer, 403)["detail"]
            assert http.get(filter_path(json(http.get(path)))).status_code == 200
            assert (
                "sets:write"
                in json(http.post(filter_path(json(http.get(path))), json={"values": ["b"]}), 403)["detail"]
            )
