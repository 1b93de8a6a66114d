import signal
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.model.deployment import ObservedWorkerStatus
from headwater.model.worker_protocol import Heartbeat
from headwater.orchestrators.slot import QUIET_REASON, Slot, SlotRole


def running(spec_hash: str, state: str = "ready", reason: str = "", *, quiet: bool = False) -> Any:
    heartbeat = Heartbeat(state=state, spec_hash=spec_hash, reason=reason)
    return SimpleNamespace(
        spec_hash=spec_hash,
        stop_deadline=None,
        isolation=None,
        heartbeat=heartbeat,
        reported_state=state,
        reason=reason,
        is_quiet=quiet,
        start_time="2026-01-02T03:04:05Z",
        was_killed_stuck=False,
        was_killed_over_limit=False,
        oom_kills=SimpleNamespace(is_recent=False),
        close=lambda: None,
    )


@pytest.mark.parametrize(("wanted", "takes_over"), [("second", True), ("third", False), (None, False)])
def test_a_successor_takes_over_while_it_is_the_one_that_is_wanted(wanted: str | None, takes_over: bool) -> None:
    slot = Slot("d-0")
    slot.worker.set_wanted_spec("second")
    slot.successor = SlotRole(wanted_spec_hash=wanted, process=running("second"))
    assert slot.promote() is takes_over
    assert (slot.worker.process is not None) is takes_over


def test_a_worker_that_waits_in_silence_keeps_its_reason() -> None:
    slot = Slot("d-0")
    slot.worker = SlotRole(
        wanted_spec_hash="one", process=running("one", "waiting", "Kafka does not answer.", quiet=True)
    )
    status = slot.status(slot.worker, 0.0)
    assert (status.is_ready, status.waits, status.reason) == (False, True, "Kafka does not answer.")
    slot.worker.process = running("one", "ready", quiet=True)
    assert slot.status(slot.worker, 0.0).reason == QUIET_REASON


def test_only_the_last_death_is_shown_as_status() -> None:
    slot = Slot("d-0")
    slot.worker = SlotRole(wanted_spec_hash="one")
    for was_killed_over_limit, shown in [
        (True, ObservedWorkerStatus.OOM_KILLED),
        (False, ObservedWorkerStatus.PENDING),
    ]:
        ended = running("one")
        ended.was_killed_over_limit = was_killed_over_limit
        slot.worker.process = ended
        slot.record_exit(slot.worker, -signal.SIGKILL, 0.0)
        slot.worker.deaths_in_a_row = 1
        status = slot.status(slot.worker, 1.0)
        assert (status.status, status.is_oom_killed) == (shown, True)
