"""Builds the Secret and the Pods of a worker set."""

import hashlib
import json
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

from lightkube.models.core_v1 import (
    Capabilities,
    Container,
    ContainerPort,
    EmptyDirVolumeSource,
    EnvVar,
    HTTPGetAction,
    LocalObjectReference,
    PodSecurityContext,
    PodSpec,
    Probe,
    ResourceRequirements,
    SeccompProfile,
    SecretVolumeSource,
    SecurityContext,
    Toleration,
    Volume,
    VolumeMount,
)
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference
from lightkube.resources.core_v1 import Pod, Secret

from headwater.errors import SetupError
from headwater.model.redrive import deployment_of
from headwater.model.worker_spec import WorkerSet, WorkerSpec
from headwater.orchestrators.kubernetes import labels
from headwater.orchestrators.kubernetes.settings import PodSettings, PodTemplate

SPEC_DIRECTORY = "/run/headwater/worker"
STATE_DIRECTORY = "/run/headwater/state"
TOKEN = "token"  # noqa: S105 - the name of a file
STOP_GRACE_S = 30
"""How long the kubelet waits after SIGTERM.

A worker has STOP_BUDGET_S (engine/worker.py) to finish its batches. The end of a running commit, the last commit, and
the closing of the Kafka clients take some seconds more.
"""
TOLERATION_S = 30
"""How long a Pod stays on a node that is not ready or not reachable, before Kubernetes evicts it."""
CONTAINER = "worker"
REDIS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""The options in a URL of Valkey or Redis that name files."""


def object_name(worker_set_id: str) -> str:
    """Return a worker set id in the form that names of Kubernetes objects have."""
    return worker_set_id.replace(".", "-")


def secret_name(worker_set: WorkerSet, template: PodTemplate) -> str:
    """Return the name of the Secret of a worker set.

    The name contains the hash of the spec, and the hash of the files that the spec names, if there are any.
    """
    return "-".join(filter(None, (object_name(worker_set.id), worker_set.spec_hash, template.files_hash)))


def pod_name(worker_set_id: str, slot: int, spec_hash: str, template_hash: str) -> str:
    """Return the name of the Pod of a slot, spec and template."""
    return f"{object_name(worker_set_id)}-{slot}-{spec_hash}-{template_hash}"


def secret(worker_set: WorkerSet, template: PodTemplate) -> Secret:
    """Return the Secret of a worker set.

    It has the spec, the files that the spec names, and a new token. Raises SetupError when a file can't be read.
    """
    document, files = _with_mounted_files(worker_set.spec, _read)
    data = {f"spec-{worker_set.spec_hash}.json": json.dumps(document).encode(), TOKEN: secrets.token_hex(32).encode()}
    return Secret(
        metadata=ObjectMeta(
            name=secret_name(worker_set, template),
            labels=_labels(worker_set, template.settings),
        ),
        type="Opaque",
        immutable=True,
        data={name: b64encode(content).decode() for name, content in (data | files).items()},
    )


def token(secret: Secret) -> str:
    """Return the token of the workers of a Secret."""
    return b64decode((secret.data or {})[TOKEN]).decode()


def files_hash(spec: WorkerSpec) -> str:
    """Return the hash of the content of the files that a spec names; empty when it names none.

    A file that can't be read counts as empty, because the creation of the Secret reports it.
    """
    _, files = _with_mounted_files(spec, _read_or_empty)
    hashes = "".join(hashlib.sha256(content).hexdigest() for content in files.values())
    return hashlib.sha256(hashes.encode()).hexdigest()[:8] if files else ""


def _with_mounted_files(spec: WorkerSpec, read: Callable[[Path], bytes]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the spec with the paths that its files have in the Pod, and the files by name."""
    document: dict[str, Any] = json.loads(spec.model_dump_json())
    files: dict[str, bytes] = {}

    def mount(path: str) -> str:
        name = f"file-{len(files)}"
        files[name] = read(Path(path))
        return f"{SPEC_DIRECTORY}/{name}"

    for access in (document["kafka"], document["source"]):
        for member, path in (access or {}).items():
            if member.endswith("_file") and path:
                access[member] = mount(path)
    url, _, query = document["redis_url"].partition("?")
    options = dict(parse_qsl(query))
    paths = {name: mount(options[name]) for name in REDIS_FILES if name in options}
    if paths:
        document["redis_url"] = f"{url}?{urlencode(options | paths, safe='/')}"
    return document, files


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SetupError(f"Workers need the file {path}, which can't be read ({error.strerror}). Mount it.") from error


def _read_or_empty(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def pod(worker_set: WorkerSet, slot: int, owner: Secret, template: PodTemplate, *, role: str, restarts: int) -> Pod:
    """Return the Pod of a slot.

    Args:
        worker_set: The worker set.
        slot: The number of the slot.
        owner: The Secret of the worker set, as it was created. Its deletion deletes the Pod.
        template: How the Pods of the worker set are made.
        role: labels.WORKER or labels.SUCCESSOR.
        restarts: The restarts of the Pods that this Pod replaces.
    """
    assert owner.metadata is not None
    assert owner.metadata.name is not None
    assert owner.metadata.uid is not None
    owner_reference = OwnerReference(
        apiVersion="v1",
        kind="Secret",
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,  # `kubectl drain` evicts only Pods that have a controller
    )
    return Pod(
        metadata=ObjectMeta(
            name=pod_name(worker_set.id, slot, worker_set.spec_hash, template.hash),
            labels=_labels(worker_set, template.settings)
            | {labels.SLOT: str(slot), labels.ROLE: role, labels.TEMPLATE: template.hash},
            annotations={labels.RESTARTS: str(restarts)},
            ownerReferences=[owner_reference],
        ),
        spec=_pod_spec(worker_set, slot, owner.metadata.name, template.settings),
    )


def _labels(worker_set: WorkerSet, settings: PodSettings) -> dict[str, str]:
    return labels.selector(settings.instance) | {
        labels.WORKER_SET: worker_set.id,
        labels.DEPLOYMENT: deployment_of(worker_set.id),
        labels.SPEC: worker_set.spec_hash,
    }


def _pod_spec(worker_set: WorkerSet, slot: int, owner: str, settings: PodSettings) -> PodSpec:
    return PodSpec(
        containers=[_container(worker_set, slot, settings)],
        volumes=[
            Volume(name="spec", secret=SecretVolumeSource(secretName=owner, defaultMode=0o440)),
            Volume(name="state", emptyDir=EmptyDirVolumeSource(sizeLimit="1Mi")),
            Volume(name="tmp", emptyDir=EmptyDirVolumeSource()),
        ],
        restartPolicy="Always",
        terminationGracePeriodSeconds=STOP_GRACE_S,
        serviceAccountName=settings.service_account or None,
        automountServiceAccountToken=False,
        enableServiceLinks=False,
        priorityClassName=settings.priority_class or None,
        nodeSelector=dict(settings.node_selector) or None,
        tolerations=[
            *(cast("Toleration", Toleration.from_dict(dict(each))) for each in settings.tolerations),
            *(
                Toleration(
                    key=f"node.kubernetes.io/{taint}",
                    operator="Exists",
                    effect="NoExecute",
                    tolerationSeconds=TOLERATION_S,
                )
                for taint in ("not-ready", "unreachable")
            ),
        ],
        imagePullSecrets=[LocalObjectReference(name=name) for name in settings.image_pull_secrets] or None,
        securityContext=PodSecurityContext(
            runAsNonRoot=True, runAsUser=10001, fsGroup=10001, seccompProfile=_seccomp(settings.seccomp_profile)
        ),
    )


def _container(worker_set: WorkerSet, slot: int, settings: PodSettings) -> Container:
    limits = {"memory": str(settings.memory_limit)} | ({"cpu": settings.cpu_limit} if settings.cpu_limit else {})
    return Container(
        name=CONTAINER,
        image=settings.image,
        imagePullPolicy=settings.image_pull_policy,
        command=[
            *settings.command,
            f"--spec={SPEC_DIRECTORY}/spec-{worker_set.spec_hash}.json",
            f"--slot={slot}",
            f"--listen=0.0.0.0:{settings.port}",
            f"--token-file={SPEC_DIRECTORY}/{TOKEN}",
            f"--state-dir={STATE_DIRECTORY}",
        ],
        env=[EnvVar(name=name, value=value) for name, value in sorted(settings.environment.items())],
        ports=[ContainerPort(name="http", containerPort=settings.port)],
        resources=ResourceRequirements(
            requests={"memory": str(settings.memory_limit), "cpu": settings.cpu_request}, limits=limits
        ),
        readinessProbe=Probe(httpGet=HTTPGetAction(path="/readyz", port=settings.port), periodSeconds=2),
        livenessProbe=Probe(
            httpGet=HTTPGetAction(path="/healthz", port=settings.port), periodSeconds=10, failureThreshold=3
        ),
        startupProbe=Probe(
            httpGet=HTTPGetAction(path="/healthz", port=settings.port), periodSeconds=1, failureThreshold=120
        ),
        terminationMessagePolicy="FallbackToLogsOnError",
        securityContext=SecurityContext(
            allowPrivilegeEscalation=False, readOnlyRootFilesystem=True, capabilities=Capabilities(drop=["ALL"])
        ),
        volumeMounts=[
            VolumeMount(name="spec", mountPath=SPEC_DIRECTORY, readOnly=True),
            VolumeMount(name="state", mountPath=STATE_DIRECTORY),
            VolumeMount(name="tmp", mountPath="/tmp"),  # noqa: S108 - the Pod's own
        ],
    )


def _seccomp(profile: str) -> SeccompProfile:
    kind, _, file = profile.partition(":")
    return SeccompProfile(type=kind, localhostProfile=file or None)
