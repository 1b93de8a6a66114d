"""Routes of deployments: deploy, read, tear down, rotate credentials, logs, health."""

import asyncio
from concurrent.futures import Future
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from anyio import to_thread
from fastapi import Query

from headwater.api.dependencies import ApiKeyDep, ServicesDep, WatcherDep
from headwater.api.deployment_watcher import roll_out
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import PENDING_RESPONSE, problem_responses
from headwater.api.query_parameters import STRICT_INTEGER
from headwater.api.schemas import (
    DeadLetterTopic,
    DeploymentBody,
    DeploymentLogs,
    DeploymentStats,
    LastRewind,
    Message,
    PricesConnection,
    SinkConnection,
    Snippets,
    WorkerScaling,
)
from headwater.errors import StoredDataUnreadable
from headwater.model.deployment import (
    Deployment,
    DesiredPhase,
    ObservedWorker,
    Phase,
    dead_letter_topic,
    effective_condition,
    sink_topic,
    suggested_reader_group,
)
from headwater.model.sink import TOPIC_FIELDS, Sink
from headwater.services.deployments import KafkaEndpoint, is_removed, is_rotated
from headwater.services.snippets import TopicConnection, snippets
from headwater.stores.protocols.deployments import MAX_LOG_LINES

router = authenticated_router("/api/v1/flow/{config_id}", "Deployments")

T = TypeVar("T")

DEFAULT_LOG_LINES = 100
OPTIONAL_READ_TIMEOUT_S = 1.0
"""How long `deploy/stats` waits for the lag and the last progress; a value that is not known by then is null."""
NO_CONTROLLER = (
    "No controller runs, so this status is out of date and the worker may have ended. Start `headwater controller`."
)

STATUS_MESSAGES = {
    "deployed": "Pipeline {} successfully deployed",
    "deploying": "Pipeline {} is being deployed",
    "pausing": "Pipeline {} is being paused",
    "paused": "Pipeline {} is paused",
    "failed": "Pipeline {} could not be deployed",
    "terminating": "Pipeline {} is being torn down",
}


@router.post(
    "/deploy",
    operation_id="deployConfiguration",
    summary="Deploy the newest revision",
    responses=problem_responses(404, 409, 422) | PENDING_RESPONSE,
    openapi_extra=required_scopes("flow:deploy", with_prices_sink=True),
)
async def deploy(config_id: str, api_key: ApiKeyDep, services: ServicesDep, watcher: WatcherDep) -> DeploymentBody:
    """Deploys the newest revision and responds when every worker is ready.
    The response has the credentials to read the sinks' topics.

    The request is idempotent: it returns the same credentials every time, and deploying the same revision again changes
    nothing. When a revision runs already, it keeps running until the workers of the new revision are ready to take
    over. When the new workers do not become ready, or die within the next 30 s, the old revision keeps running or is
    restored (condition `RolledBack`). A paused pipeline is resumed.
    """
    deployment = await roll_out(
        services.deployments, watcher, api_key.owner, config_id, timeout_s=services.deploy_timeout_s
    )
    return deployment_body(deployment, services.kafka)


@router.get(
    "/deploy",
    operation_id="getDeployment",
    summary="Read the deployment",
    responses=problem_responses(404),
    openapi_extra=required_scopes("flow:deploy"),
)
def read(config_id: str, api_key: ApiKeyDep, services: ServicesDep) -> DeploymentBody:
    """Returns the same body as POST …/deploy, with the current state of the rollout."""
    return deployment_body(services.deployments.get(api_key.owner, config_id), services.kafka)


@router.post(
    "/teardown",
    operation_id="tearDown",
    summary="Tear the deployment down",
    responses=problem_responses(404) | PENDING_RESPONSE,
    openapi_extra=required_scopes("flow:deploy"),
)
async def teardown(config_id: str, api_key: ApiKeyDep, services: ServicesDep, watcher: WatcherDep) -> Message:
    """Removes workers, credentials and topics; the configuration stays.
    The request is idempotent.
    """
    requested = await to_thread.run_sync(services.deployments.tear_down, api_key.owner, config_id)
    if requested:
        pending_detail = "Teardown in progress. Repeat the request to wait for it."
        await watcher.wait_until(config_id, partial(is_removed, requested), services.deploy_timeout_s, pending_detail)
    return Message(message=f"Pipeline {config_id} successfully torn down")


@router.post(
    "/deploy/credentials",
    operation_id="rotateCredentials",
    summary="Rotate the readers' password",
    responses=problem_responses(404, 409) | PENDING_RESPONSE,
    openapi_extra=required_scopes("flow:deploy"),
)
async def rotate(config_id: str, api_key: ApiKeyDep, services: ServicesDep, watcher: WatcherDep) -> DeploymentBody:
    """Replaces the readers' password, and returns the new password once Kafka accepts it.
    From then on the old password opens no new connection; open connections end within the hour. The user's name, the
    topics and the offsets of the groups stay. Where the operator of Kafka manages the credentials, the response is 409.
    """
    rotated = await to_thread.run_sync(services.deployments.rotate, api_key.owner, config_id)
    pending_detail = (
        "Kafka does not accept the new password yet. GET …/deploy returns this password, which works as soon as Kafka "
        "accepts it."
    )
    await watcher.wait_until(config_id, partial(is_rotated, rotated), services.deploy_timeout_s, pending_detail)
    return deployment_body(await to_thread.run_sync(services.deployments.get, api_key.owner, config_id), services.kafka)


@router.get(
    "/deploy/logs",
    operation_id="getDeploymentLogs",
    summary="Log lines of the workers",
    responses=problem_responses(404, 422),
    openapi_extra=required_scopes("flow:read"),
)
def logs(
    config_id: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    limit: Annotated[
        int, Query(ge=1, le=MAX_LOG_LINES, description="The number of lines."), STRICT_INTEGER
    ] = DEFAULT_LOG_LINES,
) -> DeploymentLogs:
    """Returns log lines of the workers and `console.log` lines of the scripts, newest first.
    The last 1,000 lines are kept.
    """
    return DeploymentLogs.of(services.deployments.logs(api_key.owner, config_id, limit))


@router.get(
    "/deploy/stats",
    operation_id="getDeploymentStats",
    summary="Health and progress of the workers",
    responses=problem_responses(404),
    openapi_extra=required_scopes("flow:read"),
)
async def stats(config_id: str, api_key: ApiKeyDep, services: ServicesDep) -> DeploymentStats:
    """Returns the state of each worker, the lag, and the time of the last progress.
    A change of a worker is visible within 5 seconds. The lag is read at the time of the request; it is null when Kafka
    does not answer within a second, and for a source on Pub/Sub.
    """
    deployment = await to_thread.run_sync(services.deployments.get, api_key.owner, config_id)
    lag = services.deployment_metrics.lag(deployment)
    last_progress = services.deployment_metrics.last_progress(deployment)
    has_leader = await to_thread.run_sync(services.has_leader)
    workers = deployment.workers if has_leader else tuple(map(_unknown_status, deployment.workers))
    await _wait_for(lag, last_progress)
    scaling = WorkerScaling.of(deployment)
    return DeploymentStats.of(workers, _result_or_none(lag), _result_or_none(last_progress), scaling)


async def _wait_for(*reads: "Future[Any]") -> None:
    """Wait until all reads have ended, for OPTIONAL_READ_TIMEOUT_S at most.

    The reads are not cancelled, since other requests may wait for them.
    """
    await asyncio.wait([asyncio.wrap_future(read) for read in reads], timeout=OPTIONAL_READ_TIMEOUT_S)


def _result_or_none(read: "Future[T | None]") -> T | None:
    return read.result() if read.done() else None


def _unknown_status(worker: ObservedWorker) -> ObservedWorker:
    """Return the status of a worker while no controller updates it."""
    return worker.model_copy(update={"is_ready": False, "reason": NO_CONTROLLER})


def deployment_body(deployment: Deployment, kafka: KafkaEndpoint) -> DeploymentBody:
    """Return the response body for a deployment. Raises StoredDataUnreadable."""
    if not deployment.has_readable_passwords:
        raise StoredDataUnreadable(deployment.unreadable_reason)
    status, config = _status(deployment), deployment.effective_revision.config
    condition = effective_condition(deployment.desired, deployment.condition)
    return DeploymentBody(
        message=STATUS_MESSAGES[status].format(deployment.config_id),
        status=status,
        config_id=deployment.config_id,
        revision=deployment.observed_revision,
        desired_revision=deployment.desired_revision,
        condition=condition,
        reason=deployment.reason if condition is deployment.condition else "",
        workers=deployment.worker_count(deployment.effective_revision)
        if deployment.desired is DesiredPhase.RUNNING
        else 0,
        scaling=WorkerScaling.of(deployment),
        rewind=None if deployment.rewind is None else LastRewind.of(deployment.rewind),
        dead_letter=DeadLetterTopic(topic=dead_letter_topic(deployment.config_id)),
        sinks=[_connection(deployment, sink, kafka) for sink in config.sinks],
    )


def _status(
    deployment: Deployment,
) -> Literal["deployed", "deploying", "pausing", "paused", "failed", "terminating"]:
    if deployment.desired is DesiredPhase.ABSENT:
        return "terminating"
    if deployment.desired is DesiredPhase.PAUSED:
        return "paused" if deployment.is_reconciled else "pausing"
    if deployment.phase is Phase.RUNNING:
        return "deployed"
    return "failed" if deployment.phase is Phase.FAILED and deployment.is_reconciled else "deploying"


def _connection(deployment: Deployment, sink: Sink, kafka: KafkaEndpoint) -> SinkConnection | PricesConnection:
    if sink.type == "prices":
        return PricesConnection(uid=sink.uid, name=sink.name, type=sink.type)
    login = kafka.login(deployment)
    connection = TopicConnection(
        topic=sink_topic(deployment.config_id, sink.name),
        bootstrap_servers=kafka.bootstrap_servers,
        security_protocol=kafka.security_protocol,
        sasl_mechanism=kafka.sasl_mechanism,
        username=login.username,
        password=login.password,
        consumer_group=suggested_reader_group(deployment.id),
    )
    return SinkConnection(
        uid=sink.uid,
        name=sink.name,
        type=sink.type,
        **asdict(connection),
        **sink.model_dump(include={*TOPIC_FIELDS}),
        snippets=Snippets(**snippets(connection)),
    )
