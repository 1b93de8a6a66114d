"""The Prometheus series of a controller, and of the lag of the prices worker."""

import pytest

from headwater.controller.controller_collector import ControllerCollector
from headwater.controller.pipeline_collector import PipelineCollector
from tests.unit.controller.world import DEPLOYMENT, FLOW, World

LAG = 12


@pytest.fixture
def world() -> World:
    world = World()
    world.deploy()
    world.run()
    return world


def samples(world: World) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return all samples by name."""
    collector = ControllerCollector(
        world.controller, world.orchestrator, lambda _, groups: dict.fromkeys(groups, LAG), "prices"
    )
    return {metric.name: [(sample.labels, sample.value) for sample in metric.samples] for metric in collector.collect()}


def test_a_leader_with_a_running_pipeline(world: World) -> None:
    found = samples(world)
    assert found["headwater_controller_leads"] == [({}, 1)]
    assert found["headwater_price_lag"] == [({}, LAG)]
    labels = {"config_id": FLOW, "deployment_id": DEPLOYMENT, "phase": "running"}
    assert found["headwater_pipeline_phase"] == [(labels, 1)]


def test_a_failing_loop_is_named(world: World) -> None:
    world.controller.sweep_loop.on_error(ZeroDivisionError())
    failing = {labels["loop"]: value for labels, value in samples(world)["headwater_controller_loop_failing"]}
    assert failing == {
        "reconciling deployments": 0,
        "sweeping": 1,
        "removing deleted configurations": 0,
        "redriving dead letters": 0,
        "choosing numbers of workers": 0,
        "comparing topics": 0,
        "managing workers": 0,
    }


def test_a_controller_that_does_not_lead_has_no_series_of_pipelines(world: World) -> None:
    """The leader has them too, so a sum over all controllers would count them twice."""
    world.start_controller()
    found = samples(world)
    assert found["headwater_controller_leads"] == [({}, 0)]
    assert found["headwater_pipeline_phase"] == []
    pipelines = PipelineCollector(world.orchestrator, lambda _, groups: dict.fromkeys(groups, LAG))
    with_samples = {metric.name for metric in pipelines.collect() if metric.samples}
    assert with_samples == {"headwater_unknown_deployments"}
