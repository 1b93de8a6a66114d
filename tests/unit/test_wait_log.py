"""A wait is logged at once, and again every minute while it lasts."""

from structlog.testing import capture_logs

from headwater.wait_log import WAIT_LOG_EVERY_S, WaitLog


def test_a_wait_is_logged_when_it_begins_and_again_while_it_lasts() -> None:
    now = 0.0
    wait_log = WaitLog("waiting", lambda: now)
    with capture_logs() as lines:
        for now in (0.0, 1.0, WAIT_LOG_EVERY_S - 1, WAIT_LOG_EVERY_S, WAIT_LOG_EVERY_S + 1):
            wait_log.log_if_due(reason=f"at {now}")
    assert [line["reason"] for line in lines] == ["at 0.0", f"at {WAIT_LOG_EVERY_S}"]
