"""The usage of a revision, and exceeded quotas."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.quota import Excess, find_excess, revision_usage


def config(**fields: object) -> str:
    return json.dumps({"transforms": [], "parallelism": 1} | fields, ensure_ascii=False)


def test_bytes_are_those_of_utf_8() -> None:
    text = config(transforms=[{"uid": "a", "type": "v8", "script": "/* größe */"}])
    found = revision_usage(text, "Größe", "x")
    assert found.script_bytes == len("/* größe */".encode())
    assert found.stored_bytes == len(text.encode()) + len("Größe".encode()) + 1


def test_filters_are_those_that_have_sets() -> None:
    transforms = [{"uid": "a", "type": "v8", "script": ""}, {"uid": "b", "type": "redis_set_filter"}]
    assert revision_usage(config(transforms=transforms)).filter_uids == ("b",)


@pytest.mark.parametrize(("parallelism", "workers"), [(1, 1), (64, 64), ({"min": 2, "max": 7}, 7)])
def test_workers_are_the_most_that_may_run(parallelism: object, workers: int) -> None:
    assert revision_usage(config(parallelism=parallelism)).workers == workers


def test_a_configuration_of_another_version_counts_too() -> None:
    found = revision_usage('{"transforms": null, "unknown": true}')
    assert (found.script_bytes, found.workers, found.filter_uids) == (0, 1, ())


NUMBERS = st.integers(0, 20)


@given(NUMBERS, NUMBERS, st.one_of(st.none(), NUMBERS))
def test_a_quota_is_exceeded_only_by_what_grows_above_it(before: int, after: int, allowed: int | None) -> None:
    found = find_excess({"workers": before}, {"workers": after}, {"workers": allowed})
    if allowed is None or after <= allowed or after <= before:
        assert found is None
    else:
        assert found == Excess("workers", before, after, allowed)
