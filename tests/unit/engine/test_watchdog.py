"""Waits that have no end of their own."""

import time
from threading import Event

import pytest

from headwater.engine import watchdog
from headwater.engine.watchdog import Watchdog


@pytest.fixture(autouse=True)
def tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "TICK_S", 0.02)


def test_a_block_that_never_ends() -> None:
    overdue = Event()
    with Watchdog(3, overdue.set).watching():
        assert overdue.wait(60)


def test_many_short_ones_and_pauses_are_none() -> None:
    overdue = Event()
    dog = Watchdog(50, overdue.set)
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        for _ in range(100):
            with dog.watching():
                pass
    assert dog.is_alive()
    assert not overdue.wait(1.5)
