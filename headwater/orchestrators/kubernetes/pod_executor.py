"""Carries out the actions of plans on the Kubernetes API and on workers.

At most one action of each Pod runs at a time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import httpx2
import structlog
from lightkube import ApiError, AsyncClient
from lightkube.resources.core_v1 import Pod, Secret

from headwater.errors import HeadwaterError
from headwater.model.reading_plan import ReadingPlan
from headwater.model.worker_spec import WorkerSet
from headwater.orchestrators.kubernetes import labels, manifests
from headwater.orchestrators.kubernetes.cluster import ClusterState
from headwater.orchestrators.kubernetes.observed_pod import ObservedPod
from headwater.orchestrators.kubernetes.pod_plan import (
    CreatePod,
    DeletePod,
    JoinGroup,
    PodAction,
    PromotePod,
    StopWorker,
)
from headwater.orchestrators.kubernetes.settings import PodTemplate
from headwater.orchestrators.kubernetes.worker_client import WorkerClient, WorkerRequestError

log = structlog.get_logger(__name__)

RETRY_S = 2.0
"""How long an action that failed is not repeated."""
CONFLICT, NOT_FOUND = 409, 404


class PodExecutor:
    """Carries out actions. All methods run in the event loop.

    Args:
        client: The client of the Kubernetes API.
        workers: The client of workers.
        cluster: The known Pods and Secrets.
        port: The port of the workers' HTTP interface.
        on_done: Is called with the id of a worker set when one of its actions has ended.
    """

    def __init__(
        self,
        client: AsyncClient,
        workers: WorkerClient,
        cluster: ClusterState,
        port: int,
        on_done: Callable[[str], None],
    ) -> None:
        self._client = client
        self._workers = workers
        self._cluster = cluster
        self._port = port
        self._on_done = on_done
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, str] = {}
        """Why the last action has failed, by the name of its Pod or Secret."""

    def creation_failure(self, wanted: WorkerSet, template: PodTemplate, slot: int) -> str:
        """Return why the last attempt to create a Pod has failed; empty when it has not."""
        return self._failures.get(_pod_name(wanted, template, slot), "")

    def token(self, pod: ObservedPod) -> str:
        """Return the token of a Pod's worker; empty while its Secret is not known."""
        secret = self._cluster.secrets.get(pod.secret_name)
        return manifests.token(secret) if secret is not None else ""

    def carry_out(self, wanted: WorkerSet, template: PodTemplate, action: PodAction, reading_plan: ReadingPlan) -> None:
        """Start an action, unless another one of the same Pod has not ended.

        Args:
            wanted: The wanted worker set.
            template: How the Pods of the worker set are made.
            action: The action.
            reading_plan: How a worker that joins its group reads its partitions.
        """
        match action:
            case CreatePod():
                name = _pod_name(wanted, template, action.slot)
                self._start(wanted.id, name, self._create_pod(wanted, template, action, name))
            case JoinGroup(pod):
                self._start(wanted.id, pod.name, self._join(pod, reading_plan))
            case PromotePod(pod):
                self._start(wanted.id, pod.name, self._promote(pod))
            case StopWorker() | DeletePod():
                self.end(action)

    def end(self, action: StopWorker | DeletePod) -> None:
        """Start to stop a worker or to delete its Pod."""
        pod = action.pod
        if isinstance(action, StopWorker):
            self._start(pod.worker_set_id, pod.name, self._stop(pod, leave_group=action.leave_group))
        else:
            self._start(pod.worker_set_id, pod.name, self._delete(pod, at_once=action.at_once))

    def delete_secret(self, worker_set_id: str, name: str) -> None:
        """Start to delete the Secret of a worker set."""
        self._start(worker_set_id, f"secret/{name}", self._delete_secret(name))

    def close(self) -> None:
        """Cancel the actions that have not ended."""
        for task in self._tasks.values():
            task.cancel()

    def _start(self, worker_set_id: str, key: str, work: Coroutine[Any, Any, None]) -> None:
        if key in self._tasks:
            work.close()
            return
        self._tasks[key] = asyncio.create_task(self._run(worker_set_id, key, work))

    async def _run(self, worker_set_id: str, key: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            self._failures.pop(key, None)
        except (httpx2.HTTPError, HeadwaterError, WorkerRequestError) as error:
            reason = _describe(error)
            if self._failures.get(key) != reason:
                log.warning("an action on a worker failed; it is repeated", name=key, reason=reason)
            self._failures[key] = reason
            await asyncio.sleep(RETRY_S)
        finally:
            del self._tasks[key]
            self._on_done(worker_set_id)

    async def _create_pod(self, wanted: WorkerSet, template: PodTemplate, action: CreatePod, name: str) -> None:
        secret = await self._ensure_secret(wanted, template)
        role = labels.WORKER if action.is_worker else labels.SUCCESSOR
        manifest = manifests.pod(wanted, action.slot, secret, template, role=role, restarts=action.earlier_restarts)
        try:
            self._cluster.apply_response(await self._client.create(manifest))
        except ApiError as error:
            if error.status.code != CONFLICT:
                raise
            log.debug("the Pod exists already", pod=name)

    async def _ensure_secret(self, wanted: WorkerSet, template: PodTemplate) -> Secret:
        name = manifests.secret_name(wanted, template)
        known = self._cluster.secrets.get(name)
        if known is not None:
            return known
        try:
            secret = await self._client.create(manifests.secret(wanted, template))
        except ApiError as error:
            if error.status.code != CONFLICT:
                raise
            secret = await self._client.get(Secret, name)
        self._cluster.apply_response(secret)
        return secret

    async def _join(self, pod: ObservedPod, reading_plan: ReadingPlan) -> None:
        await self._workers.join(self._address(pod), self.token(pod), reading_plan)

    async def _stop(self, pod: ObservedPod, *, leave_group: bool) -> None:
        await self._workers.stop(self._address(pod), self.token(pod), leave_group=leave_group)

    async def _promote(self, pod: ObservedPod) -> None:
        patch = {"metadata": {"labels": {labels.ROLE: labels.WORKER}, "uid": pod.uid}}
        self._cluster.apply_response(await self._client.patch(Pod, pod.name, patch))

    async def _delete(self, pod: ObservedPod, *, at_once: bool) -> None:
        grace_period = 0 if at_once else None
        try:
            await self._client.delete(Pod, pod.name, grace_period=grace_period)
        except ApiError as error:
            if error.status.code != NOT_FOUND:
                raise

    async def _delete_secret(self, name: str) -> None:
        try:
            await self._client.delete(Secret, name)
        except ApiError as error:
            if error.status.code != NOT_FOUND:
                raise

    def _address(self, pod: ObservedPod) -> str:
        return f"{pod.ip}:{self._port}"


def _pod_name(wanted: WorkerSet, template: PodTemplate, slot: int) -> str:
    return manifests.pod_name(wanted.id, slot, wanted.spec_hash, template.hash)


def _describe(error: Exception) -> str:
    if isinstance(error, ApiError):
        return f"Kubernetes refuses the request: {error.status.message}"
    if isinstance(error, HeadwaterError):
        return error.detail
    if isinstance(error, WorkerRequestError):
        return str(error)
    return f"{type(error).__name__}: {error}"
