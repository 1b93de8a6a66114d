"""All pipelines of the API key's owner."""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Literal, TypeVar

from headwater_client.builders import Document, Source, flow_document, without_none
from headwater_client.call import Call, path
from headwater_client.errors import Ambiguous, NotFound
from headwater_client.links import next_cursor
from headwater_client.models.account import OverviewItem, OverviewPage
from headwater_client.models.flow_config import FlowConfig
from headwater_client.models.trials import Trial
from headwater_client.operations import Asynchronous, Synchronous, iteration, operation
from headwater_client.problem import Problem
from headwater_client.resources.base_resource import Resource
from headwater_client.resources.flow import AsyncFlow, Flow, FlowOperations
from headwater_client.session import Session, typed

FlowT = TypeVar("FlowT", bound=FlowOperations)
FLOW = path("flow")
_ID = re.compile("[0-9a-z]{26}")
"""An id of a configuration. A pipeline may have the name of another resource below /flow, such as `streams`."""


class FlowsOperations(Resource, Generic[FlowT]):
    """All pipelines of the API key's owner."""

    def __init__(self, session: Session, kind: type[FlowT]) -> None:
        super().__init__(session)
        self._kind = kind

    @operation
    async def create(
        self,
        *,
        name: str,
        source: Source,
        sinks: Sequence[Document],
        transforms: Sequence[Document] = (),
        description: str | None = None,
        tags: Sequence[str] | None = None,
        external_id: str | None = None,
        parallelism: int | Mapping[str, int] | None = None,
        delivery: Literal["at_least_once", "exactly_once"] | None = None,
        timeout: float | None = None,
    ) -> FlowT:
        """Create a configuration. Nothing runs until it is deployed.

        Args:
            name: The name, which need not be unique.
            source: The stream: `("base", "log")`, or what `source(…)` returns.
            sinks: What `kafka(…)` and `prices(…)` return, or JSON objects.
            transforms: What `set_filter(…)` and `v8(…)` return, or JSON objects.
            description: What the pipeline is for.
            tags: Words to organize pipelines by.
            external_id: Your own id of the configuration, unique among yours.
            parallelism: The number of workers, or `{"min": 1, "max": 8}`.
            delivery: `at_least_once` or `exactly_once`.
            timeout: The seconds to wait for the server.

        >>> token = set_filter("root = this.token_address", values=["0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1"])
        >>> hw.flows.create(name="transfers", source=("base", "log"), transforms=[token], sinks=[kafka("transfers")])
        Flow(id='01ke0a2x8rv5c3m7qd9t4jw6hz', name='Transfers of one token', revision=1)
        """
        document = flow_document(
            name,
            source,
            transforms,
            sinks,
            description=description,
            tags=tags,
            external_id=external_id,
            parallelism=parallelism,
            delivery=delivery,
        )
        return self._bind(await self._post(FLOW, FlowConfig, document, timeout))

    @operation
    async def create_from(self, document: Document, *, timeout: float | None = None) -> FlowT:
        """Create a configuration from a whole JSON object.

        >>> pipeline = {"source": {"chain": "base", "entity": "log"}, "sinks": [kafka("transfers")]}
        >>> hw.flows.create_from({"name": "transfers", "pipeline_config": pipeline}).revision
        1
        """
        return self._bind(await self._post(FLOW, FlowConfig, document, timeout))

    @operation
    async def get(self, config_id: str, *, timeout: float | None = None) -> FlowT:
        """Return the pipeline with this id. Raises NotFound.

        >>> hw.flows.get("01ke0a2x8rv5c3m7qd9t4jw6hz").name
        'Transfers of one token'
        """
        return self._bind(await self._get(path("flow", config_id), FlowConfig, timeout))

    @operation
    async def find(self, reference: str, *, timeout: float | None = None) -> FlowT:
        """Return the pipeline with this id, external id or name, in this order.

        Raises NotFound, and Ambiguous when several pipelines have the name.

        >>> hw.flows.find("01ke0a2x8rv5c3m7qd9t4jw6hz").revision
        1
        """
        if _ID.fullmatch(reference):
            with suppress(NotFound):
                return self._bind(await self._get(path("flow", reference), FlowConfig, timeout))
        return await self._find_by_name(reference, timeout)

    @operation
    async def find_external(self, external_id: str, *, timeout: float | None = None) -> FlowT | None:
        """Return the pipeline with this external id; None when there is none.

        >>> hw.flows.find_external("wallets/usdc").id
        '01ke0a2x8rv5c3m7qd9t4jw6hz'
        """
        found = await self._get(FLOW, list[FlowConfig], timeout, external_id=external_id)
        return self._bind(found[0]) if found else None

    @iteration
    async def list(self, *, page_size: int = 100, timeout: float | None = None) -> AsyncGenerator[FlowT, None]:
        """Yield the pipelines, newest first. `overview` yields their states and rates too.

        >>> [flow.name for flow in hw.flows.list()]
        ['Transfers of one token']
        """
        cursor: str | None = None
        while True:
            call = Call("GET", FLOW, list[FlowConfig], {"limit": page_size, "cursor": cursor}, timeout=timeout)
            page = await self._session.send_raw(call)
            for config in typed(page.body, call):
                yield self._bind(config)
            cursor = next_cursor(page.headers)
            if cursor is None:
                return

    @iteration
    async def overview(
        self,
        *,
        q: str | None = None,
        tag: str | None = None,
        state: str | None = None,
        page_size: int = 100,
        timeout: float | None = None,
    ) -> AsyncGenerator[OverviewItem, None]:
        """Yield the pipelines with their states, rates and errors of the last hour.

        Args:
            q: Only pipelines whose id, name or external id contains this text.
            tag: Only pipelines with this tag.
            state: Only `draft`, `deployed`, `paused`, `failing` or `unreadable` pipelines.
            page_size: The number of pipelines in one request.
            timeout: The seconds to wait for each response.

        >>> [(item.name, item.state, item.lag) for item in hw.flows.overview()]
        [('transfers', 'deployed', 12)]
        """
        query = {"q": q, "tag": tag, "state": state, "limit": page_size}
        async for item in self._items(path("flow", "overview"), OverviewPage, query, timeout):
            yield item

    @operation
    async def validate(
        self,
        document: Document,
        *,
        records: Sequence[Any] | None = None,
        sample: Document | None = None,
        against: Literal["deployed"] | int | None = None,
        detail: Literal["records", "summary"] | None = None,
        timeout: float | None = None,
    ) -> Trial:
        """Run a configuration on sample records, and return what each transform does to them.

        Nothing is saved.

        Args:
            document: A configuration, as for `create_from`; with the `id` of a stored one, its filters' live values
                are used.
            records: Sample records.
            sample: In place of `records`, records of the stream: `{"last": 1000}`.
            against: The revision whose results are compared with the results of this configuration.
            detail: `summary` leaves the results of single records out.
            timeout: The seconds to wait for the server.

        >>> pipeline = {"source": {"chain": "base", "entity": "log"}, "sinks": [kafka("transfers")]}
        >>> trial = hw.flows.validate({"name": "transfers", "pipeline_config": pipeline}, records=[{"n": 1}])
        >>> trial.records[0].outputs[0]["raw_amount"]
        123456789012345678901234567890
        """
        members = without_none({"records": records, "sample": sample, "against": against, "detail": detail})
        return await self._post(path("flow", "validate"), Trial, {**document, **members}, timeout)

    async def _find_by_name(self, name: str, timeout: float | None) -> FlowT:
        if found := await self._get(FLOW, list[FlowConfig], timeout, external_id=name):
            return self._bind(found[0])
        items = self._items(path("flow", "overview"), OverviewPage, {"q": name, "limit": 200}, timeout)
        named = [(item.id, item.name) async for item in items if item.name == name]
        if len(named) > 1:
            raise Ambiguous(name, named)
        if not named:
            raise NotFound(
                Problem(status=404, detail=f"You have no pipeline with the id, external id or name {name!r}.")
            )
        return self._bind(await self._get(path("flow", named[0][0]), FlowConfig, timeout))

    def _bind(self, config: FlowConfig) -> FlowT:
        return self._kind(self._session, config)


class Flows(FlowsOperations[Flow], Synchronous):
    """All pipelines of the API key's owner."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, Flow)


class AsyncFlows(FlowsOperations[AsyncFlow], Asynchronous):
    """All pipelines of the API key's owner, for asyncio."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, AsyncFlow)
