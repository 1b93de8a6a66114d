"""Saves and validates typical scripts over HTTP with the real sandbox."""

from collections.abc import Iterator
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from headwater.model.transforms.v8 import V8Transform
from headwater.sandbox import trial_sandbox, validate_script
from tests.unit.api.installation import FLOW, Installation, User, flow_body

POINTER = "/pipeline_config/transforms/0/script"
TYPESCRIPT = "const labels: Record<string, string> = {};\nexport const process = (r: any) => ({ a: r.a, n: labels.n });"
JAVASCRIPT = "function process(r) { return r }"


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def headwater(portal: BlockingPortal) -> Iterator[Installation]:
    with Installation(portal, validate=validate_script, open_sandbox=trial_sandbox).serving() as headwater:
        yield headwater


@pytest.fixture
def alice(headwater: Installation) -> User:
    return headwater.user("alice")


def v8(script: str, **members: Any) -> dict[str, Any]:
    return {"type": "v8", "script": script} | members


def body(*scripts: str) -> dict[str, Any]:
    return flow_body(source={"chain": "base", "entity": "log"}, transforms=[v8(script) for script in scripts])


def stored(headwater: Installation, config_id: str) -> list[tuple[str, str | None]]:
    """Return the stored scripts of a configuration, each with the generated JavaScript."""
    transforms = headwater.database.flows.get("alice", config_id).pipeline_config.transforms
    return [(t.script, t.javascript) for t in transforms if isinstance(t, V8Transform)]


class TestSaved:
    def test_the_source_is_returned_and_the_generated_script_is_stored(
        self, headwater: Installation, alice: User
    ) -> None:
        created = alice.create(**body(TYPESCRIPT, JAVASCRIPT)["pipeline_config"])
        sent, plain = created["pipeline_config"]["transforms"]
        assert sent == v8(TYPESCRIPT, uid=sent["uid"])
        assert plain == v8(JAVASCRIPT, uid=plain["uid"])
        (_, javascript), (_, none) = stored(headwater, created["id"])
        assert javascript is not None
        assert "const labels                         = {};" in javascript
        assert none is None
        for answer in (alice.get(f"{FLOW}/{created['id']}").json(), alice.get(FLOW).json()[0]):
            assert answer["pipeline_config"]["transforms"] == [sent, plain]

    def test_an_unchanged_script_keeps_its_generated_script(self, headwater: Installation, alice: User) -> None:
        created = alice.create(**body(TYPESCRIPT)["pipeline_config"])
        before = stored(headwater, created["id"])
        uid = created["pipeline_config"]["transforms"][0]["uid"]
        path = f"{FLOW}/{created['id']}"
        assert alice.put(path, body(TYPESCRIPT)).status_code == 200
        assert stored(headwater, created["id"]) == before
        assert alice.put(f"{path}/transforms", [v8(TYPESCRIPT, uid=uid), v8(JAVASCRIPT)]).status_code == 200
        assert stored(headwater, created["id"]) == [*before, (JAVASCRIPT, None)]
        changed = alice.request("PATCH", f"{path}/transforms/{uid}", json=v8(TYPESCRIPT, name="labels"))
        assert changed.json() == v8(TYPESCRIPT, uid=uid, name="labels")
        assert stored(headwater, created["id"]) == [*before, (JAVASCRIPT, None)]
        assert alice.request("PATCH", f"{path}/transforms/{uid}", json=v8(JAVASCRIPT)).status_code == 200
        assert stored(headwater, created["id"]) == [(JAVASCRIPT, None)] * 2

    def test_a_request_cannot_set_the_generated_script(self, alice: User) -> None:
        sent = flow_body(transforms=[v8(JAVASCRIPT, javascript="function process() {}")])
        assert list(alice.faults(alice.post(FLOW, sent))) == ["/pipeline_config/transforms/0/javascript"]

    def test_the_audit_log_has_the_source(self, headwater: Installation, alice: User) -> None:
        created = alice.create(**body(TYPESCRIPT)["pipeline_config"])
        assert '"javascript"' not in alice.get(f"{FLOW}/{created['id']}").text
        assert '"javascript"' not in alice.get("/openapi.json").text


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        (
            "const START = new Date();\nfunction process(r) { return { START } }",
            "asks for the time outside",
        ),
        ("const id = Math.random();\nfunction process(r) { return { id } }", "asks for a random number outside"),
        ("import { ethers } from 'ethers';\nfunction process(r) { return r; }", "there is no `import`: paste what"),
        ("const e = require('ethers');\nfunction process(r) { return r; }", "paste what it needs into it"),
        ("function main(stream) { return stream; }", "It defines `main`: rename it to `process`"),
        ("async function main(stream) { return stream; }", "takes a record. Nothing waits for a Promise"),
        ("async function process(r) { return r; }", "nothing waits for a Promise: take out `async` and `await`"),
        ("enum Kind { A }\nfunction process(r: any) { return r; }", "there are no enums"),
    ],
)
def test_create_and_validate_reject_the_script(alice: User, script: str, detail: str) -> None:
    for path in (FLOW, f"{FLOW}/validate"):
        faults = alice.faults(alice.post(path, body(script)))
        assert list(faults) == [POINTER]
        assert detail in faults[POINTER]


@pytest.mark.parametrize(
    ("script", "details"),
    [
        (
            "function process(r) { try { return { n: Buffer.from(r.a) } } catch (e) { return { error: e.name } } }",
            ["nothing but an error", "`Buffer` (line 1, column 41), which is not defined"],
        ),
        ("function process(r) { BigInt.prototype.toJSON = () => 1; return r; }", ["built-ins are frozen"]),
        ("async function send(r) { await r } function process(r) { send(r); return r; }", ["what follows never runs"]),
        (
            "function process(block) { return block.logs.map((log) => log) }",
            ["one object, not a block and not a list, with the members `address`, `topics`"],
        ),
    ],
)
def test_create_and_validate_return_warnings(alice: User, script: str, details: list[str]) -> None:
    for path, status in ((FLOW, 201), (f"{FLOW}/validate", 200)):
        answer = alice.post(path, body(script))
        assert answer.status_code == status
        warnings = answer.json()["warnings"]
        assert [warning["pointer"] for warning in warnings] == [POINTER] * len(details)
        for warning, detail in zip(warnings, details, strict=True):
            assert detail in warning["detail"]


@pytest.mark.parametrize(
    "script",
    [
        TYPESCRIPT,
        "export function process(r) { return { a: r.a } }",
        "module.exports = { process: (r) => ({ a: r.a }) }",
    ],
)
def test_validate_with_records(alice: User, script: str) -> None:
    answer = alice.post(f"{FLOW}/validate", body(script) | {"records": [{"a": 1}]})
    assert answer.status_code == 200, answer.text
    assert [(one["outcome"], one["outputs"]) for one in answer.json()["records"]] == [("sent", [{"a": 1}])]
