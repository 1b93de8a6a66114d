"""Validation with sample records: POST /api/v1/flow/validate.

The V8 sandbox has its own tests.
"""

import json
from typing import Any

import pytest

from headwater.model.trial import MAX_SAMPLES
from tests.unit.api.installation import FLOW, TOKEN, Installation, User, flow_body

VALIDATE = f"{FLOW}/validate"
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.a", "set_values": ["X"]}
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
            (flow_body() | {"records": [{"a": "x" * 500_000}, {"a": "x" * 600_000}]}, "/records"),
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
        assert answer == {"warnings": [warning], "records": []}

    def test_null_records_mean_no_records(self, alice: User) -> None:
        assert alice.post(VALIDATE, flow_body() | {"records": None}).json()["records"] == []

    def test_validate_saves_nothing(self, headwater: Installation, alice: User) -> None:
        assert tried(alice, [FILTER, V8], '[{"a": "x"}]')[0]["outcome"] == "sent"
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
        kept, dropped = tried(alice, [FILTER, V8, V8], '[{"a":"x"}, {"a":"y"}]')
        assert (kept["outcome"], kept["reason"], kept["outputs"]) == ("sent", "", [{"a": "x", "seen": True}])
        assert [step["type"] for step in kept["steps"]] == ["redis_set_filter", "v8", "v8"]
        assert kept["steps"][1] == {
            "type": "v8",
            "received": 1,
            "dropped": 0,
            "errors": [],
            "outputs": [{"a": "x", "seen": True}],
            "logs": ["saw 1"],
        }
        assert (dropped["outcome"], dropped["outputs"]) == ("dropped", [])
        assert [(step["received"], step["dropped"]) for step in dropped["steps"]] == [(1, 1)]

    def test_errors_as_dead_letters_carry_them(self, alice: User) -> None:
        [failed] = tried(alice, [V8, FAILS, V8], '[{"a": 1}]')
        error = {"error": "TypeError", "message": "x is undefined", "line": 2, "column": 7, "attempts": 1}
        assert failed["outcome"] == "error"
        assert failed["steps"][1]["errors"] == [error]
        assert failed["steps"][1]["logs"] == ["before it failed"]
        assert (failed["steps"][1]["received"], failed["steps"][1]["dropped"]) == (1, 0)
        assert len(failed["steps"]) == 2

    def test_records_that_filters_reject(self, alice: User) -> None:
        outcomes = tried(alice, [FILTER], '[5, null, "x", [1], {"a": "x"}]')
        assert [record["outcome"] for record in outcomes] == ["error"] * 4 + ["sent"]

    def test_without_transforms_all_records_pass(self, alice: User) -> None:
        assert tried(alice, [], '[5, {"a": 1}]') == [
            {"outcome": "sent", "reason": "", "outputs": [value], "steps": []} for value in (5, {"a": 1})
        ]

    def test_the_bytes_of_records_are_unchanged(self, alice: User) -> None:
        odd = '{ "a" : "X", "n": 1.00, "big": 123456789012345678901234567890.5 }'
        body = json.dumps(flow_body(transforms=[FILTER]) | {"records": 0}).replace(
            '"records": 0', f'"records": [{odd}]'
        )
        response = alice.post(VALIDATE, content=body, headers={"Content-Type": "application/json"})
        assert response.text.count(odd) == 2

    def test_the_answer_is_bounded(self, alice: User) -> None:
        records = tried(alice, [V8] * 20, json.dumps([{"a": "x" * 500_000, "b": TOKEN}]))
        assert (records[0]["outcome"], len(records[0]["steps"])) == ("unfinished", 16)
        assert "8 MiB" in records[0]["reason"]
