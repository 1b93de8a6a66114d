"""A pipeline object saves changes, and keeps what this version of the client does not know."""

from datetime import UTC, datetime
from typing import Any

import pytest

from headwater_client import Ambiguous, DeployFailed, Flow, Headwater, NotFound, kafka
from tests.support.scripted_server import (
    ReceivedRequest,
    ScriptedResponse,
    ScriptedServer,
    json_response,
    problem_response,
)
from tests.unit.client.conftest import FLOW


def overview_item(config_id: str, name: str) -> dict[str, Any]:
    empty = ("external_id", "condition", "messages_received", "messages_sent", "errors", "avg_data_age_ms", "lag")
    return {"id": config_id, "name": name, "tags": [], "state": "draft", "revision": 1, **dict.fromkeys(empty)}


def test_an_update_keeps_unknown_members(server: ScriptedServer, flow: Flow) -> None:
    flow.update(tags=["usdc"])
    request = server.requests[-1]
    assert request.method == "PUT"
    assert request.headers["If-Match"] == '"3"'
    assert request.json()["tags"] == ["usdc"]
    assert request.json()["pipeline_config"] == FLOW["pipeline_config"]


def test_an_update_replaces_the_members_that_it_names(server: ScriptedServer, flow: Flow) -> None:
    flow.update(source=("base", "log"), sinks=[kafka("out")], parallelism=2)
    pipeline = server.requests[-1].json()["pipeline_config"]
    assert pipeline["source"] == {"chain": "base", "entity": "log"}
    assert pipeline["sinks"] == [{"type": "kafka", "name": "out"}]
    assert pipeline["parallelism"] == 2
    assert pipeline["transforms"][0]["uid"] == "t"


def test_an_unknown_filter_names_the_known_ones(flow: Flow) -> None:
    with pytest.raises(KeyError, match=r"has no filter with the name or uid 'tokens'. It has: token"):
        flow.filters["tokens"]


def test_a_rewind_to_a_time(server: ScriptedServer, flow: Flow) -> None:
    server.respond = lambda request: json_response({"message": "", "positions": {}})
    flow.rewind(datetime(2026, 1, 2, tzinfo=UTC))
    assert server.requests[-1].json() == {"to": "2026-01-02T00:00:00+00:00"}


def test_a_rollback_without_a_deployment(server: ScriptedServer, flow: Flow) -> None:
    server.respond = lambda request: json_response({**FLOW, "revision": 4})
    assert flow.rollback(1) is None
    assert flow.revision == 4


def test_a_revision_that_is_rolled_back_after_the_deploy(
    server: ScriptedServer, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    conditions = iter(["RollingOut", "RollingOut", "RolledBack"])

    def respond(request: ReceivedRequest) -> ScriptedResponse:
        condition = next(conditions)
        body = {"message": "", "status": "deployed", "config_id": "f", "revision": 2, "desired_revision": 3}
        more = {"condition": condition, "reason": "A worker has crashed.", "workers": 1, "sinks": []}
        return json_response({**body, **more, "dead_letter": {"topic": "flow.f.dlq"}})

    server.respond = respond
    with pytest.raises(DeployFailed, match=r"A worker has crashed\.") as caught:
        flow.deploy(until_stable=True)
    assert caught.value.deployment is not None
    assert caught.value.deployment.revision == 2


ID = "01ke0a2x8rv5c3m7qd9t4jw6hz"


class TestFind:
    def respond(self, *named: str) -> Any:
        def respond(request: ReceivedRequest) -> ScriptedResponse:
            if request.path == "/api/v1/flow/overview":
                items = [overview_item(config_id, "whales") for config_id in named]
                return json_response({"items": items, "cursor": None, "first_minute": "2026-01-02T03:04:00Z"})
            if request.path == "/api/v1/flow":
                return json_response([FLOW] if request.query["external_id"] == ["mine"] else [])
            return (
                json_response(FLOW)
                if request.path in ("/api/v1/flow/f", f"/api/v1/flow/{ID}")
                else problem_response(404, "not-found", "No.")
            )

        return respond

    @pytest.mark.parametrize("reference", [ID, "mine", "whales"])
    def test_one_pipeline(self, reference: str, server: ScriptedServer, hw: Headwater) -> None:
        server.respond = self.respond("f")
        assert hw.flows.find(reference).id == "f"

    def test_a_pipeline_with_the_name_of_another_resource(self, server: ScriptedServer, hw: Headwater) -> None:
        answer = self.respond()

        def respond(request: ReceivedRequest) -> ScriptedResponse:
            assert request.path != "/api/v1/flow/streams"
            if request.path == "/api/v1/flow/overview":
                items = [overview_item("f", "streams")]
                return json_response({"items": items, "cursor": None, "first_minute": "2026-01-02T03:04:00Z"})
            response: ScriptedResponse = answer(request)
            return response

        server.respond = respond
        assert hw.flows.find("streams").id == "f"

    def test_no_pipeline(self, server: ScriptedServer, hw: Headwater) -> None:
        server.respond = self.respond()
        with pytest.raises(NotFound):
            hw.flows.find("whales")

    def test_several_pipelines(self, server: ScriptedServer, hw: Headwater) -> None:
        server.respond = self.respond("f", "g")
        with pytest.raises(Ambiguous, match="2 pipelines have the name 'whales'") as caught:
            hw.flows.find("whales")
        assert caught.value.candidates == [("f", "whales"), ("g", "whales")]


def test_all_pages_are_listed(server: ScriptedServer, hw: Headwater) -> None:
    def respond(request: ReceivedRequest) -> ScriptedResponse:
        if "cursor" in request.query:
            return json_response([{**FLOW, "id": "g"}])
        return json_response([FLOW], headers={"Link": '</api/v1/flow?limit=1&cursor=17-0a>; rel="next"'})

    server.respond = respond
    assert [flow.id for flow in hw.flows.list(page_size=1)] == ["f", "g"]
    assert server.requests[-1].query == {"limit": ["1"], "cursor": ["17-0a"]}


def test_an_unreadable_configuration_is_listed(server: ScriptedServer, hw: Headwater) -> None:
    server.respond = lambda request: json_response([{**FLOW, "pipeline_config": "junk", "unreadable": "A limit."}])
    assert [flow.config.unreadable for flow in hw.flows.list()] == ["A limit."]
