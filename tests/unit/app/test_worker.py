"""How a worker ends."""

import pytest

from headwater.app import worker
from headwater.engine.health import Reporter
from headwater.errors import Fenced, HeadwaterError, SourceGap
from headwater.model.worker import FENCED_STATUS
from tests.contract.test_orchestrator import worker_set


@pytest.mark.parametrize(("error", "status"), [(Fenced("another"), FENCED_STATUS), (SourceGap("gap"), worker.FAILED)])
def test_the_exit_status_tells_whether_another_took_its_place(
    error: HeadwaterError, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(worker, "_resources", fail)
    assert worker.run_worker(worker_set().spec, 0, Reporter()) == status
