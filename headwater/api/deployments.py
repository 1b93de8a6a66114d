"""Deployments: start, read, stop, health."""

from dataclasses import asdict
from typing import Literal

from anyio import to_thread

from headwater.api.guard import guarded_router, needs
from headwater.api.openapi import failures
from headwater.api.schemas import DeadLetter, DeploymentBody, DeploymentStats, Message, SinkConnection, Snippets
from headwater.api.services import Caller, Given
from headwater.api.waiting import poll, roll_out
from headwater.model.deployment import Deployment, Desired, Phase, consumer_group, dead_letter_topic, reader, sink_topic
from headwater.model.sink import Sink
from headwater.services.deployments import KafkaEndpoint
from headwater.services.snippets import Access, snippets

router = guarded_router("/api/v1/flow/{config_id}", "Deployments")

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
    openapi_extra=needs("flow:deploy"),
)
async def deploy(config_id: str, caller: Caller, given: Given) -> DeploymentBody:
    """Answers when every worker is ready, with the credentials to read the sinks' topics.

    Idempotent: the same credentials every time, and the same revision again changes nothing.
    """
    return _body(await roll_out(given, caller.owner, config_id), given.kafka)


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
async def teardown(config_id: str, caller: Caller, given: Given) -> Message:
    """Removes workers, credentials and topics; the configuration stays. Idempotent."""
    stopped = await to_thread.run_sync(given.deployments.stop, caller.owner, config_id)
    if stopped:
        pending = "The teardown still goes on. Ask again."
        await poll(lambda: given.deployments.gone(stopped) or None, given.deploy_timeout_s, pending)
    return Message(message=f"Pipeline {config_id} successfully torn down")


@router.get(
    "/deploy/stats",
    operation_id="getDeploymentStats",
    summary="Health of the workers",
    responses=failures(404),
    openapi_extra=needs("flow:read"),
)
def stats(config_id: str, caller: Caller, given: Given) -> DeploymentStats:
    """A change shows within 5 seconds."""
    return DeploymentStats.of(given.deployments.get(caller.owner, config_id))


def _body(deployment: Deployment, kafka: KafkaEndpoint) -> DeploymentBody:
    status = _status(deployment)
    return DeploymentBody(
        message=MESSAGES[status].format(deployment.flow_id),
        status=status,
        config_id=deployment.flow_id,
        revision=deployment.observed_revision,
        desired_revision=deployment.desired_revision,
        condition=deployment.condition,
        reason=deployment.reason,
        workers=deployment.config.parallelism,
        dead_letter=DeadLetter(topic=dead_letter_topic(deployment.flow_id)),
        sinks=[_connection(deployment, sink, kafka) for sink in deployment.config.sinks],
    )


def _status(deployment: Deployment) -> Literal["deployed", "deploying", "failed", "terminating"]:
    if deployment.desired is Desired.ABSENT:
        return "terminating"
    if deployment.phase is Phase.RUNNING:
        return "deployed"
    return "failed" if deployment.phase is Phase.FAILED and deployment.settled else "deploying"


def _connection(deployment: Deployment, sink: Sink, kafka: KafkaEndpoint) -> SinkConnection:
    access = Access(
        topic=sink_topic(deployment.flow_id, sink.name),
        bootstrap_servers=kafka.bootstrap_servers,
        security_protocol=kafka.security_protocol,
        sasl_mechanism=kafka.sasl_mechanism,
        username=reader(deployment.id),
        password=deployment.reader_password,
        consumer_group=consumer_group(deployment.id),
    )
    return SinkConnection(
        uid=sink.uid, name=sink.name, type=sink.type, **asdict(access), snippets=Snippets(**snippets(access))
    )
