"""The probe of the controller, whose error the log of /readyz shows."""

import pytest

from headwater.app import build_api
from headwater.controller.leadership import CONTROLLER_LEASE
from headwater.errors import OrchestratorUnavailable
from headwater.model.lease import Candidate
from tests.support.memory.leases import MemoryLeases


def test_a_failure_of_the_controller_is_quoted_in_a_whole_sentence() -> None:
    leases = MemoryLeases()
    leases.acquire(CONTROLLER_LEASE, Candidate("a", current_failure="sweeping: KeyError"), 10.0)
    with pytest.raises(OrchestratorUnavailable) as raised:
        build_api._require_leader(leases)
    assert raised.value.detail == (
        "Part of the controller's work fails (sweeping: KeyError). See the log of the controller."
    )
