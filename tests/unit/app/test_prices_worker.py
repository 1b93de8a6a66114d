"""A prices worker ends with a status on which its supervisor restarts it.

It logs the reason.
"""

from typing import Any

import pytest
from structlog.testing import capture_logs

from headwater.app.prices_worker import run_until_end
from headwater.errors import HeadwaterError, RedisUnavailable, WorkerError


class Ending:
    """A worker whose loop ends with this result."""

    def __init__(self, end: bool | Exception) -> None:
        self._end = end

    def run(self) -> bool:
        if isinstance(self._end, Exception):
            raise self._end
        return self._end


def ended(end: bool | Exception) -> tuple[object, list[Any]]:
    """Return the exit status and the log lines."""
    with capture_logs() as lines, pytest.raises(SystemExit) as caught:
        run_until_end(Ending(end))  # type: ignore[arg-type]
    return caught.value.code, list(lines)


@pytest.mark.parametrize("error", [WorkerError("x"), RedisUnavailable("x"), ZeroDivisionError("x")])
def test_every_error_ends_the_process_with_a_line_in_the_log(error: Exception) -> None:
    status, (line,) = ended(error)
    assert (status, line["event"], line["log_level"]) == (1, "the prices worker ends", "error")
    assert line.get("reason") == "x" if isinstance(error, HeadwaterError) else line["exc_info"]


@pytest.mark.parametrize(("complete", "status"), [(True, 0), (False, 1)])
def test_the_exit_status_depends_on_whether_all_ticks_are_stored(*, complete: bool, status: int) -> None:
    assert ended(complete) == (status, [])
