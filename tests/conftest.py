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
    """Groups for pytest-xdist: the tests of one group run one after the other in one process, and share its servers."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    """The folder; acceptance tests that start installations of their own are a group beside those that share one."""
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    own = folder == "acceptance" and "stack" not in getattr(item, "fixturenames", ())
    return "acceptance-own" if own else folder
