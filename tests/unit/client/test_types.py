"""The types that a user's type checker sees; mypy checks them, and the tests run them."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import assert_type

from headwater_client import AsyncFilter, AsyncFlow, AsyncHeadwater, Filter, Flow, Headwater, Upload
from headwater_client.consumer import ConsumedRecord
from headwater_client.models.account import OverviewItem, Quota
from headwater_client.models.deployment import Deployment
from headwater_client.models.records import Record
from headwater_client.operations import SyncIterator
from tests.support.scripted_server import ScriptedServer
from tests.unit.client.conftest import KEY

ID = "01ke0a2x8rv5c3m7qd9t4jw6hz"
FILTER = "01ke0a2x8rv5c3m7qd9t4jw6j0"


def test_the_synchronous_client(example_server: ScriptedServer) -> None:
    with Headwater(example_server.url, KEY) as hw:
        flow = assert_type(hw.flows.get(ID), Flow)
        assert_type(flow.refresh(), Flow)
        assert_type(flow.update(name="x"), Flow)
        assert_type(flow.filters[FILTER], Filter)
        assert_type(flow.filters[FILTER].add(["a"]), Upload)
        assert_type(flow.filters[FILTER].check("a"), bool)
        deployment = assert_type(flow.deploy(), Deployment)
        assert_type(deployment.consume("transfers"), Iterator[ConsumedRecord])
        assert_type(flow.tail("transfers"), SyncIterator[Record])
        assert_type(hw.flows.list(), SyncIterator[Flow])
        assert_type(hw.flows.overview(), SyncIterator[OverviewItem])
        assert_type(hw.limits(), Sequence[Quota])


async def use_the_asynchronous_client(url: str) -> None:
    async with AsyncHeadwater(url, KEY) as hw:
        flow = assert_type(await hw.flows.get(ID), AsyncFlow)
        assert_type(await flow.refresh(), AsyncFlow)
        assert_type(flow.filters[FILTER], AsyncFilter)
        assert_type(await flow.filters[FILTER].add(["a"]), Upload)
        assert_type(await flow.deploy(), Deployment)
        assert_type(flow.tail("transfers"), AsyncGenerator[Record, None])
        assert_type(hw.flows.list(), AsyncGenerator[AsyncFlow, None])
        assert_type(await hw.limits(), Sequence[Quota])


def test_the_asynchronous_client(example_server: ScriptedServer) -> None:
    asyncio.run(use_the_asynchronous_client(example_server.url))
