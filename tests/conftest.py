"""Fixtures shared by all tests; the real servers are in tests/support."""

from pathlib import Path

import pytest

pytest_plugins = [
    "tests.conformance.plugin",
    "tests.support.kafka",
    "tests.support.postgresql",
    "tests.support.valkey",
    "tests.support.sets",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test TEST_FLAGS="--external tests/acceptance"`."""
    text = "Run the acceptance tests on a PostgreSQL, a Valkey and a Kafka of their own, reached by settings alone."
    parser.addoption("--external", action="store_true", help=text)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two groups for pytest-xdist, side by side: each runs its servers once, and its tests one after the other.

    Unit tests come first: they need no broker while the acceptance tests begin with the busiest ones.
    """
    items.sort(key=lambda item: _folder(item) != "unit")
    for item in items:
        item.add_marker(pytest.mark.xdist_group("acceptance" if _folder(item) == "acceptance" else "others"))


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]
