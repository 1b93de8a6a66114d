"""The summary of the values of a run."""

import pytest

from tests.chaos.run import summary


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({}, {"count": 0}),
        ({5: 1}, {"count": 1, "p50": 5, "p99": 5, "max": 5}),
        ({1: 98, 7: 1, 9: 1}, {"count": 100, "p50": 1, "p99": 7, "max": 9}),
    ],
)
def test_percentiles(counts: dict[int, int], found: dict[str, int]) -> None:
    assert summary(counts) == found
