"""The settings of worker Pods, and the template of a worker set's Pods."""

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True, slots=True)
class PodSettings:
    """How worker Pods are made.

    Attributes:
        image: The image of the workers: Headwater's own.
        instance: The name of the installation, in the label `app.kubernetes.io/instance`.
        memory_limit: How many bytes a worker and its child processes may use together.
        cpu_request: The CPU request of a worker, as a Kubernetes quantity.
        cpu_limit: The CPU limit of a worker; empty means none.
        image_pull_policy: Always, IfNotPresent or Never.
        image_pull_secrets: The names of Secrets with the credentials of the image's registry.
        service_account: The ServiceAccount of the Pods; empty means the default. Its token is not mounted.
        priority_class: The PriorityClass of the Pods; empty means the default.
        node_selector: Labels of the nodes on which workers may run.
        tolerations: Tolerations of the Pods, in the form of the Kubernetes API.
        seccomp_profile: RuntimeDefault, Unconfined, or `Localhost:<file>`.
        environment: The environment variables of the workers.
        port: The port of the workers' HTTP interface.
        command: The command that runs a worker in the image.
    """

    image: str
    _: KW_ONLY
    instance: str = "headwater"
    memory_limit: int = 1 << 30
    cpu_request: str = "100m"
    cpu_limit: str = ""
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    service_account: str = ""
    priority_class: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    seccomp_profile: str = "RuntimeDefault"
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = 8090
    command: tuple[str, ...] = (sys.executable, "-m", "headwater.app.worker_main")


@dataclass(frozen=True)
class PodTemplate:
    """How the Pods of a worker set are made.

    Attributes:
        settings: The settings of all worker Pods.
        files_hash: The hash of the files that the spec of the worker set names (manifests.files_hash).
    """

    settings: PodSettings
    files_hash: str = ""

    @cached_property
    def hash(self) -> str:
        """The hash of the template. A Pod with another one is outdated, and is replaced."""
        settings = json.dumps(asdict(self.settings), sort_keys=True)
        return hashlib.sha256((settings + self.files_hash).encode()).hexdigest()[:8]
