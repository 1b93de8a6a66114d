"""Builds the orchestrator that the settings name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from headwater.children import is_inherited
from headwater.errors import SetupError
from headwater.extras import require_extra
from headwater.orchestrators.base import Orchestrator
from headwater.orchestrators.cgroups import find_cgroups
from headwater.orchestrators.process import ProcessOrchestrator, WorkerCommand
from headwater.settings import Settings, environment_variable

T = TypeVar("T")


def build_orchestrator(
    settings: Settings, run_dir: Path, command: WorkerCommand, environment: Mapping[str, str]
) -> Orchestrator:
    """Return the orchestrator of the workers.

    Raises SetupError when the settings of Kubernetes are incomplete, or its client is not installed.

    Args:
        settings: The settings.
        run_dir: The directory of the specs and logs of worker processes.
        command: Returns the command line of a worker process.
        environment: The environment of the workers. Pods get it without the variables that a child inherits.
    """
    if settings.orchestrator == "kubernetes":
        return _kubernetes_orchestrator(settings, environment)
    memory_limit = settings.worker_memory_mb << 20
    cgroups = find_cgroups(run_dir, memory_limit)
    return ProcessOrchestrator(run_dir, command, memory_limit, environment=environment, cgroups=cgroups)


def _kubernetes_orchestrator(settings: Settings, environment: Mapping[str, str]) -> Orchestrator:
    require_extra("kubernetes", "lightkube", "HEADWATER_ORCHESTRATOR=kubernetes")
    from lightkube import AsyncClient, KubeConfig
    from lightkube.core.exceptions import ConfigError

    from headwater.orchestrators.kubernetes import KubernetesOrchestrator
    from headwater.orchestrators.kubernetes.settings import PodSettings

    if not settings.worker_image:
        raise SetupError("HEADWATER_WORKER_IMAGE is not set. Set it to the image of Headwater, as the chart does.")
    try:
        config = KubeConfig.from_env().get()
    except ConfigError as error:
        raise SetupError(
            f"The Kubernetes API is not known ({error}). Run the controller in a Pod with a service account, or name a "
            "kubeconfig file in KUBECONFIG."
        ) from error
    assert config is not None
    namespace = settings.kubernetes_namespace or config.namespace
    pods = PodSettings(
        settings.worker_image,
        instance=settings.kubernetes_instance,
        memory_limit=settings.worker_memory_mb << 20,
        cpu_request=settings.worker_cpu_request,
        cpu_limit=settings.worker_cpu_limit,
        image_pull_policy=settings.worker_image_pull_policy,
        image_pull_secrets=tuple(filter(None, settings.worker_image_pull_secrets.split(","))),
        service_account=settings.worker_service_account,
        priority_class=settings.worker_priority_class,
        node_selector=_parse(dict[str, str], "worker_node_selector", settings.worker_node_selector or "{}"),
        tolerations=_parse(tuple[dict[str, Any], ...], "worker_tolerations", settings.worker_tolerations or "[]"),
        seccomp_profile=settings.worker_seccomp_profile,
        environment={name: value for name, value in environment.items() if not is_inherited(name)},
    )
    return KubernetesOrchestrator(lambda: AsyncClient(config=config, namespace=namespace), pods)


def _parse(kind: type[T], setting: str, document: str) -> T:
    """Return the value of a setting that is JSON. Raises SetupError."""
    try:
        return TypeAdapter(kind).validate_json(document)
    except ValidationError as error:
        raise SetupError(f"{environment_variable(setting)} is not valid: {error.errors()[0]['msg']}.") from error
