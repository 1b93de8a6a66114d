"""The OpenAPI description and the page that shows it."""

import json
import re
from typing import Any

import pytest

from headwater.api.app import ROUTES
from headwater.api.guarded_routes import AuthenticatedRoute, GuardedRoute
from headwater.api.prometheus import OPENMETRICS
from tests.unit.api.installation import FLOW, Installation, User


def operations(schema: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(method, path, op) for path, ops in schema["paths"].items() for method, op in ops.items()]


def sent_examples(operation: dict[str, Any]) -> list[Any]:
    """Return the example bodies of an operation."""
    content = operation["requestBody"]["content"]["application/json"]
    shown = [example["value"] for example in content.get("examples", {}).values()]
    return [*shown, content["example"]] if "example" in content else shown


def reachable(schema: dict[str, Any], node: Any) -> set[str]:
    """Return the names of all schemas that a node refers to, directly or through other schemas."""
    found: set[str] = set()
    todo = references(node)
    while todo:
        found.add(name := todo.pop())
        todo |= references(schema["components"]["schemas"][name]) - found
    return found


WITHOUT_KEY = {"signIn"}
"""The operations of the API that need no key."""


def references(node: Any) -> set[str]:
    return set(re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(node)))


class TestDescription:
    def test_lists_every_route(self, schema: dict[str, Any]) -> None:
        routes = {(m.lower(), r.path) for r in ROUTES if r.include_in_schema for m in r.methods or ()}
        assert {(method, path) for method, path, _ in operations(schema)} == routes

    def test_every_operation_has_a_summary_a_description_and_a_tag(self, schema: dict[str, Any]) -> None:
        for _, path, operation in operations(schema):
            assert operation["summary"], path
            assert operation["description"], path
            assert operation["tags"], path

    def test_every_api_operation_needs_the_key_and_names_its_scope(self, schema: dict[str, Any]) -> None:
        scheme = schema["components"]["securitySchemes"]["ApiKeyAuth"]
        assert (scheme["type"], scheme["in"], scheme["name"]) == ("apiKey", "header", "X-API-Key")
        for _, path, operation in operations(schema):
            if path.startswith("/api/") and operation["operationId"] not in WITHOUT_KEY:
                assert operation["security"] == [{"ApiKeyAuth": []}], path
                assert operation["x-scope"], path
            else:
                assert "security" not in operation, path

    @pytest.mark.parametrize(
        ("operation_id", "sentence"),
        [
            ("listConfigurations", "Needs the scope `flow:read`."),
            (
                "deployConfiguration",
                "Needs the scope `flow:deploy`, and `prices:write` when the configuration has a prices sink.",
            ),
            (
                "deleteConfiguration",
                "Needs the scope `flow:write`, and `flow:deploy` while the configuration is deployed.",
            ),
        ],
    )
    def test_descriptions_say_which_scopes_are_needed(
        self, schema: dict[str, Any], operation_id: str, sentence: str
    ) -> None:
        [operation] = [each for _, _, each in operations(schema) if each["operationId"] == operation_id]
        assert operation["description"].endswith(f"\n\n{sentence}")

    def test_errors_are_problem_documents(self, schema: dict[str, Any]) -> None:
        for _, path, operation in operations(schema):
            errors = {status: r for status, r in operation["responses"].items() if int(status) >= 400}
            assert not path.startswith("/api/") or {"401", "503"} <= set(errors), path
            assert ("403" in errors) == ("x-scope" in operation), path
            assert ("404" in errors) == ("{" in path or path.endswith(("/entries", "/tail", "/validate"))), path
            assert ("requestBody" in operation) <= ({"400", "413", "415", "422"} <= set(errors)), path
            for response in errors.values():
                assert list(response["content"]) == ["application/problem+json"], path
                assert references(response) == {"ProblemDetails"}, path

    def test_every_reference_leads_somewhere(self, schema: dict[str, Any]) -> None:
        assert references(schema) <= set(schema["components"]["schemas"])
        assert "HTTPValidationError" not in schema["components"]["schemas"]

    def test_problems_look_as_described(self, schema: dict[str, Any], alice: User) -> None:
        described = schema["components"]["schemas"]["ProblemDetails"]
        for response in (alice.get(f"{FLOW}/x"), alice.post(FLOW, {})):
            assert set(response.json()) <= set(described["properties"])
            assert set(described["required"]) <= set(response.json())

    def test_every_operation_has_a_name_for_generated_clients(self, schema: dict[str, Any]) -> None:
        names = [operation["operationId"] for _, _, operation in operations(schema)]
        assert len(set(names)) == len(names)
        for name in names:
            assert re.fullmatch("[a-z]+([A-Z][a-z]+)*", name), f"give the route of {name} an operation_id"

    def test_every_tag_and_parameter_is_described(self, schema: dict[str, Any]) -> None:
        tags = {tag["name"]: tag["description"] for tag in schema["tags"]}
        for _, path, operation in operations(schema):
            assert set(operation["tags"]) <= set(tags), path
            assert all(parameter["description"] for parameter in operation.get("parameters", [])), path

    def test_every_response_has_its_headers(self, schema: dict[str, Any]) -> None:
        expected = {"401": {"WWW-Authenticate"}, "429": {"Retry-After"}, "503": {"Retry-After"}, "201": {"Location"}}
        for _, path, operation in operations(schema):
            for status, response in operation["responses"].items():
                assert set(response["headers"]) - {"ETag", "Idempotency-Replayed", "Link"} == {
                    "X-Request-Id"
                } | expected.get(status, set()), path
                assert all(header["description"] for header in response["headers"].values()), path

    def test_every_body_has_an_example(self, schema: dict[str, Any]) -> None:
        for method, path, operation in operations(schema):
            assert "requestBody" not in operation or sent_examples(operation), (method, path)
            for status, response in operation["responses"].items():
                for media_type, content in response.get("content", {}).items():
                    assert media_type in ("text/plain", OPENMETRICS) or "example" in content, (method, path, status)

    def test_request_bodies_allow_no_other_members(self, schema: dict[str, Any]) -> None:
        for _, path, operation in operations(schema):
            for name in reachable(schema, operation.get("requestBody", {})):
                described = schema["components"]["schemas"][name]
                assert described.get("additionalProperties") is False, (path, name)

    def test_links_lead_to_operations_and_name_all_parameters(self, schema: dict[str, Any]) -> None:
        by_name = {operation["operationId"]: operation for _, _, operation in operations(schema)}
        linked = set()
        for operation in by_name.values():
            for response in operation["responses"].values():
                for link in response.get("links", {}).values():
                    target = by_name[link["operationId"]]
                    linked.add(link["operationId"])
                    parameters = target.get("parameters", [])
                    required = {p["name"] for p in parameters if p["in"] == "path"}
                    assert required <= set(link["parameters"]) <= {p["name"] for p in parameters}
        assert {n for n, o in by_name.items() if any(p["in"] == "path" for p in o.get("parameters", []))} <= linked

    def test_every_api_route_is_guarded(self) -> None:
        for route in ROUTES:
            assert isinstance(route, GuardedRoute) == route.path.startswith("/api/"), route.path
            needs_no_key = not isinstance(route, AuthenticatedRoute) and isinstance(route, GuardedRoute)
            assert needs_no_key == (route.operation_id in WITHOUT_KEY), route.path


class TestPage:
    def test_the_page_loads_nothing_from_other_hosts(self, headwater: Installation) -> None:
        nobody = headwater.nobody()
        page = nobody.get("/docs")
        assert page.status_code == 200
        assert "://" not in page.text
        assert '"validatorUrl": null' in page.text
        for asset in re.findall(r'(?:src|href)="([^"]+)"', page.text):
            assert nobody.get(asset).status_code == 200, asset

    def test_can_show_this_version_of_openapi(self, headwater: Installation, schema: dict[str, Any]) -> None:
        assert schema["openapi"].startswith("3.1")
        script = headwater.nobody().get("/docs/assets/swagger-ui-bundle.js").text
        assert int(re.search(r'PACKAGE_VERSION:"(\d+)\.', script)[1]) >= 5  # type: ignore[index]  # a bundle says it

    def test_unknown_asset(self, headwater: Installation) -> None:
        nobody = headwater.nobody()
        nobody.problem(nobody.get("/docs/assets/nothing.js"), 404, "not-found")
