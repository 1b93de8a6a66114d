"""Traces of rollouts: each deploy has one trace, whichever controller carries it out."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from headwater.controller.plan import MAX_DEATHS_ON_PROBATION
from headwater.tracing.spans import Span, deploy_context
from tests.unit.controller.world import DEPLOYMENT, FLOW, World, deployment

FIRST, SECOND = (deploy_context(DEPLOYMENT, generation) for generation in (1, 2))


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    stop = threading.Event()
    stop.set()
    world.controller.run(stop)


def redeploy(world: World) -> None:
    """Request the deploy of a second revision."""
    old = world.database.flows.get("owner", FLOW)
    changed = old.pipeline_config.model_copy(update={"parallelism": 1})
    world.database.flows.save(replace(old, revision=old.revision + 1, pipeline_config=changed))
    world.database.deployments.request_deploy("owner", FLOW, deployment())


def root_of(world: World, trace_id: int) -> Span:
    """Return the first span of a trace, of which there is one."""
    (root,) = [span for span in world.span_exporter.trace(trace_id) if span.parent is None]
    return root


def names(world: World, trace_id: int) -> list[str]:
    return [span.name for span in world.span_exporter.trace(trace_id)]


def test_a_stable_deploy(world: World) -> None:
    world.deploy()
    world.run(ticks=10)
    assert "deploy" not in names(world, FIRST.trace_id), "the revision is on probation"
    world.run(ticks=90)
    root = root_of(world, FIRST.trace_id)
    assert root.context == FIRST
    assert root.attributes["headwater.outcome"] == "Stable"
    assert root.error is None
    assert root.start_ns < root.events["ready"] < root.end_ns
    found = names(world, FIRST.trace_id)
    assert {"PrepareRevision", "EnsureWorkers", "start of a worker"} <= set(found)
    assert "hand-over" not in found, "no worker ran before"
    world.pass_time(50)
    assert names(world, FIRST.trace_id) == found, "a running pipeline makes no spans"


def test_a_redeploy_hands_over(world: World) -> None:
    world.deploy()
    world.pass_time(50)
    redeploy(world)
    world.pass_time(50)
    found = names(world, SECOND.trace_id)
    assert found.count("hand-over") == 1
    assert root_of(world, SECOND.trace_id).attributes["headwater.outcome"] == "Stable"


def test_a_deploy_that_another_one_replaces(world: World) -> None:
    world.deploy()
    world.run(ticks=10)
    redeploy(world)
    world.run(ticks=10)
    assert root_of(world, FIRST.trace_id).attributes["headwater.outcome"] == "Superseded"


def test_a_rollback(world: World) -> None:
    world.deploy()
    world.pass_time(50)
    redeploy(world)
    world.run(ticks=10)
    for _ in range(MAX_DEATHS_ON_PROBATION):
        world.orchestrator.die(DEPLOYMENT)
        world.run(ticks=10)
    root = root_of(world, SECOND.trace_id)
    assert root.attributes["headwater.outcome"] == "RolledBack"
    assert root.error is not None
    assert "keep exiting" in root.error


def test_a_new_leader_continues_the_trace(world: World) -> None:
    world.deploy()
    world.run(ticks=10)
    world.now += 100  # the lease of the first leader expires
    world.start_controller()
    world.pass_time(50)
    assert root_of(world, FIRST.trace_id).attributes["headwater.outcome"] == "Stable"
