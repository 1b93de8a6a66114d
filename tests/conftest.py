"""Fixtures shared by all tests; the real servers are in tests/support."""

from typing import Any

import hypothesis
import pytest
import structlog
from xdist.scheduler import LoadScopeScheduling

from tests.examples import examples

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
    """Add the option --external: `make test TEST_FLAGS="--external tests/acceptance"`."""
    text = (
        "Run the acceptance tests on an external PostgreSQL, Valkey and Kafka, which Headwater reaches by its settings."
    )
    parser.addoption("--external", action="store_true", help=text)


def pytest_configure() -> None:
    """Log plain tracebacks where a test does not configure logging.

    One rich traceback can take ten seconds.
    """
    *processors, _ = structlog.get_config()["processors"]
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*processors, console])


# On a new machine the first example with text is slow, since Hypothesis builds its table of characters.
hypothesis.settings.register_profile(
    "headwater",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("headwater")


class _Groups(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Runs each group of tests in one worker, one test after the other.

    The group's servers then start only once.

    Unit tests need no servers. Each of their folders is a group, so that both workers end at about the same time.
    """

    def _split_scope(self, nodeid: str) -> str:
        group = _group(nodeid)
        return nodeid.partition("::")[0].rpartition("/")[0] if group == "unit" else group


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Return the scheduler for `-n 2`.

    pytest-xdist 3.8 loses the marks of `--dist loadgroup` in pytest 9.2.
    """
    return _Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort unit tests last, so that a worker that has finished its group runs some of them."""
    items.sort(key=lambda item: _ORDER.index(_group(item.nodeid)))


def _group(nodeid: str) -> str:
    _, folder, *rest = nodeid.partition("::")[0].split("/")
    if rest and rest[-1] in _OWN_INSTALLATIONS:
        return "installations"
    if rest and rest[0] == "living":
        return "living"
    return folder if folder in _ORDER else "servers"


_ORDER = ["acceptance", "servers", "living", "installations", "unit"]
_OWN_INSTALLATIONS = {"test_demo.py", "test_external.py", "test_memory.py", "test_pubsub.py", "test_rounds.py"}
"""Acceptance tests that start their own installations, and so can run in either worker."""
