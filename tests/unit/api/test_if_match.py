"""ETag and If-Match."""

from typing import Any

import pytest

from headwater.api.if_match import parse_if_match
from headwater.services.flows import IfMatch
from tests.unit.api.installation import FLOW, User, flow_body


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ([], None),
        (["*"], None),
        ([" * "], None),
        (['"3"'], {3}),
        (['"3", "4"'], {3, 4}),
        (['"3",W/"4" , "5"'], {3, 5}),
        (['"3"', '"7"'], {3, 7}),
        (['W/"3"'], set()),
        (['"03"'], set()),
        (['"3 "'], set()),
        (['""'], set()),
        (['"١"'], set()),
        (["3"], set()),
        ([""], set()),
        (['"' + "9" * 5000 + '"'], set()),
    ],
)
def test_reading(lines: list[str], wanted: IfMatch) -> None:
    assert parse_if_match(lines) == wanted


def change(user: User, verb: str, flow: dict[str, Any], if_match: str | None) -> Any:
    path, uid = f"{FLOW}/{flow['id']}", flow["pipeline_config"]["transforms"][1]["uid"]
    script = {"type": "v8", "script": "function process(record) { return null; }"}
    headers = {} if if_match is None else {"If-Match": if_match}
    match verb:
        case "PUT":
            return user.request("PUT", path, json=flow_body(), headers=headers)
        case "PUT transforms":
            return user.request("PUT", f"{path}/transforms", json=[script], headers=headers)
        case "PATCH":
            return user.request("PATCH", f"{path}/transforms/{uid}", json=script, headers=headers)
    return user.request("DELETE", path, headers=headers)


@pytest.mark.parametrize("verb", ["PUT", "PUT transforms", "PATCH", "DELETE"])
class TestIfMatch:
    @pytest.mark.parametrize("if_match", [None, "*", '"2"', 'W/"1", "2"', '"9","2"'])
    def test_matches(self, alice: User, verb: str, if_match: str | None) -> None:
        flow = alice.create()
        alice.request("PUT", f"{FLOW}/{flow['id']}", json=flow)
        response = change(alice, verb, flow, if_match)
        assert response.status_code == 200
        assert response.headers.get("etag") == (None if verb == "DELETE" else '"3"')

    @pytest.mark.parametrize("if_match", ['"1"', 'W/"2"', '"3"', "2", '"1", "3"'])
    def test_a_mismatch_changes_nothing(self, alice: User, verb: str, if_match: str) -> None:
        flow = alice.create()
        alice.request("PUT", f"{FLOW}/{flow['id']}", json=flow)
        before = alice.get(f"{FLOW}/{flow['id']}")
        body = alice.problem(change(alice, verb, flow, if_match), 412, "precondition-failed")
        assert '"2"' in body["detail"]
        assert "Read the configuration again" in body["detail"]
        assert alice.get(f"{FLOW}/{flow['id']}").json() == before.json()

    def test_if_match_on_a_missing_configuration(self, alice: User, verb: str) -> None:
        flow = alice.create() | {"id": "x"}
        alice.problem(change(alice, verb, flow, '"1"'), 404, "not-found")
