"""Fixtures shared by all tests; the real servers are in tests/support."""

from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

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


class _TwoGroups(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Acceptance tests and all others side by side: each group runs its servers once, one test after the other."""

    def _split_scope(self, nodeid: str) -> str:
        return "acceptance" if nodeid.startswith("tests/acceptance/") else "others"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """For `-n 2`. The marks of `--dist loadgroup` would do, but pytest-xdist 3.8 loses them under pytest 9.2."""
    return _TwoGroups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Unit tests come first: they need no broker while the acceptance tests begin with the busiest ones."""
    items.sort(key=lambda item: _folder(item) != "unit")


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]
