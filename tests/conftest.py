"""Fixtures shared by all tests; the real servers are in tests/support."""

import os
from typing import Any

import hypothesis
import pytest
import structlog
from xdist.scheduler import LoadScopeScheduling

pytest.register_assert_rewrite("tests.support")

pytest_plugins = [
    "tests.conformance.plugin",
    "tests.support.kafka",
    "tests.support.secured_kafka",
    "tests.support.anvil",
    "tests.support.postgresql",
    "tests.support.valkey",
    "tests.support.sets",
    "tests.support.pubsub_fixtures",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test TEST_FLAGS="--external tests/acceptance"`."""
    text = "Run the acceptance tests on a PostgreSQL, a Valkey and a Kafka of their own, reached by settings alone."
    parser.addoption("--external", action="store_true", help=text)


def pytest_configure() -> None:
    """Where no test sets up logging: rich tracebacks of one error can take ten seconds."""
    *processors, _ = structlog.get_config()["processors"]
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*processors, console])


# On a fresh machine the first example with text waits for Hypothesis's table of characters, and no test asserts times.
hypothesis.settings.register_profile(
    "headwater",
    max_examples=100 if "CI" in os.environ else 30,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("headwater")


class _Groups(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """A worker runs a group from start to end: so each group's servers run once, and its tests one after the other.

    Unit tests need no servers: each of their folders is a group, and both workers end at about the same time.
    """

    def _split_scope(self, nodeid: str) -> str:
        group = _group(nodeid)
        return nodeid.partition("::")[0].rpartition("/")[0] if group == "unit" else group


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """For `-n 2`. The marks of `--dist loadgroup` would do, but pytest-xdist 3.8 loses them under pytest 9.2."""
    return _Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Unit tests come last: a worker that is done with its group takes what is left of them."""
    items.sort(key=lambda item: _ORDER.index(_group(item.nodeid)))


def _group(nodeid: str) -> str:
    _, folder, *rest = nodeid.partition("::")[0].split("/")
    if rest and rest[-1] in _OWN_INSTALLATIONS:
        return "installations"
    return folder if folder in _ORDER else "servers"


_ORDER = ["acceptance", "servers", "installations", "unit"]
_OWN_INSTALLATIONS = {"test_demo.py", "test_external.py", "test_memory.py", "test_pubsub.py", "test_rounds.py"}
"""Acceptance tests that start installations of their own: which of the two runs them does not matter."""
