"""Validation with sample records: POST /api/v1/flow/validate.

The V8 sandbox has its own tests.
"""

import json
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from headwater.model.access import PubSubAccess
from headwater.model.binding import Bindings, PubSubTopic
from headwater.model.trial import MAX_SAMPLES
from tests.unit.api.installation import FLOW, TOKEN, Installation, User, flow_body

VALIDATE = f"{FLOW}/validate"
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.to_address", "set_values": ["X"]}
V8 = {"type": "v8", "script": "function process(record) { return record; }"}
FAILS = {"type": "v8", "script": "function process(record) { fails }"}


def tried(user: User, transforms: list[dict[str, Any]], records: str) -> list[dict[str, Any]]:
    """Return the results of records that are sent as raw JSON."""
    body = json.dumps(flow_body(transforms=transforms) | {"records": "RECORDS"}).replace('"RECORDS"', records)
    response = user.post(VALIDATE, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 200, response.text
    answer: list[dict[str, Any]] = response.json()["records"]
    return answer


class TestChecks:
    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            (flow_body(source={"chain": "x", "entity": "y"}), "/pipeline_config/source/chain"),
            (flow_body(transforms=[V8 | {"script": "syntax error"}]), "/pipeline_config/transforms/0/script"),
            (flow_body() | {"nmae": 1}, "/nmae"),
            (flow_body() | {"records": {}}, "/records"),
            (flow_body() | {"records": [{}] * (MAX_SAMPLES + 1)}, "/records"),
            (flow_body() | {"records": [{"to_address": "x" * 500_000}, {"to_address": "x" * 600_000}]}, "/records"),
        ],
    )
    def test_validate_rejects_what_create_rejects(self, alice: User, body: Any, pointer: str) -> None:
        assert list(alice.faults(alice.post(VALIDATE, body))) == [pointer]

    def test_records_sent_twice(self, alice: User) -> None:
        body = json.dumps(flow_body())[:-1] + ', "records": 1, "records": [{}]}'
        response = alice.post(VALIDATE, content=body, headers={"Content-Type": "application/json"})
        assert list(alice.faults(response)) == ["/records"]

    def test_without_records(self, alice: User) -> None:
        throws = V8 | {"script": "function process() { throws }"}
        answer = alice.post(VALIDATE, flow_body(transforms=[throws])).json()
        warning = {"pointer": "/pipeline_config/transforms/0/script", "detail": "TypeError: x is undefined"}
        assert (answer["warnings"], answer["records"], answer["summary"]["sent"]) == ([warning], [], 0)

    def test_null_records_mean_no_records(self, alice: User) -> None:
        assert alice.post(VALIDATE, flow_body() | {"records": None}).json()["records"] == []

    def test_validate_saves_nothing(self, headwater: Installation, alice: User) -> None:
        assert tried(alice, [FILTER, V8], '[{"to_address": "x"}]')[0]["outcome"] == "sent"
        assert alice.get(FLOW).json() == []
        assert not headwater.sets._sets

    def test_validate_is_not_a_configuration_id(self, alice: User) -> None:
        response = alice.get(VALIDATE)
        alice.problem(response, 405, "method-not-allowed")
        assert response.headers["allow"] == "POST"


class TestExpressions:
    @pytest.mark.parametrize(
        ("expression", "record"),
        [
            ('root = this.a."*".b', {"a": [{"b": "x"}, {"b": "y"}]}),
            ('root = this.a."+1"', {"a": ["y", "x"]}),
            ("root = this.a # the first", {"a": "x"}),
            ("root = this.a[0]", {"a": ["x"]}),
            ("root = this.a | deleted()", {"a": "x"}),
            ("root = this.a.or(this.b)", {"b": "x"}),
            ("root = this.a.lowercase() | this.b", {"a": 1, "b": "x"}),
            ("root = this.a.map_each(item -> item.b)", {"a": [{"b": "x"}]}),
        ],
    )
    def test_accepted(self, alice: User, expression: str, record: dict[str, Any]) -> None:
        [answer] = tried(alice, [FILTER | {"filter_expr": expression}], json.dumps([record]))
        assert answer["outcome"] == "sent"

    def test_an_invalid_expression_is_not_an_error_of_a_record(self, alice: User) -> None:
        [answer] = tried(alice, [FILTER | {"filter_expr": "root = this.a.lowercase()"}], '[{"a": 1}]')
        assert answer["outcome"] == "dropped"

    @pytest.mark.parametrize(
        ("expression", "says"),
        [
            ('root = if this.a == "foo" { deleted() }', "column 8: Conditions are not supported in filter expressions"),
            ('root = this.a == "x"', "column 15: Comparisons are not supported"),
            ("root = this.a.lower()", "column 15: There is no method lower() here"),
        ],
    )
    def test_refused(self, alice: User, expression: str, says: str) -> None:
        faults = alice.faults(alice.post(VALIDATE, flow_body(transforms=[FILTER | {"filter_expr": expression}])))
        assert list(faults) == ["/pipeline_config/transforms/0/filter_expr"]
        assert says in faults["/pipeline_config/transforms/0/filter_expr"]


class TestRecords:
    def test_step_by_step(self, alice: User) -> None:
        kept, dropped = tried(alice, [FILTER, V8, V8], '[{"to_address":"x"}, {"to_address":"y"}]')
        assert (kept["outcome"], kept["reason"], kept["outputs"]) == ("sent", "", [{"to_address": "x", "seen": True}])
        assert [step["type"] for step in kept["steps"]] == ["redis_set_filter", "v8", "v8"]
        assert kept["steps"][1] == {
            "type": "v8",
            "received": 1,
            "dropped": 0,
            "errors": [],
            "outputs": [{"to_address": "x", "seen": True}],
            "logs": ["saw 1"],
        }
        assert (dropped["outcome"], dropped["outputs"]) == ("dropped", [])
        assert [(step["received"], step["dropped"]) for step in dropped["steps"]] == [(1, 1)]

    def test_errors_as_dead_letters_carry_them(self, alice: User) -> None:
        [failed] = tried(alice, [V8, FAILS, V8], '[{"to_address": 1}]')
        error = {"error": "TypeError", "message": "x is undefined", "line": 2, "column": 7, "attempts": 1}
        assert failed["outcome"] == "error"
        assert failed["steps"][1]["errors"] == [error]
        assert failed["steps"][1]["logs"] == ["before it failed"]
        assert (failed["steps"][1]["received"], failed["steps"][1]["dropped"]) == (1, 0)
        assert len(failed["steps"]) == 2

    def test_records_that_filters_reject(self, alice: User) -> None:
        outcomes = tried(alice, [FILTER], '[5, null, "x", [1], {"to_address": "x"}]')
        assert [record["outcome"] for record in outcomes] == ["error"] * 4 + ["sent"]

    def test_without_transforms_all_records_pass(self, alice: User) -> None:
        assert tried(alice, [], '[5, {"to_address": 1}]') == [
            {"outcome": "sent", "reason": "", "outputs": [value], "steps": []} for value in (5, {"to_address": 1})
        ]

    def test_the_bytes_of_records_are_unchanged(self, alice: User) -> None:
        odd = '{ "to_address" : "X", "n": 1.00, "big": 123456789012345678901234567890.5 }'
        body = json.dumps(flow_body(transforms=[FILTER]) | {"records": 0}).replace(
            '"records": 0', f'"records": [{odd}]'
        )
        response = alice.post(VALIDATE, content=body, headers={"Content-Type": "application/json"})
        assert response.text.count(odd) == 2

    def test_the_answer_is_bounded(self, alice: User) -> None:
        records = tried(alice, [V8] * 20, json.dumps([{"to_address": "x" * 500_000, "from_address": TOKEN}]))
        assert (records[0]["outcome"], len(records[0]["steps"])) == ("unfinished", 16)
        assert "8 MiB" in records[0]["reason"]


TRANSFERS = "stream.base.erc20_token_transfer"


def stream(headwater: Installation, *values: str, topic: str = TRANSFERS) -> None:
    """Append records to a stream."""
    headwater.history.create(topic, 2)
    for n, value in enumerate(values):
        headwater.history.append(topic, 0, 1_767_323_045_678 + n, value.encode(), key=b"key")


def validate(user: User, body: dict[str, Any]) -> dict[str, Any]:
    response = user.post(VALIDATE, body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


class TestSample:
    def test_records_of_the_stream_are_shown_with_their_positions(self, headwater: Installation, alice: User) -> None:
        stream(headwater, '{"to_address":"x","n":12345678901234567890}', '{"to_address":"y"}', "no JSON")
        answer = validate(alice, flow_body(transforms=[FILTER]) | {"sample": {"last": 10}})
        sent, dropped, failed = answer["records"]
        assert sent["input"] == {
            "record": {"to_address": "x", "n": 12345678901234567890},
            "partition": 0,
            "offset": 0,
            "timestamp": "2026-01-02T03:04:05.678Z",
            "key": "key",
        }
        assert [sent["outcome"], dropped["outcome"], failed["outcome"]] == ["sent", "dropped", "error"]
        assert failed["input"]["record_base64"] == "bm8gSlNPTg=="
        reason = "the stream has no more records"
        assert answer["sample"] == {"requested": 10, "read": 3, "done": 3, "shown": 3, "reason": reason}
        assert [answer["summary"][name] for name in ("sent", "dropped", "error", "unfinished")] == [1, 1, 1, 0]
        [totals] = answer["summary"]["transforms"]
        assert (totals["received"], totals["sent"], totals["dropped"], totals["errors"]) == (3, 1, 1, 1)
        [group] = answer["summary"]["errors"]
        assert (group["error"], group["count"], group["first"]) == ("InvalidJSON", 1, "0/2")
        assert group["transform_uid"] == totals["uid"]

    def test_summary(self, headwater: Installation, alice: User) -> None:
        stream(headwater, *['{"to_address":"x"}'] * 500)
        answer = validate(alice, flow_body(transforms=[FILTER]) | {"sample": {"last": 400}, "detail": "summary"})
        assert "records" not in answer
        assert (answer["sample"]["done"], answer["sample"]["shown"], answer["summary"]["sent"]) == (400, 0, 400)

    def test_without_transforms_records_are_not_looked_at(self, headwater: Installation, alice: User) -> None:
        stream(headwater, "no JSON", "[1]")
        first, second = validate(alice, flow_body(transforms=[]) | {"sample": {"last": 2}})["records"]
        assert (first["outcome"], first["outputs"]) == ("sent", [{"record_base64": "bm8gSlNPTg=="}])
        assert second["outputs"] == [[1]]

    def test_zerolag(self, headwater: Installation, alice: User) -> None:
        stream(headwater, '{"to_address":"x"}', topic="fast.base.log")
        source = {"chain": "base", "entity": "log", "is_zerolag": True}
        answer = validate(alice, flow_body(source=source, transforms=[FILTER]) | {"sample": {"last": 2}})
        assert answer["summary"]["sent"] == 1

    @pytest.mark.parametrize(
        ("sample", "pointer"),
        [
            ({}, "/sample"),
            ({"last": 1, "positions": ["0/1"]}, "/sample"),
            ({"count": 1}, "/sample"),
            ({"from": "2026-01-02T03:04:05Z"}, "/sample"),
            ({"from": "yesterday", "count": 1}, "/sample/from"),
            ({"last": 0}, "/sample/last"),
            ({"last": 10_001}, "/sample/last"),
            ({"last": True}, "/sample/last"),
            ({"positions": []}, "/sample/positions"),
            ({"positions": ["0-1"]}, "/sample/positions/0"),
            ({"positions": ["0/99999999999999999999"]}, "/sample/positions/0"),
            ({"newest": 1}, "/sample/newest"),
        ],
    )
    def test_invalid(self, alice: User, sample: dict[str, Any], pointer: str) -> None:
        assert list(alice.faults(alice.post(VALIDATE, flow_body() | {"sample": sample}))) == [pointer]

    def test_sample_beside_records(self, alice: User) -> None:
        body = flow_body() | {"sample": {"last": 1}, "records": [{}]}
        assert list(alice.faults(alice.post(VALIDATE, body))) == ["/sample"]

    def test_kafka_is_away(self, headwater: Installation, alice: User) -> None:
        headwater.history.away = True
        response = alice.post(VALIDATE, flow_body() | {"sample": {"last": 1}})
        assert response.status_code == 503

    def test_a_stream_of_pubsub(self) -> None:
        access = PubSubAccess(project="a-project")
        bindings = Bindings({"base.log": PubSubTopic("projects/a-project/topics/log", access)})
        with start_blocking_portal() as portal, Installation(portal, bindings=bindings).serving() as headwater:
            alice = headwater.user("alice")
            body = flow_body(source={"chain": "base", "entity": "log"}) | {"sample": {"last": 1}}
            faults = alice.faults(alice.post(VALIDATE, body))
        assert list(faults) == ["/sample"]
        assert "Pub/Sub" in faults["/sample"]


class TestLiveValues:
    def test_filters_of_the_stored_configuration_have_their_live_values(
        self, headwater: Installation, alice: User
    ) -> None:
        created = alice.create(transforms=[FILTER | {"set_values": ["old"]}])
        [filter_] = created["pipeline_config"]["transforms"]
        values = f"{FLOW}/{created['id']}/transforms/{filter_['uid']}/filter-values"
        assert alice.put(values, {"values": ["live"]}).status_code == 200
        second = FILTER | {"filter_expr": "root = this.from_address", "set_values": ["new"]}
        records = [
            {"to_address": "live", "from_address": "new"},
            {"to_address": "old", "from_address": "new"},
            {"to_address": "live", "from_address": "x"},
        ]
        body = flow_body(transforms=[FILTER, second]) | {"id": created["id"], "records": records}
        answer = validate(alice, body)
        assert [record["outcome"] for record in answer["records"]] == ["sent", "dropped", "dropped"]
        assert [warning["pointer"] for warning in answer["warnings"]] == ["/pipeline_config/transforms/0/set_values"]
        assert alice.get(f"{FLOW}/{created['id']}").json()["revision"] == 1

    def test_what_get_returns_can_be_validated(self, alice: User) -> None:
        created = alice.create(transforms=[FILTER, V8])
        got = alice.get(f"{FLOW}/{created['id']}").json()
        answer = validate(alice, got | {"records": [{"to_address": "x"}]})
        assert (answer["warnings"], answer["records"][0]["outcome"]) == ([], "sent")

    def test_an_unknown_id(self, headwater: Installation, alice: User) -> None:
        other = headwater.user("bob").create(transforms=[FILTER])
        for unknown in (other["id"], "0" * 26, "\0", 7):
            response = alice.post(VALIDATE, flow_body(transforms=[FILTER]) | {"id": unknown})
            assert "`id`" in alice.problem(response, 404, "not-found")["detail"]

    def test_live_values_need_the_scope_to_read_them(self, headwater: Installation, alice: User) -> None:
        created = alice.create(transforms=[FILTER])
        writer = headwater.user("alice", ["flow:write"])
        assert (
            validate(writer, flow_body(transforms=[FILTER]) | {"records": [{"to_address": "x"}]})["summary"]["sent"]
            == 1
        )
        for members in ({"id": created["id"]}, {"sample": {"last": 1}}):
            response = writer.post(VALIDATE, flow_body(transforms=[FILTER]) | members)
            assert "flow:read" in writer.problem(response, 403, "forbidden")["detail"]


class TestAgainst:
    def test_the_deployed_revision(self, headwater: Installation, alice: User) -> None:
        stream(headwater, '{"to_address":"x"}', '{"to_address":"y"}', '{"to_address":"x","from_address":1}')
        created = alice.create(transforms=[FILTER])
        assert alice.post(f"{FLOW}/{created['id']}/deploy").status_code == 200
        changed = flow_body(transforms=[*created["pipeline_config"]["transforms"], V8])
        request = {"id": created["id"], "sample": {"last": 10}, "against": "deployed"}
        comparison = validate(alice, changed | request)["comparison"]
        assert [comparison[name] for name in ("same", "changed", "only_before", "only_after")] == [1, 2, 0, 0]
        first, second = comparison["examples"]
        assert first == {
            "difference": "changed",
            "record": "0/0",
            "input": {"to_address": "x"},
            "before": {"outcome": "sent", "outputs": [{"to_address": "x"}], "errors": []},
            "after": {"outcome": "sent", "outputs": [{"to_address": "x", "seen": True}], "errors": []},
        }
        assert second["record"] == "0/2"

    def test_a_revision_that_was_deployed(self, alice: User) -> None:
        created = alice.create(transforms=[V8])
        path = f"{FLOW}/{created['id']}"
        alice.post(f"{path}/deploy")
        alice.put(path, flow_body(transforms=[FAILS]))
        body = flow_body(transforms=[FAILS]) | {"id": created["id"], "records": [{"to_address": 1}, {"to_address": 2}]}
        comparison = validate(alice, body | {"against": 1})["comparison"]
        assert (comparison["only_before"], comparison["examples"][1]["record"]) == (2, 1)
        [error] = comparison["examples"][0]["after"]["errors"]
        assert error["error"] == "TypeError"
        assert validate(alice, body | {"against": 2})["comparison"]["same"] == 2

    def test_a_filter_that_is_removed_has_its_live_values(self, headwater: Installation, alice: User) -> None:
        created = alice.create(transforms=[FILTER])
        alice.post(f"{FLOW}/{created['id']}/deploy")
        alice.put(f"{FLOW}/{created['id']}", flow_body(transforms=[]))
        body = flow_body(transforms=[]) | {"id": created["id"], "records": [{"to_address": "x"}, {"to_address": "y"}]}
        comparison = validate(alice, body | {"against": "deployed"})["comparison"]
        assert (comparison["same"], comparison["only_after"]) == (1, 1)

    def test_without_records_nothing_is_compared(self, alice: User) -> None:
        created = alice.create(transforms=[FILTER])
        body = flow_body(transforms=[]) | {"id": created["id"], "against": 1}
        faults = alice.faults(alice.post(VALIDATE, body))
        assert [*faults] == ["/against"]
        assert "`sample`" in faults["/against"]

    @pytest.mark.parametrize("against", ["deployed", 1])
    def test_without_id(self, alice: User, against: str | int) -> None:
        assert list(alice.faults(alice.post(VALIDATE, flow_body() | {"against": against}))) == ["/against"]

    @pytest.mark.parametrize("against", ["deploy", 0, 2**31, True, 1.5, []])
    def test_invalid(self, alice: User, against: Any) -> None:
        faults = alice.faults(alice.post(VALIDATE, flow_body() | {"id": "0" * 26, "against": against}))
        assert all(pointer.startswith("/against") for pointer in faults)

    @pytest.mark.parametrize("id_", ["0" * 26, "unknown", "\0", 7])
    def test_unknown_id(self, alice: User, id_: Any) -> None:
        response = alice.post(VALIDATE, flow_body() | {"id": id_, "against": "deployed"})
        alice.problem(response, 404, "not-found")

    def test_unknown_revision(self, alice: User) -> None:
        created = alice.create(transforms=[FILTER])
        response = alice.post(VALIDATE, flow_body() | {"id": created["id"], "against": 2})
        alice.problem(response, 404, "not-found")

    def test_not_deployed(self, alice: User) -> None:
        created = alice.create(transforms=[FILTER])
        response = alice.post(VALIDATE, flow_body() | {"id": created["id"], "against": "deployed"})
        assert "draft" in alice.problem(response, 409, "conflict")["detail"]

    def test_the_configuration_of_another_owner(self, headwater: Installation, alice: User) -> None:
        other = headwater.user("bob").create(transforms=[FILTER])
        response = alice.post(VALIDATE, flow_body() | {"id": other["id"], "against": 1})
        alice.problem(response, 404, "not-found")
