"""A node whose Pods only seem to run.

The addresses of all its Pods lead to this network namespace.
"""

import subprocess
from pathlib import Path

from tests.kubernetes.cluster.cluster import condition
from tests.kubernetes.cluster.control_plane import ControlPlane
from tests.kubernetes.cluster.logged_process import LoggedProcess, wait_for
from tests.kubernetes.cluster.network import PODS

STAGES = Path(__file__).with_suffix(".yaml")
NAME = "pretended"
READY_WITHIN_S = 60.0
LEASE_S = 40


class PretendedNode:
    """A node that kwok pretends. Its Pods are ready at once.

    Args:
        control_plane: The running control plane.
        kwok: The program.
    """

    def __init__(self, control_plane: ControlPlane, kwok: Path) -> None:
        self._control_plane = control_plane
        self._kwok = kwok

    def start(self) -> None:
        """Create the node, and wait until Pods can be scheduled on it."""
        subprocess.run(["ip", "route", "add", "local", PODS, "dev", "lo"], check=True)
        node = {"metadata": {"name": NAME}, "spec": {"podCIDR": PODS, "podCIDRs": [PODS]}}
        self._control_plane.client.post("/api/v1/nodes", json=node).raise_for_status()
        self._process = LoggedProcess(
            self._control_plane.folder / "kwok.log",
            [
                str(self._kwok),
                f"--config={STAGES}",
                f"--kubeconfig={self._control_plane.kubeconfig('admin')}",
                "--manage-all-nodes=true",
                f"--node-lease-duration-seconds={LEASE_S}",
            ],
        )
        wait_for(self._is_ready, [self._process], READY_WITHIN_S, "The readiness of the node")

    def kill(self) -> None:
        """Kill kwok. Pods that seem to run then stay as they are."""
        self._process.kill()

    def _is_ready(self) -> bool:
        node = self._control_plane.client.get(f"/api/v1/nodes/{NAME}").json()
        return condition(node, "Ready") == "True" and not node["spec"].get("taints")
