from collections.abc import Iterator

import pytest

from headwater.sandbox import Sandbox


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox of the test's own, without a spare child."""
    with Sandbox(spare=False) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def shared_sandbox() -> Iterator[Sandbox]:
    """One sandbox for the scripts of a module that do it no harm."""
    with Sandbox(spare=False) as sandbox:
        yield sandbox
