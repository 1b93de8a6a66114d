"""Fixtures shared by all tests; the real servers are in tests/support."""

import functools
import gc
from collections.abc import Generator, Iterator
from typing import Any

import httpcore2
import hypothesis
import pytest
import structlog

from tests.examples import examples
from tests.scheduling import FileScheduling

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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt what is imported and collected from garbage collections.

    They would walk it again and again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _one_tls_context() -> Iterator[None]:
    """Let all HTTP clients share one TLS context.

    Otherwise each client would read all certificates of the system.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", functools.cache(httpcore2.default_ssl_context))
        yield


# On a new machine the first example with text is slow, since Hypothesis builds its table of characters.
hypothesis.settings.register_profile(
    "headwater",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("headwater")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling:
    """Return the scheduler for `-n 2`.

    pytest-xdist 3.8 loses the marks of `--dist loadgroup` in pytest 9.2.
    """
    return FileScheduling(config, log)
