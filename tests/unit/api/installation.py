"""A complete API on stores in memory, and the HTTP client of one of its users."""

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI

from headwater.api.app import create_api
from headwater.api.dependencies import ReadinessProbe, Services
from headwater.errors import InvalidScript
from headwater.model.binding import Bindings, KafkaTopic
from headwater.model.deployment import Condition, Deployment, DeploymentProgress, Observation, Phase
from headwater.model.key import DEFAULT_SCOPES
from headwater.model.positions import Move, OffsetGap
from headwater.model.record import Failure, RecordBatch, TransformResult
from headwater.model.transforms.v8 import V8Transform, ValidatedScript
from headwater.native import BytesColumn
from headwater.prices.source import GROUP as PRICES_GROUP
from headwater.sandbox import Sandbox
from headwater.services.applied_versions import AppliedVersions
from headwater.services.audit import AuditedSets
from headwater.services.datasets import Datasets
from headwater.services.dead_letters import DeadLetters
from headwater.services.deployment_metrics import DeploymentMetrics
from headwater.services.deployments import Deployments, KafkaEndpoint
from headwater.services.filters import Filters
from headwater.services.flows import Flows, FlowStores
from headwater.services.idempotency import IdempotencyService
from headwater.services.ids import new_id
from headwater.services.keys import Keys
from headwater.services.lag_cache import LagCache
from headwater.services.overview import Overview
from headwater.services.pipeline_checker import PipelineChecker
from headwater.services.price_details import PriceDetails
from headwater.services.prices import Prices
from headwater.services.prices_workers import PricesWorkers
from headwater.services.quotas import QuotaEnforcingSets, QuotaStores
from headwater.services.records import Records
from headwater.services.redrives import Redrives
from headwater.services.revisions import Revisions
from headwater.services.samples import Samples
from headwater.services.sign_in import SignIns
from headwater.services.tail_connections import TailLimits, Tails
from headwater.services.trials import Trials, TrialStores
from headwater.services.viewable_topics import ViewableTopics
from headwater.stores.protocols.deployments import DeploymentStore
from headwater.stores.protocols.sets import SetLookup
from headwater.stores.sql.database import Database
from headwater.transforms import TRANSFORMS
from headwater.transforms.base import TransformContext
from headwater.transforms.transform_type import TransformType, ValidateScript
from tests.support.memory.broker import MemoryClusterAdmin
from tests.support.memory.metrics import MemoryMetrics
from tests.support.memory.prices import MemoryPrices
from tests.support.memory.redrives import MemoryRedriveOutcomes
from tests.support.memory.sets import MemoryDatasetNames, MemoryPendingSets, MemoryReservations, MemorySetStore
from tests.support.memory.tail_reader import MemoryTailReader
from tests.support.memory.tail_slots import MemoryTailSlots
from tests.support.memory.topic_history import MemoryTopicHistory
from tests.support.sql import fresh_database

FLOW = "/api/v1/flow"
TOKEN = "0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1"


def flow_body(**pipeline: Any) -> dict[str, Any]:
    """Return a body that creates a configuration.

    `pipeline` replaces members of its pipeline_config.
    """
    config = {
        "source": {"chain": "base", "entity": "erc20_token_transfer"},
        "transforms": [
            {"type": "redis_set_filter", "filter_expr": "root = this.token_address"},
            {"type": "v8", "script": "function process(record) { return record; }"},
        ],
        "sinks": [{"type": "kafka", "name": "transfers"}],
    }
    return {"name": "Transfers", "description": "of one token", "tags": ["a"], "pipeline_config": config | pipeline}


class Unread:
    """A request body whose read fails the test."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")


def validate_script(script: str, example: str) -> ValidatedScript:
    """Replaces the sandbox: the text of a script says what the sandbox would find."""
    assert example.startswith("{")
    if "syntax error" in script:
        raise InvalidScript("Unexpected token in line 2, column 7.", line=2, column=7)
    if "process" not in script:
        raise InvalidScript("The script defines no function process.")
    return ValidatedScript(["TypeError: x is undefined"] if "throws" in script else [])


class Script:
    """Replaces a v8 transform.

    It adds a member to each record and logs a line, or fails, or takes half a minute.
    """

    uid = ""

    def __init__(self, config: V8Transform, _resources: TransformContext) -> None:
        self._script = config.script

    def start(self, batch: RecordBatch) -> "Script":
        self._batch = batch
        return self

    def done(self) -> bool:
        return True

    def wait(self, timeout_s: float) -> None: ...

    def result(self) -> TransformResult:
        if "fails" in self._script:
            failures = [Failure(i, "TypeError", "x is undefined", "", 2, 7) for i in range(len(self._batch))]
            return TransformResult(self._batch.select([False] * len(self._batch)), failures, ["before it failed"])
        values = [value[:-1] + b',"seen":true}' for value in self._batch.values if value]
        return TransformResult(replace(self._batch, values=BytesColumn.of(values)), [], [f"saw {len(values)}"])

    def close(self) -> None: ...


@dataclass
class Clock:
    """A clock that only a test advances."""

    now: datetime = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)

    def __call__(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.now.timestamp()

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Controller:
    """A DeploymentStore that acts as the controller.

    Each read returns the state after the controller has acted.

    Attributes:
        reasons: The reasons for which the next rollouts fail, in order.
        rolls_back_to: The revision that runs after a failed rollout; None when none runs.
        asleep: Whether the controller does nothing.
        moves: The positions before and after each rewind.
        rewind_error: Why rewinds fail; empty when they do not.
        gaps: The gaps of each resume.
    """

    def __init__(self, store: DeploymentStore) -> None:
        self._store = store
        self.reasons: list[str] = []
        self.rolls_back_to: int | None = None
        self.asleep = False
        self.moves: dict[int, Move] = {}
        self.rewind_error = ""
        self.gaps: tuple[OffsetGap, ...] = ()
        self.request_deploy = store.request_deploy
        self.request_redeploy = store.request_redeploy
        self.request_teardown = store.request_teardown
        self.request_pause = store.request_pause
        self.request_resume = store.request_resume
        self.request_rewind = store.request_rewind
        self.mark_rewind_answered = store.mark_rewind_answered
        self.list_active = store.list_active
        self.ended_among = store.ended_among
        self.delete_ended = store.delete_ended
        self.write_observations = store.write_observations
        self.report_workers = store.report_workers
        self.write_scaling = store.write_scaling
        self.reported_workers = store.reported_workers
        self.request_credential_rotation = store.request_credential_rotation
        self.undeployed_among = store.undeployed_among
        self.obsolete_topics = store.obsolete_topics
        self.active_versions = store.active_versions
        self.record_as_ended = store.record_as_ended
        self.write_logs = store.write_logs
        self.read_logs = store.read_logs

    def progress(self, config_ids: Collection[str]) -> Mapping[str, DeploymentProgress]:
        active = (self.active(config_id) for config_id in config_ids)
        return {
            deployment.config_id: DeploymentProgress.of(deployment) for deployment in active if deployment is not None
        }

    def active(self, config_id: str) -> Deployment | None:
        deployment = self._store.active(config_id)
        if deployment is None or self.asleep:
            return deployment
        if deployment.is_reconciled and deployment.observed_credentials_version == deployment.credentials_version:
            return deployment
        self._store.write_observations([self._act(deployment)])
        return self._store.active(config_id)

    def _act(self, deployment: Deployment) -> Observation:
        generation = deployment.generation
        if deployment.desired == "absent":
            return Observation(deployment.id, Phase.ABSENT, None, generation, Condition.STABLE)
        rewind = deployment.rewind
        if rewind is not None and rewind.is_pending:
            rewind = rewind.model_copy(update={"state": "done", "moves": self.moves, "error": self.rewind_error})
        if deployment.desired == "paused":
            return Observation(
                deployment.id,
                Phase.PAUSED,
                deployment.observed_revision,
                generation,
                deployment.condition,
                deployment.reason,
                rewind=rewind,
            )
        if self.reasons:
            reason = self.reasons.pop(0)
            if self.rolls_back_to is None:
                return Observation(deployment.id, Phase.FAILED, None, generation, Condition.FAILED, reason)
            return Observation(
                deployment.id, Phase.RUNNING, self.rolls_back_to, generation, Condition.ROLLED_BACK, reason
            )
        return Observation(
            deployment.id,
            Phase.RUNNING,
            deployment.desired_revision,
            generation,
            Condition.STABLE,
            observed_credentials_version=deployment.credentials_version,
            rewind=rewind,
            gaps=self.gaps if deployment.phase is Phase.PAUSED else None,
        )


@dataclass
class User:
    """Sends requests with one API key."""

    http: httpx2.AsyncClient
    portal: BlockingPortal
    key: str = ""

    def start(self, method: str, path: str, **options: Any) -> Future[httpx2.Response]:
        """Send a request without waiting for its response."""
        headers = {"X-API-Key": self.key} if self.key else {}
        options["headers"] = headers | options.get("headers", {})
        return self.portal.start_task_soon(partial(self.http.request, method, path, **options))

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        return self.start(method, path, **options).result()

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, json: Any = None, **options: Any) -> httpx2.Response:
        return self.request("POST", path, json=json, **options)

    def put(self, path: str, json: Any = None, **options: Any) -> httpx2.Response:
        return self.request("PUT", path, json=json, **options)

    def patch(self, path: str, json: Any = None, **options: Any) -> httpx2.Response:
        return self.request("PATCH", path, json=json, **options)

    def delete(self, path: str, json: Any = None, **options: Any) -> httpx2.Response:
        return self.request("DELETE", path, json=json, **options)

    def finish(self, method: str, path: str) -> None:
        """Send a request until it succeeds.

        Every response before that must say that the work is still in progress.
        """
        while (response := self.request(method, path)).status_code == 503:
            self.problem(response, 503, "deploy-pending")
        assert response.status_code == 200, response.text

    def create(self, **pipeline: Any) -> dict[str, Any]:
        """Create a configuration and return it."""
        response = self.post(FLOW, flow_body(**pipeline))
        assert response.status_code == 201, response.text
        created: dict[str, Any] = response.json()
        return created

    def problem(self, response: httpx2.Response, status: int, kind: str) -> dict[str, Any]:
        """Return the body of an error after a check of the members that all errors have."""
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
        body: dict[str, Any] = response.json()
        assert body["type"] == f"urn:headwater:problem:{kind}"
        assert body["status"] == status
        assert body["title"]
        assert body["detail"]
        assert body["instance"] == response.request.url.raw_path.decode().partition("?")[0]
        assert body["request_id"] == response.headers["x-request-id"]
        assert ("retry-after" in response.headers) == (status in (429, 503))
        return body

    def faults(self, response: httpx2.Response, kind: str = "invalid-input") -> dict[str, str]:
        """Return the faults of a 422 response: detail by pointer."""
        body = self.problem(response, 422, kind)
        return {fault["pointer"]: fault["detail"] for fault in body["errors"]}


@dataclass
class Installation:
    """An API with the stores and clocks that a test may change directly."""

    portal: BlockingPortal
    database: Database = field(default_factory=fresh_database)
    reservations: MemoryReservations = field(default_factory=MemoryReservations)
    sets: MemorySetStore = field(default_factory=MemorySetStore)
    names: MemoryDatasetNames = field(default_factory=MemoryDatasetNames)
    metrics: MemoryMetrics = field(default_factory=MemoryMetrics)
    prices: MemoryPrices = field(default_factory=MemoryPrices)
    outcomes: MemoryRedriveOutcomes = field(default_factory=MemoryRedriveOutcomes)
    history: MemoryTopicHistory = field(default_factory=MemoryTopicHistory)
    broker: MemoryClusterAdmin = field(default_factory=MemoryClusterAdmin)
    tails: MemoryTailReader = field(default_factory=MemoryTailReader)
    clock: Clock = field(default_factory=Clock)
    probes: dict[str, ReadinessProbe] = field(default_factory=dict)
    bindings: Bindings = field(default_factory=lambda: Bindings({"base.log.zerolag": KafkaTopic("fast.base.log")}))
    validate: ValidateScript = validate_script
    open_sandbox: Callable[[], AbstractContextManager[Sandbox]] | None = None
    api: FastAPI = field(init=False)
    http: httpx2.AsyncClient = field(init=False)

    def __post_init__(self) -> None:
        self.controller = Controller(self.database.deployments)
        self.keys = Keys(self.database.keys, self.clock, self.clock.monotonic)
        self.sign_ins = SignIns(self.database.sign_ins, self.keys, self.clock)

    def services(self, **changes: Any) -> Services:
        """Return the services that the application would pass."""
        numbers = itertools.count(1)
        quotas = QuotaStores(self.database.quotas, self.sets, self.reservations, self.clock.monotonic)
        flows, sets = self.database.flows, QuotaEnforcingSets(quotas)
        audited = AuditedSets(sets, self.database.audit)
        checker = PipelineChecker(
            bindings=self.bindings, transform_types=TRANSFORMS, validate_script=self.validate, new_id=new_id
        )
        deployments = Deployments(
            flows=flows,
            store=self.controller,
            now=self.clock,
            new_id=new_id,
            new_password=lambda: f"secret{next(numbers)}",
            source_ends=lambda source: dict.fromkeys(range(4), 10_000) if source.chain != "solana" else None,
        )
        filters = Filters(flows, self.controller, audited)
        datasets = Datasets(store=self.database.datasets, names=self.names, sets=audited, now=self.clock, new_id=new_id)
        prices = Prices(self.prices, self.clock, filter_outliers=True)
        services = Services(
            keys=self.keys,
            sign_ins=self.sign_ins,
            idempotency=IdempotencyService(self.database.idempotency, self.clock),
            flows=Flows(
                FlowStores(flows, self.database.revisions, sets, MemoryPendingSets()),
                checker,
                self.clock,
                new_id,
            ),
            revisions=Revisions(self.database.revisions),
            trials=Trials(
                stores=TrialStores(flows, self.controller, self.database.revisions.get),
                samples=Samples(self.bindings, {None: self.history}, self.clock.monotonic),
                checker=checker,
                transform_types=TRANSFORMS if self.open_sandbox else TRANSFORMS | {"v8": TransformType(Script)},
                open_context=lambda owner: self._open_context(owner, sets),
                now=self.clock,
                clock=self.clock.monotonic,
            ),
            deployments=deployments,
            deployment_metrics=DeploymentMetrics(
                store=self.metrics,
                bindings=self.bindings,
                read_lag=lambda _, group: self.broker.lag([group]).get(group),
                read_ends=lambda _, topic: self.broker.topic_offsets(topic, "latest"),
                now=self.clock,
            ),
            overview=Overview(
                store=self.database.overview,
                metrics=self.metrics,
                bindings=self.bindings,
                lags=LagCache(
                    lambda _, groups: self.broker.lag(groups),
                    lambda _, topic: self.broker.topic_offsets(topic, "latest"),
                    [None, *self.bindings.kafka_accesses()],
                ),
                now=self.clock,
            ),
            dead_letters=DeadLetters(self.history, self.metrics, self.outcomes, self.clock.monotonic),
            redrives=Redrives(
                store=self.database.redrives,
                outcomes=self.outcomes,
                history=self.history,
                now=self.clock,
                new_id=new_id,
                clock=self.clock.monotonic,
            ),
            filters=filters,
            datasets=datasets,
            applied=AppliedVersions(
                filters=filters, datasets=datasets, deployments=self.controller, versions=self.sets
            ),
            prices=prices,
            price_details=PriceDetails(self.prices, prices, self.clock, filter_outliers=True),
            prices_workers=PricesWorkers(lambda: self.broker.groups().get(PRICES_GROUP, False)),
            quota_stores=quotas,
            viewable_topics=ViewableTopics(self.bindings, deployments.get_not_terminating),
            records=Records({None: self.history}, self.clock.monotonic),
            tails=Tails(
                readers={None: self.tails},
                slots=MemoryTailSlots(self.clock.monotonic),
                limits=TailLimits(total=12, per_owner=10, idle_s=900),
                is_live_key=self.keys.is_live,
                progress=deployments.progress,
                new_id=new_id,
                clock=self.clock.monotonic,
            ),
            bindings=self.bindings,
            kafka=KafkaEndpoint("kafka.example:9092", "SASL_PLAINTEXT", "SCRAM-SHA-512"),
            probes=self.probes,
            has_leader=lambda: True,
            deploy_timeout_s=30,
        )
        return replace(services, **changes)

    @contextlib.contextmanager
    def _open_context(self, owner: str, sets: SetLookup) -> Iterator[TransformContext]:
        with self.open_sandbox() if self.open_sandbox else contextlib.nullcontext() as sandbox:
            yield TransformContext("", owner, sets, self.names, sandbox)

    @contextlib.contextmanager
    def serving(self, **changes: Any) -> Iterator["Installation"]:
        """Serve the API, with `changes` to the services."""
        self.api = api = create_api(self.services(**changes))
        transport = httpx2.ASGITransport(api, raise_app_exceptions=False)
        self.http = httpx2.AsyncClient(transport=transport, base_url="http://headwater.example")
        with self.portal.wrap_async_context_manager(api.router.lifespan_context(api)):
            yield self

    def user(self, owner: str, scopes: Sequence[str] = DEFAULT_SCOPES, **options: Any) -> User:
        """Return a user with a new key."""
        return User(self.http, self.portal, self.keys.create(owner, scopes, **options))

    def nobody(self, key: str = "") -> User:
        """Return a user without a valid key."""
        return User(self.http, self.portal, key)


@contextlib.contextmanager
def installation(probes: Mapping[str, ReadinessProbe] | None = None, **changes: Any) -> Iterator[Installation]:
    """Return an installation that serves its API."""
    with (
        start_blocking_portal() as portal,
        Installation(portal, probes=dict(probes or {})).serving(**changes) as headwater,
    ):
        yield headwater
