from collections.abc import Iterator

import pytest

from headwater.sandbox import Sandbox


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A new sandbox without a spare child."""
    with Sandbox(spare=False) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def shared_sandbox() -> Iterator[Sandbox]:
    """A sandbox for all tests of a module whose scripts do not damage it."""
    with Sandbox(spare=False) as sandbox:
        yield sandbox
