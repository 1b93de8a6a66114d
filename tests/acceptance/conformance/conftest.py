"""Fixtures with two owners on the shared installation, and a deployed pipeline.

Tests must not change the pipeline.
"""

from collections.abc import Iterator

import httpx2
import pytest

from tests.acceptance.conformance.owner import Owner, owner
from tests.acceptance.installation import Deployed, Installation, deployed, pipeline


@pytest.fixture(scope="package")
def alice(installation: Installation) -> Iterator[Owner]:
    with owner(installation, "alice") as new_owner:
        yield new_owner


@pytest.fixture(scope="package")
def bob(installation: Installation) -> Iterator[Owner]:
    with owner(installation, "bob") as new_owner:
        yield new_owner


@pytest.fixture(scope="package")
def http(alice: Owner) -> httpx2.Client:
    return alice.http


@pytest.fixture(scope="package")
def running(http: httpx2.Client) -> Iterator[Deployed]:
    """Deploy a pipeline with a filter and two scripts."""
    transforms = [
        {"type": "redis_set_filter", "filter_expr": "root = this.wanted", "set_values": ["yes"]},
        {"type": "v8", "script": "function process(r) { return {...r, path: [...(r.path || []), 'first']}; }"},
        {"type": "v8", "script": "function process(r) { return {...r, path: [...r.path, 'second']}; }"},
    ]
    with deployed(http, pipeline("trade", "hyperliquid", transforms=transforms, name="running")) as deployment:
        yield deployment
