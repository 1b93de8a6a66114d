"""The labels and annotations by which the orchestrator knows its Pods and Secrets.

The first four are those that Kubernetes recommends
("Recommended Labels" in its documentation).
"""

from typing import Final

NAME: Final = "app.kubernetes.io/name"
COMPONENT: Final = "app.kubernetes.io/component"
INSTANCE: Final = "app.kubernetes.io/instance"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
WORKER_SET: Final = "headwater/worker-set"
DEPLOYMENT: Final = "headwater/deployment"
SLOT: Final = "headwater/slot"
SPEC: Final = "headwater/spec"
TEMPLATE: Final = "headwater/template"
"""The hash of the template with which the Pod was made (PodTemplate.hash)."""
ROLE: Final = "headwater/role"
WORKER: Final = "worker"
SUCCESSOR: Final = "successor"
RESTARTS: Final = "headwater/earlier-restarts"
"""The annotation with the restarts of the Pods that the Pod has replaced."""


def selector(instance: str) -> dict[str, str]:
    """Return the labels of all worker Pods of an installation, and of their Secrets."""
    return {NAME: "headwater", COMPONENT: WORKER, MANAGED_BY: "headwater", INSTANCE: instance}
