"""An owner with an API key, and helpers to create the owner's resources."""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.acceptance.installation import Installation, pipeline

FLOW = "/api/v1/flow"
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}
SCRIPT = {"type": "v8", "script": "function process(record) { return record; }"}

_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    """Return a name that no other test uses."""
    return f"{prefix}-{next(_numbers)}"


@dataclass
class Owner:
    """An owner and an HTTP client with the owner's key."""

    http: httpx2.Client
    key: str
    name: str

    def create(self, **options: Any) -> dict[str, Any]:
        """Create a configuration, with a filter and a script unless `options` say otherwise."""
        body = pipeline(**({"transforms": [FILTER, SCRIPT]} | options))
        created: dict[str, Any] = json(self.http.post(FLOW, json=body), 201)
        return created

    def dataset(self, *values: str) -> dict[str, Any]:
        """Create a dataset with these values."""
        dataset: dict[str, Any] = json(self.http.post(f"{FLOW}/datasets", json={"name": unique("dataset")}), 201)
        if values:
            json(self.http.post(f"{FLOW}/datasets/{dataset['id']}/entries", json={"values": values}))
        return dataset

    def delete(self, path: str, values: list[str]) -> httpx2.Response:
        """Send a DELETE request with values in the body."""
        return self.http.request("DELETE", path, json={"values": values})


def json(answer: httpx2.Response, status: int = 200) -> Any:
    """Return the JSON body of a response, which must have this status."""
    assert answer.status_code == status, answer.text
    return answer.json()


def filter_path(flow: dict[str, Any], position: int = 0) -> str:
    """Return the path of the values of a configuration's filter."""
    uid = flow["pipeline_config"]["transforms"][position]["uid"]
    return f"{FLOW}/{flow['id']}/transforms/{uid}/filter-values"


def faults(answer: httpx2.Response) -> dict[str, str]:
    """Return the detail of each error in a 422 response, by pointer."""
    return {fault["pointer"]: fault["detail"] for fault in json(answer, 422)["errors"]}


@contextlib.contextmanager
def owner(installation: Installation, name: str, *scopes: str) -> Iterator[Owner]:
    """Create an owner for the block. Delete all its configurations and datasets afterwards."""
    options = [part for scope in scopes for part in ("--scope", scope)]
    result = installation.run("keys", "create", "--owner", unique(name), *options)
    assert result.returncode == 0, result.stderr
    key = result.stdout.strip()
    with installation.client(key) as http:
        yield Owner(http, key, name)
        for flow in _all(http, FLOW):
            json(http.delete(f"{FLOW}/{flow['id']}"))
        for dataset in _all(http, f"{FLOW}/datasets"):
            http.delete(f"{FLOW}/datasets/{dataset['id']}")


def _all(http: httpx2.Client, path: str) -> list[dict[str, Any]]:
    answer = http.get(path)
    found: list[dict[str, Any]] = answer.json() if answer.status_code == 200 else []
    return found
