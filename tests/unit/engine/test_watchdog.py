"""Detection of calls that never return."""

import time
from threading import Event

import pytest

from headwater.engine import watchdog
from headwater.engine.watchdog import Watchdog


@pytest.fixture(autouse=True)
def check_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "CHECK_INTERVAL_S", 0.02)


def test_a_block_that_never_ends() -> None:
    timed_out = Event()
    with Watchdog(3, timed_out.set).watching():
        assert timed_out.wait(60)


def test_many_short_blocks_with_pauses_do_not_time_out() -> None:
    timed_out = Event()
    dog = Watchdog(10, timed_out.set)
    until = time.monotonic() + 0.6
    while time.monotonic() < until:
        for _ in range(100):
            with dog.watching():
                pass
    assert dog.is_alive()
    assert not timed_out.wait(0.4)
