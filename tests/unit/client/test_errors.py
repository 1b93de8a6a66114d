"""Each problem document becomes an error that says what a program needs."""

import pickle

import pytest

from headwater_client import (
    Conflict,
    DeployFailed,
    DeployPending,
    Headwater,
    NotAllowed,
    NotFound,
    QuotaExceeded,
    RateLimited,
    RequestFailed,
    RevisionChanged,
    ServerError,
    Unauthenticated,
    Unavailable,
    UnexpectedResponse,
    Unprocessable,
    Unreadable,
    errors,
)
from tests.support.scripted_server import ScriptedResponse, ScriptedServer, json_response, problem_response


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (400, "malformed-request", RequestFailed),
        (401, "unauthenticated", Unauthenticated),
        (403, "forbidden", NotAllowed),
        (403, "quota", QuotaExceeded),
        (404, "not-found", NotFound),
        (409, "conflict", Conflict),
        (409, "unreadable", Unreadable),
        (412, "precondition-failed", RevisionChanged),
        (422, "invalid-input", Unprocessable),
        (422, "deploy-failed", DeployFailed),
        (429, "rate-limited", RateLimited),
        (500, "internal-error", ServerError),
        (503, "store-unavailable", Unavailable),
        (503, "deploy-pending", DeployPending),
    ],
)
def test_a_problem_becomes_an_error(status: int, name: str, kind: type[RequestFailed], server: ScriptedServer) -> None:
    server.respond = lambda request: problem_response(
        status, name, "A sentence.", {"Retry-After": "7"}, request_id="r1"
    )
    with Headwater(server.url, "key", retries=0) as hw, pytest.raises(RequestFailed, match=r"A sentence\.") as caught:
        hw.me()
    assert type(caught.value) is kind
    assert caught.value.problem.request_id == "r1"
    assert caught.value.retry_after == 7


def test_the_faults_of_a_request(server: ScriptedServer, hw: Headwater) -> None:
    faults = [{"pointer": "/name", "detail": "is too long"}]
    server.respond = lambda request: problem_response(422, "invalid-input", "The request was refused.", errors=faults)
    with pytest.raises(Unprocessable, match=r"The request was refused\.\n/name: is too long") as caught:
        hw.flows.create_from({})
    assert [(fault.pointer, fault.detail) for fault in caught.value.errors] == [("/name", "is too long")]


def test_usage_and_limit_of_a_quota(server: ScriptedServer, hw: Headwater) -> None:
    server.respond = lambda request: problem_response(403, "quota", used=1_000, allowed=1_200)
    with pytest.raises(QuotaExceeded) as caught:
        hw.datasets.create("x")
    assert (caught.value.used, caught.value.allowed) == (1_000, 1_200)


def test_the_error_of_a_proxy_has_no_problem_document(server: ScriptedServer) -> None:
    server.respond = lambda request: ScriptedResponse(502, [b"<h1>Bad gateway</h1>"], {"Content-Type": "text/html"})
    with Headwater(server.url, "key") as hw, pytest.raises(ServerError, match="Bad gateway") as caught:
        hw.me()
    assert caught.value.problem.title == "HTTP status 502"


def test_another_server_responds(server: ScriptedServer, hw: Headwater) -> None:
    server.respond = lambda request: json_response({"hello": "world"})
    with pytest.raises(UnexpectedResponse, match="missing required field `owner`"):
        hw.me()


def test_every_error_is_exported() -> None:
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    import headwater_client

    assert {each.__name__ for each in classes} - set(headwater_client.__all__) == set()


def test_errors_survive_pickling() -> None:
    error = errors.error_of(404, {}, b'{"status": 404, "detail": "There is none."}')
    assert str(pickle.loads(pickle.dumps(error))) == "There is none."
