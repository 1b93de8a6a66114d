"""The table that finds the route of a request."""

import pytest

from headwater.api.app import ROUTES
from headwater.api.route_table import RouteTable

FLOW = "/api/v1/flow"
TABLE = RouteTable(ROUTES)


def found(path: str, method: str = "GET") -> tuple[str, dict[str, str]] | None:
    """Return the path template and the path parameters of a request."""
    match = TABLE.find(path, method)
    return match and (match[0].path_format, match[1])


def test_every_route_is_found_by_a_path_of_its_own() -> None:
    for route in ROUTES:
        values = {name: f"some-{name}" for name in route.param_convertors}
        for method in route.methods or ():
            assert TABLE.find(route.path_format.format(**values), method) == (route, values)


def test_a_fixed_segment_wins_over_a_parameter() -> None:
    assert found(f"{FLOW}/x") == (f"{FLOW}/{{config_id}}", {"config_id": "x"})
    assert found(f"{FLOW}/datasets") == (f"{FLOW}/datasets", {})
    assert found(f"{FLOW}/datasets/deploy") == (f"{FLOW}/datasets/{{dataset_id}}", {"dataset_id": "deploy"})
    assert found(f"{FLOW}/streams/deploy") is None, "streams is no configuration"


def test_another_method_is_found_by_the_path() -> None:
    route, parameters = TABLE.find(f"{FLOW}/x/teardown", "DELETE") or pytest.fail("the path exists")
    assert (route.methods, parameters) == ({"POST"}, {"config_id": "x"})


@pytest.mark.parametrize("path", ["", "*", "/api", f"{FLOW}//deploy", f"{FLOW}/x/", f"{FLOW}/x/deploy/y", "/healthz\n"])
def test_no_route(path: str) -> None:
    assert found(path) is None
