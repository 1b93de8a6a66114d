"""Fixtures of all unit tests."""

import functools
from collections.abc import Iterator

import httpcore2
import pytest

from tests.support.sql import FRESH_DATABASES


@pytest.fixture(autouse=True, scope="session")
def _one_tls_context() -> Iterator[None]:
    """Let all HTTP clients share one TLS context.

    Otherwise each client would read all certificates of the system.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", functools.cache(httpcore2.default_ssl_context))
        yield


@pytest.fixture(autouse=True)
def _closed_databases() -> Iterator[None]:
    """Close the databases that a test opened."""
    yield
    FRESH_DATABASES.close()
