"""The examples in the client's docstrings work."""

import doctest
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import headwater_client
from headwater_client import Headwater
from headwater_client.builders import kafka, set_filter, v8
from tests.support.scripted_server import ScriptedServer
from tests.unit.client.conftest import KEY

MODULES = sorted(module.name for module in pkgutil.walk_packages(headwater_client.__path__, "headwater_client."))
RESOURCES = [name for name in MODULES if ".resources." in name or name.endswith(".client")]


@pytest.fixture(scope="module")
def names(example_server: ScriptedServer) -> Iterator[dict[str, Any]]:
    """Return the names that the examples use."""
    with Headwater(example_server.url, KEY) as hw:
        flow = hw.flows.get("01ke0a2x8rv5c3m7qd9t4jw6hz")
        token = flow.filters["01ke0a2x8rv5c3m7qd9t4jw6j0"]
        watched = hw.datasets.get("01ke0a4gt1n6b8y2kf5s7pm3xc")
        yield {
            "hw": hw,
            "flow": flow,
            "token": token,
            "watched": watched,
            "set_filter": set_filter,
            "kafka": kafka,
            "v8": v8,
        }


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_work(name: str, names: dict[str, Any]) -> None:
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, extraglobs=names)
    assert failed == 0


@pytest.mark.parametrize("name", RESOURCES)
def test_every_public_operation_has_an_example(name: str) -> None:
    module = importlib.import_module(name)
    without = [
        test.name
        for test in doctest.DocTestFinder().find(module)
        if _is_operation(module, test.name) and not test.examples
    ]
    assert without == []


def _is_operation(module: Any, name: str) -> bool:
    """Return whether a doctest has the name of a public operation of a resource."""
    *_, owner, method = name.split(".")
    function = getattr(getattr(module, owner, None), method, None)
    return owner.endswith(("Operations", "ValueSet")) and not method.startswith("_") and callable(function)
