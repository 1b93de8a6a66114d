"""Two owners on the shared installation, and one deployed pipeline that tests only read."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.acceptance.conformance.owner import Owner, owner
from tests.acceptance.stack import Deployed, Stack, deployed, pipeline


@pytest.fixture(scope="package")
def alice(stack: Stack) -> Iterator[Owner]:
    with owner(stack, "alice") as made:
        yield made


@pytest.fixture(scope="package")
def bob(stack: Stack) -> Iterator[Owner]:
    with owner(stack, "bob") as made:
        yield made


@pytest.fixture(scope="package")
def http(alice: Owner) -> httpx2.Client:
    return alice.http


@pytest.fixture(scope="package")
def running(http: httpx2.Client) -> Iterator[Deployed]:
    """A pipeline with a filter and two scripts, deployed."""
    transforms = [
        {"type": "redis_set_filter", "filter_expr": "root = this.wanted", "set_values": ["yes"]},
        {"type": "v8", "script": "function process(r) { return {...r, path: [...(r.path || []), 'first']}; }"},
        {"type": "v8", "script": "function process(r) { return {...r, path: [...r.path, 'second']}; }"},
    ]
    with deployed(http, pipeline("trade", "hyperliquid", transforms=transforms, name="running")) as made:
        yield made
