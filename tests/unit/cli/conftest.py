"""Builds the command line once for all tests of it."""

import functools
from collections.abc import Iterator

import pytest
import typer


@pytest.fixture(autouse=True, scope="session")
def _one_command() -> Iterator[None]:
    """Build the commands of the application once, and not for each call of a CliRunner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(typer.main.get_command))
        yield
