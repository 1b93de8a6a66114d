"""Helpers for tests of the worker."""

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from headwater.engine.orchestrator_channel import SocketPairChannel
from headwater.engine.worker import Worker
from headwater.model.worker_protocol import JOIN
from tests.unit.engine.world import OUTPUTS, Member, World, origin

exactly_once = pytest.mark.parametrize("exactly_once", [False, True], ids=["at least once", "exactly once"])


def steps(member: Member, count: int, until: Callable[[], bool] = lambda: False) -> None:
    for _ in range(count):
        if until():
            return
        member.worker.run_once()


def errors(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    return [line["event"] for line in lines if line["log_level"] == "error"]


def arrived(world: World, topic: str = OUTPUTS[0]) -> list[str]:
    return [origin(r) for r in world.arrived(topic)]


def states(world: World, act: Callable[[Worker], None]) -> list[tuple[str, str]]:
    ours, theirs = socket.socketpair()
    with ours:
        ours.send(JOIN)
        with theirs:
            act(world.member(SocketPairChannel(theirs.fileno())).worker)
        with ours.makefile() as lines:
            heartbeats = [json.loads(line) for line in lines]
    states_and_reasons = [(beat["state"], beat["reason"]) for beat in heartbeats]
    return list(dict.fromkeys(states_and_reasons))
