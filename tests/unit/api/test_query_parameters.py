"""Query parameters are checked.

Unknown ones are rejected by name, and the words for a default are accepted.
"""

import pytest

from tests.unit.api.installation import FLOW, Installation, User


@pytest.mark.parametrize(
    ("path", "known"),
    [
        (FLOW, "the query parameters cursor, external_id, limit"),
        (f"{FLOW}/x", "no query parameters"),
        (f"{FLOW}/datasets", "the query parameters cursor, limit, names"),
        (f"{FLOW}/x/deploy/metrics", "the query parameters aggregated, by, metrics, time_range"),
        (f"{FLOW}/x/transforms/t/filter-values", "the query parameters count, cursor"),
    ],
)
def test_the_error_for_an_unknown_parameter_lists_the_known_ones(alice: User, path: str, known: str) -> None:
    faults = alice.faults(alice.get(path, params={"page": "2", "colour": "red"}))
    assert faults == dict.fromkeys(("/page", "/colour"), f"is unknown; this operation has {known}")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("limt", '"limt"'), ("l" * 900, f'"{"l" * 60}…"'), ("a/b~\n", '"a/b~\\n"')],
    ids=["short", "long", "escaped"],
)
def test_the_sentence_names_the_unknown_one_readably(alice: User, name: str, shown: str) -> None:
    detail = alice.problem(alice.get(FLOW, params={name: "2"}), 422, "invalid-input")["detail"]
    assert detail == (
        f"The request was refused. The query parameter {shown} is unknown; "
        "this operation has the query parameters cursor, external_id, limit."
    )


def test_the_sentence_names_a_known_one_that_is_wrong(alice: User) -> None:
    detail = alice.problem(alice.get(FLOW, params={"limit": "many"}), 422, "invalid-input")["detail"]
    assert detail == 'The request was refused. The query parameter "limit" must be an integer, in digits alone.'


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_write_requests_reject_unknown_parameters(alice: User, method: str) -> None:
    path = FLOW if method == "POST" else f"{FLOW}/{alice.create()['id']}"
    assert "/dry_run" in alice.faults(alice.request(method, path, json={}, params={"dry_run": "true"}))


def test_the_key_is_checked_first(headwater: Installation) -> None:
    nobody = headwater.nobody()
    nobody.problem(nobody.get(FLOW, params={"page": "2"}), 401, "unauthenticated")


@pytest.mark.parametrize("word", ["null", ""])
def test_the_cursor_of_the_first_page_can_be_given(alice: User, word: str) -> None:
    flow, dataset = alice.create(), alice.post(f"{FLOW}/datasets", {"name": "d"}).json()
    values = f"{FLOW}/{flow['id']}/transforms/{flow['pipeline_config']['transforms'][0]['uid']}/filter-values"
    for path in (values, f"{FLOW}/datasets/{dataset['id']}/entries"):
        assert alice.get(path, params={"cursor": word}).json() == alice.get(path).json()


def test_all_metrics_can_be_requested_by_name(alice: User) -> None:
    path = f"{FLOW}/{alice.create()['id']}"
    assert alice.post(f"{path}/deploy").status_code == 200
    metrics = alice.get(f"{path}/deploy/metrics", params={"metrics": "all"})
    assert metrics.json() == alice.get(f"{path}/deploy/metrics").json()
