"""Request sizes that adapt to a node's limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.ingest.evm.adaptive import PROBE_AFTER, AdaptiveSize


def ask(size: AdaptiveSize, cap: int, times: int) -> int:
    """Send requests to a node with the limit `cap`. Return how many it rejected."""
    refused = 0
    for _ in range(times):
        value = size.value
        if value > cap:
            refused += 1
            size.on_refusal(value)
        else:
            size.on_success(value)
    return refused


@given(start=st.integers(1, 300), max_size=st.integers(1, 300), cap=st.integers(1, 300), step=st.integers(1, 5))
def test_the_size_converges_to_the_nodes_limit(start: int, max_size: int, cap: int, step: int) -> None:
    size = AdaptiveSize(start, max_size, step)
    ask(size, cap, 800)
    assert ask(size, cap, 100) <= 5
    assert min(cap, max_size) / 2 - 1 <= size.value <= max_size


@pytest.mark.parametrize("failures", [5, 50])
def test_failures_reduce_the_size_only_temporarily(failures: int) -> None:
    size = AdaptiveSize(20, 20)
    for _ in range(failures):
        size.on_suspicion(size.value)
    assert size.value == 1
    ask(size, 20, 20)
    assert size.value == 20


def test_a_permanent_limit_is_rarely_retried() -> None:
    size = AdaptiveSize(20, 20)
    size.on_refusal(20, limit=1)
    assert size.value == 1
    refused = ask(size, 1, 20 * PROBE_AFTER)
    assert 1 <= refused <= 6
    ask(size, 20, 100 * PROBE_AFTER)
    assert size.value == 20


def test_a_smaller_success_changes_nothing() -> None:
    size = AdaptiveSize(10, 20)
    size.on_success(3)
    assert size.value == 10
