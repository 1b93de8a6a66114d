"""The time since which a worker is not ready."""

from datetime import UTC, datetime, timedelta

from headwater.controller.worker_readiness import with_not_ready_since
from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus

T0 = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def worker(name: str = "w-0", *, is_ready: bool = False) -> ObservedWorker:
    return ObservedWorker(name=name, status=ObservedWorkerStatus.RUNNING, is_ready=is_ready, start_time=T0)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def test_a_ready_worker_has_no_time() -> None:
    before = with_not_ready_since([worker()], [], at(1))
    assert [one.not_ready_since for one in with_not_ready_since([worker(is_ready=True)], before, at(2))] == [None]


def test_the_time_is_kept_until_the_worker_is_ready() -> None:
    observed = with_not_ready_since([worker()], [], at(1))
    assert observed[0].not_ready_since == at(1)
    observed = with_not_ready_since([worker()], observed, at(2))
    assert observed[0].not_ready_since == at(1)
    observed = with_not_ready_since([worker(is_ready=True)], observed, at(3))
    assert with_not_ready_since([worker()], observed, at(4))[0].not_ready_since == at(4)


def test_each_worker_has_a_time_of_its_own() -> None:
    observed = with_not_ready_since([worker("a")], [], at(1))
    observed = with_not_ready_since([worker("a"), worker("b")], observed, at(2))
    assert [one.not_ready_since for one in observed] == [at(1), at(2)]
