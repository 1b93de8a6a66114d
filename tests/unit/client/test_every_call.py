"""Both clients have every call of the API's description, and understand its examples."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from headwater_client import AsyncHeadwater, Headwater, kafka, set_filter, v8
from tests.support.example_api import operation_of, operations
from tests.support.scripted_server import ScriptedServer
from tests.unit.client.conftest import KEY

WITHOUT_METHOD = {"getLiveness", "getProcessMetrics"}
"""Operations for load balancers and Prometheus."""
DOCUMENT = {"name": "x", "pipeline_config": {"source": {"chain": "base", "entity": "log"}, "sinks": [kafka("out")]}}
ID = "01ke0a2x8rv5c3m7qd9t4jw6hz"
FILTER = "01ke0a2x8rv5c3m7qd9t4jw6j0"
DATASET = "01ke0a4gt1n6b8y2kf5s7pm3xc"
VALUES = ["0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1"]

CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "getPriceStats": lambda hw, flow, dataset: hw.prices.stats([(VALUES[0], "base")]),
    "listTokens": lambda hw, flow, dataset: hw.prices.tokens(),
    "getPriceHistory": lambda hw, flow, dataset: hw.prices.history(VALUES[0], "base"),
    "explainPrice": lambda hw, flow, dataset: hw.prices.explain(VALUES[0], "base"),
    "listConfigurations": lambda hw, flow, dataset: hw.flows.list(),
    "createConfiguration": lambda hw, flow, dataset: hw.flows.create_from(DOCUMENT),
    "listDatasets": lambda hw, flow, dataset: hw.datasets.list(),
    "createDataset": lambda hw, flow, dataset: hw.datasets.create("watched"),
    "addDatasetEntriesByName": lambda hw, flow, dataset: hw.datasets.add_entries("watched", VALUES),
    "deleteDataset": lambda hw, flow, dataset: dataset.delete(),
    "getDataset": lambda hw, flow, dataset: hw.datasets.get(DATASET),
    "removeDatasetEntries": lambda hw, flow, dataset: dataset.remove(VALUES),
    "listDatasetEntries": lambda hw, flow, dataset: dataset.values(),
    "addDatasetEntries": lambda hw, flow, dataset: dataset.add(VALUES),
    "getAppliedDatasetVersion": lambda hw, flow, dataset: dataset.applied(2),
    "checkDatasetEntry": lambda hw, flow, dataset: dataset.check(VALUES[0]),
    "getLimits": lambda hw, flow, dataset: hw.limits(),
    "getMe": lambda hw, flow, dataset: hw.me(),
    "signIn": lambda hw, flow, dataset: hw.sign_in("hZ3l0sX1c5oQy8RkPq2vTn7bWm4Dg6Fj9JtEuKxAiLs"),
    "signOut": lambda hw, flow, dataset: hw.sign_out(),
    "getOverview": lambda hw, flow, dataset: hw.flows.overview(),
    "listStreams": lambda hw, flow, dataset: hw.streams.list(),
    "getStreamRecords": lambda hw, flow, dataset: hw.streams.records("base", "log"),
    "tailStream": lambda hw, flow, dataset: hw.streams.tail("base", "log"),
    "tailSeveral": lambda hw, flow, dataset: hw.tail("base/log", f"{ID}/transfers"),
    "validateConfiguration": lambda hw, flow, dataset: hw.flows.validate(DOCUMENT, records=[{"n": 1}]),
    "deleteConfiguration": lambda hw, flow, dataset: flow.delete(),
    "getConfiguration": lambda hw, flow, dataset: hw.flows.get(ID),
    "replaceConfiguration": lambda hw, flow, dataset: flow.replace(DOCUMENT, if_revision=1),
    "listDeadLetters": lambda hw, flow, dataset: flow.dead_letters.list(),
    "redriveDeadLetters": lambda hw, flow, dataset: flow.dead_letters.start_redrive(ids=["0/17"]),
    "summarizeDeadLetters": lambda hw, flow, dataset: flow.dead_letters.summary(),
    "getDeployment": lambda hw, flow, dataset: flow.deployment(),
    "deployConfiguration": lambda hw, flow, dataset: flow.deploy(),
    "rotateCredentials": lambda hw, flow, dataset: flow.rotate_credentials(),
    "getDeploymentLogs": lambda hw, flow, dataset: flow.logs(limit=10),
    "getDeploymentMetrics": lambda hw, flow, dataset: flow.metrics("1d", types=["messages_received"]),
    "getDeploymentRecords": lambda hw, flow, dataset: flow.records("transfers"),
    "tailDeployment": lambda hw, flow, dataset: flow.tail("transfers"),
    "getDeploymentStats": lambda hw, flow, dataset: flow.stats(),
    "pausePipeline": lambda hw, flow, dataset: flow.pause(),
    "getRedrive": lambda hw, flow, dataset: flow.dead_letters.redrive_state("01ke0a2x8rv5c3m7qd9t4jw6j5"),
    "resumePipeline": lambda hw, flow, dataset: flow.resume(),
    "listRevisions": lambda hw, flow, dataset: flow.revisions(),
    "getRevision": lambda hw, flow, dataset: flow.read_revision(1),
    "diffRevisions": lambda hw, flow, dataset: flow.diff(2, against=1),
    "rewindPipeline": lambda hw, flow, dataset: flow.rewind("earliest"),
    "rollBack": lambda hw, flow, dataset: flow.rollback(3),
    "tearDown": lambda hw, flow, dataset: flow.teardown(),
    "replaceTransforms": lambda hw, flow, dataset: flow.replace_transforms([v8("function process(r) { return r; }")]),
    "changeTransform": lambda hw, flow, dataset: flow.change_transform(FILTER, set_filter("root = this.a")),
    "removeFilterValues": lambda hw, flow, dataset: flow.filters[FILTER].remove(VALUES),
    "listFilterValues": lambda hw, flow, dataset: flow.filters[FILTER].values(),
    "addFilterValues": lambda hw, flow, dataset: flow.filters[FILTER].add(VALUES),
    "replaceFilterValues": lambda hw, flow, dataset: flow.filters[FILTER].replace(VALUES),
    "getAppliedFilterVersion": lambda hw, flow, dataset: flow.filters[FILTER].applied(),
    "checkFilterValue": lambda hw, flow, dataset: flow.filters[FILTER].check(VALUES[0]),
    "countFilterValues": lambda hw, flow, dataset: flow.filters[FILTER].count(),
    "getReadiness": lambda hw, flow, dataset: hw.readiness(),
}


def test_every_operation_has_a_call() -> None:
    assert set(CALLS) == set(operations()) - WITHOUT_METHOD


@pytest.mark.parametrize("name", sorted(CALLS))
def test_the_synchronous_client(name: str, example_server: ScriptedServer) -> None:
    with Headwater(example_server.url, KEY) as hw:
        flow, dataset = hw.flows.get(ID), hw.datasets.get(DATASET)
        before = len(example_server.requests)
        result = CALLS[name](hw, flow, dataset)
        assert not inspect.isawaitable(result)
        if isinstance(result, Iterator):
            assert next(result)
    assert name in [operation_of(request) for request in example_server.requests[before:]]


@pytest.mark.parametrize("name", sorted(CALLS))
def test_the_asynchronous_client(name: str, example_server: ScriptedServer) -> None:
    asyncio.run(_call(name, example_server))


async def _call(name: str, server: ScriptedServer) -> None:
    async with AsyncHeadwater(server.url, KEY) as hw:
        flow, dataset = await hw.flows.get(ID), await hw.datasets.get(DATASET)
        before = len(server.requests)
        result = CALLS[name](hw, flow, dataset)
        if isinstance(result, AsyncIterator):
            assert await anext(result)
            await result.aclose()  # type: ignore[attr-defined]  # the iterations of the client are generators
        else:
            await result
    assert name in [operation_of(request) for request in server.requests[before:]]
