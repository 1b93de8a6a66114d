"""Heartbeats contain the CPU time of the worker and of its scripts."""

import time

import pytest

from headwater.engine.heartbeat import HeartbeatReporter
from headwater.model.worker_protocol import Heartbeat


def test_heartbeats_have_cpu_times(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Heartbeat] = []
    reporter = HeartbeatReporter()
    monkeypatch.setattr(reporter.channel, "send", sent.append)
    reporter.report("ready")
    reporter.read_scripts_cpu_s = lambda: 2.5
    reporter.report("ready")
    assert [heartbeat.scripts_cpu_s for heartbeat in sent] == [0.0, 2.5]
    assert 0 < sent[0].cpu_s <= sent[1].cpu_s <= time.process_time()
