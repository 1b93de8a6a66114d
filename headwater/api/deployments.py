"""Deployments: start, read, stop, health."""

import asyncio
from concurrent.futures import Future
from dataclasses import asdict
from functools import partial
from typing import Annotated, Literal, TypeVar

from anyio import to_thread
from fastapi import Query

from headwater.api.guard import guarded_router, needs
from headwater.api.openapi import failures
from headwater.api.queries import IN_DIGITS
from headwater.api.rollout import roll_out
from headwater.api.schemas import (
    DeadLetter,
    DeploymentBody,
    DeploymentLogs,
    DeploymentStats,
    Message,
    PricesConnection,
    SinkConnection,
    Snippets,
)
from headwater.api.services import Caller, Given, Waits
from headwater.errors import Unreadable
from headwater.model.deployment import (
    Deployment,
    Desired,
    Phase,
    WorkerStatus,
    consumer_group,
    dead_letter_topic,
    sink_topic,
)
from headwater.model.sink import TOPIC_MEMBERS, Sink
from headwater.services.deployments import KafkaEndpoint, is_gone, is_rotated
from headwater.services.snippets import Access, snippets
from headwater.stores.base import MAX_LOG_LINES

router = guarded_router("/api/v1/flow/{config_id}", "Deployments")

T = TypeVar("T")

DEFAULT_LOG_LINES = 100
KNOWN_WITHIN_S = 1.0
"""How long `deploy/stats` waits for what it can do without."""
UNSEEN = (
    "No controller runs, so nobody has looked after this worker since; it may have ended. Start `headwater controller`."
)

MESSAGES = {
    "deployed": "Pipeline {} successfully deployed",
    "deploying": "Pipeline {} is being deployed",
    "failed": "Pipeline {} could not be deployed",
    "terminating": "Pipeline {} is being torn down",
}


@router.post(
    "/deploy",
    operation_id="deployConfiguration",
    summary="Deploy the newest revision",
    responses=failures(404, 409, 422),
    openapi_extra=needs("flow:deploy", when_feeding_prices=True),
)
async def deploy(config_id: str, caller: Caller, given: Given, watcher: Waits) -> DeploymentBody:
    """Answers when every worker is ready, with the credentials to read the sinks' topics.

    Idempotent: the same credentials every time, and the same revision again changes nothing. Where a revision runs
    already, it goes on until the workers of the new one are ready to take over; when they don't get ready, or die
    within 30 s of it, it stays or comes back (condition `RolledBack`).
    """
    return _body(await roll_out(given, watcher, caller.owner, config_id), given.kafka)


@router.get(
    "/deploy",
    operation_id="getDeployment",
    summary="Read the deployment",
    responses=failures(404),
    openapi_extra=needs("flow:deploy"),
)
def read(config_id: str, caller: Caller, given: Given) -> DeploymentBody:
    """The answer of deploy again, and how far a change has come."""
    return _body(given.deployments.get(caller.owner, config_id), given.kafka)


@router.post(
    "/teardown",
    operation_id="tearDown",
    summary="Tear the deployment down",
    responses=failures(404),
    openapi_extra=needs("flow:deploy"),
)
async def teardown(config_id: str, caller: Caller, given: Given, watcher: Waits) -> Message:
    """Removes workers, credentials and topics; the configuration stays. Idempotent."""
    stopped = await to_thread.run_sync(given.deployments.stop, caller.owner, config_id)
    if stopped:
        pending = "The teardown still goes on. Ask again."
        await watcher.until(config_id, partial(is_gone, stopped), given.deploy_timeout_s, pending)
    return Message(message=f"Pipeline {config_id} successfully torn down")


@router.post(
    "/deploy/credentials",
    operation_id="rotateCredentials",
    summary="Give the readers another password",
    responses=failures(404, 409),
    openapi_extra=needs("flow:deploy"),
)
async def rotate(config_id: str, caller: Caller, given: Given, watcher: Waits) -> DeploymentBody:
    """Answers with the new password when it works. The old one opens no new connection from then on; connections
    that are open end within the hour. The user's name, the topics and the positions of the groups stay. Where the
    operator of Kafka gives out the credentials, the answer is 409.
    """
    asked = await to_thread.run_sync(given.deployments.rotate, caller.owner, config_id)
    pending = "The new password is not known to Kafka yet. GET …/deploy shows it; it will work soon."
    await watcher.until(config_id, partial(is_rotated, asked), given.deploy_timeout_s, pending)
    return _body(await to_thread.run_sync(given.deployments.get, caller.owner, config_id), given.kafka)


@router.get(
    "/deploy/logs",
    operation_id="getDeploymentLogs",
    summary="Lines of the workers",
    responses=failures(404, 422),
    openapi_extra=needs("flow:read"),
)
def logs(
    config_id: str,
    caller: Caller,
    given: Given,
    limit: Annotated[int, Query(ge=1, le=MAX_LOG_LINES, description="How many lines."), IN_DIGITS] = DEFAULT_LOG_LINES,
) -> DeploymentLogs:
    """What workers wrote, and scripts with `console.log`, newest first. The last 1,000 lines are kept."""
    return DeploymentLogs.of(given.deployments.logs(caller.owner, config_id, limit))


@router.get(
    "/deploy/stats",
    operation_id="getDeploymentStats",
    summary="Health and progress of the workers",
    responses=failures(404),
    openapi_extra=needs("flow:read"),
)
async def stats(config_id: str, caller: Caller, given: Given) -> DeploymentStats:
    """A change of a worker shows within 5 seconds. The lag is that of this moment, and null when Kafka does not tell it
    within a second.
    """
    deployment = await to_thread.run_sync(given.deployments.get, caller.owner, config_id)
    lag, progress = given.metrics.lag(deployment), given.metrics.last_progress(deployment)
    is_led = await to_thread.run_sync(given.is_led)
    workers = deployment.workers if is_led else tuple(map(_unseen, deployment.workers))
    return DeploymentStats.of(workers, await _within(lag), await _within(progress))


async def _within(value: "Future[T | None]") -> T | None:
    """The value when it is known within KNOWN_WITHIN_S. Others may wait for the same read, so it goes on."""
    done, _ = await asyncio.wait([asyncio.wrap_future(value)], timeout=KNOWN_WITHIN_S)
    return next(iter(done)).result() if done else None


def _unseen(worker: WorkerStatus) -> WorkerStatus:
    return worker.model_copy(update={"is_ready": False, "reason": UNSEEN})


def _body(deployment: Deployment, kafka: KafkaEndpoint) -> DeploymentBody:
    if not deployment.has_secrets:
        raise Unreadable(deployment.unreadable)
    status, shown = _status(deployment), deployment.effective_revision.config
    return DeploymentBody(
        message=MESSAGES[status].format(deployment.flow_id),
        status=status,
        config_id=deployment.flow_id,
        revision=deployment.observed_revision,
        desired_revision=deployment.desired_revision,
        condition=deployment.condition,
        reason=deployment.reason,
        workers=shown.parallelism,
        dead_letter=DeadLetter(topic=dead_letter_topic(deployment.flow_id)),
        sinks=[_connection(deployment, sink, kafka) for sink in shown.sinks],
    )


def _status(deployment: Deployment) -> Literal["deployed", "deploying", "failed", "terminating"]:
    if deployment.desired is Desired.ABSENT:
        return "terminating"
    if deployment.phase is Phase.RUNNING:
        return "deployed"
    return "failed" if deployment.phase is Phase.FAILED and deployment.is_reconciled else "deploying"


def _connection(deployment: Deployment, sink: Sink, kafka: KafkaEndpoint) -> SinkConnection | PricesConnection:
    if sink.type == "prices":
        return PricesConnection(uid=sink.uid, name=sink.name, type=sink.type)
    login = kafka.login(deployment)
    access = Access(
        topic=sink_topic(deployment.flow_id, sink.name),
        bootstrap_servers=kafka.bootstrap_servers,
        security_protocol=kafka.security_protocol,
        sasl_mechanism=kafka.sasl_mechanism,
        username=login.username,
        password=login.password,
        consumer_group=consumer_group(deployment.id),
    )
    return SinkConnection(
        uid=sink.uid,
        name=sink.name,
        type=sink.type,
        **asdict(access),
        **sink.model_dump(include={*TOPIC_MEMBERS}),
        snippets=Snippets(**snippets(access)),
    )
