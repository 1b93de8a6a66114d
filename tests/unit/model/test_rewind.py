"""Requests to rewind: the same request again does not move the positions twice."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headwater.model import rollout
from headwater.model.deployment import Deployment, Phase
from headwater.model.rollout import REWIND_REPEATABLE_FOR
from tests.support.sql import a_deployment

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def rewound(*, state: str = "done", is_answered: bool = False, phase: Phase = Phase.RUNNING) -> Deployment:
    """Return a deployment after the controller has carried out a rewind."""
    requested = rollout.rewind(replace(a_deployment(), phase=Phase.RUNNING), "latest", NOW)
    assert requested.rewind is not None
    result = requested.rewind.model_copy(update={"state": state, "is_answered": is_answered})
    return replace(requested, phase=phase, observed_generation=requested.generation, rewind=result)


def test_a_result_that_no_client_got_is_returned() -> None:
    current = rewound()
    assert rollout.rewind(current, "latest", NOW + SECOND) == current


@pytest.mark.parametrize(
    ("current", "to", "after"),
    [
        (rewound(is_answered=True), "latest", SECOND),
        (rewound(state="failed"), "latest", SECOND),
        (rewound(phase=Phase.FAILED), "latest", SECOND),
        (rewound(), "earliest", SECOND),
        (rewound(), "latest", REWIND_REPEATABLE_FOR),
        (replace(rewound(), generation=9), "latest", SECOND),
    ],
)
def test_a_new_rewind(current: Deployment, to: str, after: timedelta) -> None:
    assert rollout.rewind(current, to, NOW + after).generation == current.generation + 1
