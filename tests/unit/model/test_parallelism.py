"""The number of workers of a pipeline: a fixed number, or bounds."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from headwater.model.deployment import DeployedRevision
from headwater.model.parallelism import Scaling, WorkerBounds
from tests.support.sql import a_config, a_deployment

BOUNDS = {"min": 2, "max": 8}


def workers(parallelism: object, chosen: int | None) -> int:
    scaling = None if chosen is None else Scaling(workers=chosen, reason="Load.", changed_at=datetime.now(UTC))
    deployment = replace(a_deployment(), scaling=scaling)
    return deployment.worker_count(DeployedRevision(1, a_config(parallelism=parallelism), 1))


@pytest.mark.parametrize(
    ("parallelism", "chosen", "count"),
    [(3, None, 3), (3, 5, 3), (BOUNDS, None, 2), (BOUNDS, 5, 5), (BOUNDS, 1, 2), (BOUNDS, 64, 8)],
)
def test_the_chosen_number_is_kept_within_the_bounds_of_each_revision(
    parallelism: object, chosen: int | None, count: int
) -> None:
    assert workers(parallelism, chosen) == count


def test_bounds_are_stored_as_they_were_sent() -> None:
    assert a_config(parallelism=BOUNDS).model_dump()["parallelism"] == BOUNDS
    assert a_config(parallelism=4).model_dump()["parallelism"] == 4


@pytest.mark.parametrize("bounds", [{"min": 3, "max": 2}, {"min": 0, "max": 2}, {"min": 1, "max": 65}, {"min": 1}])
def test_invalid_bounds(bounds: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        WorkerBounds.model_validate(bounds)
