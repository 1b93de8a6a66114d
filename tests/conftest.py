"""Fixtures shared by all tests; the real servers are in tests/support."""

from pathlib import Path

import pytest

pytest_plugins = ["tests.support.kafka", "tests.support.valkey"]

NEEDS_THE_MACHINE = ("acceptance", "integration", "contract/test_broker", "contract/test_sink", "contract/test_source")
"""Tests that run brokers and whole installations: one after the other, in one process. The others run beside them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests for pytest-xdist's loadgroup."""
    for item in items:
        place = item.path.relative_to(Path(__file__).parent).as_posix()
        group = "machine" if place.startswith(NEEDS_THE_MACHINE) else place
        item.add_marker(pytest.mark.xdist_group(group))
