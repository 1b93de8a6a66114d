"""A Kubernetes cluster with two nodes."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kubernetes.cluster.archives import write_archive
from tests.kubernetes.cluster.control_plane import ControlPlane
from tests.kubernetes.cluster.logged_process import wait_for
from tests.kubernetes.cluster.network import NodeNetwork, create_bridge, remove_bridge
from tests.kubernetes.cluster.node import Node

BOX_IMAGE = "headwater.test/box:1"
"""An image whose only program pauses, serves, fetches, fails or uses memory; see programs/box."""
NODE_READY_WITHIN_S = 120.0
COMMAND_WITHIN_S = 240.0


class Cluster:
    """A running cluster. Its `client` sends requests to the API server as an administrator.

    Attributes:
        nodes: The nodes by name.
        kubeconfig: The kubeconfig file of an administrator.
    """

    def __init__(self, folder: Path, programs: Path, nodes: int = 2) -> None:
        self.folder = folder
        self._programs = programs
        networks = [NodeNetwork(number, folder / f"network{number}") for number in range(1, nodes + 1)]
        self.control_plane = ControlPlane(folder, programs, [network.link for network in networks])
        self.client = self.control_plane.client
        self.kubeconfig = self.control_plane.kubeconfig("admin")
        box = folder / "box.tar"
        write_archive(box, BOX_IMAGE, ["/box"], [programs / "box"])
        self.nodes = {
            network.link: Node(network, self.control_plane, programs, BOX_IMAGE, [box]) for network in networks
        }

    def start(self) -> None:
        """Start the control plane and the nodes, and wait until they are ready."""
        create_bridge()
        networks = [node.network for node in self.nodes.values()]
        for network in networks:
            network.create([other for other in networks if other != network])
        for node in self.nodes.values():
            node.start()
        self.control_plane.start()
        self.wait_until_ready()

    def stop(self) -> None:
        """Kill all processes, and remove their control groups and networks."""
        for node in self.nodes.values():
            node.kill()
            node.network.remove()
        self.control_plane.stop()
        remove_bridge()

    def wait_until_ready(self) -> None:
        """Wait until all nodes are ready."""
        processes = [node.process for node in self.nodes.values() if node.process]
        wait_for(lambda: self.ready_nodes() == set(self.nodes), processes, NODE_READY_WITHIN_S, "The nodes' readiness")

    def ready_nodes(self) -> set[str]:
        """Return the names of the nodes that are ready."""
        nodes = self.get("/api/v1/nodes")["items"]
        return {node["metadata"]["name"] for node in nodes if condition(node, "Ready") == "True"}

    def load(self, archive: Path) -> None:
        """Import the archive of an image into all nodes.

        Pods with `imagePullPolicy: Never` then can use the image.
        """
        imports = [node.load(archive) for node in self.nodes.values()]
        for process in imports:
            output, _ = process.communicate(timeout=COMMAND_WITHIN_S)
            assert process.returncode == 0, output

    def get(self, path: str) -> Any:
        """Return an object of the API server, by its path."""
        response = self.client.get(path)
        response.raise_for_status()
        return response.json()

    def post(self, path: str, body: Any) -> Any:
        """Create an object, and return it."""
        response = self.client.post(path, json=body)
        assert response.is_success, response.text
        return response.json()

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl as an administrator, and return its output."""
        return self._run("kubectl", arguments, stdin)

    def helm(self, *arguments: str) -> str:
        """Run helm as an administrator, and return its output."""
        return self._run("helm", arguments, "")

    def _run(self, program: str, arguments: Sequence[str], stdin: str) -> str:
        result = subprocess.run(
            [str(self._programs / program), *arguments],
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_WITHIN_S,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout


def condition(found: Any, kind: str) -> str:
    """Return the status of a condition of an object; an empty text if it has none."""
    conditions = found.get("status", {}).get("conditions", [])
    return next((str(each["status"]) for each in conditions if each["type"] == kind), "")
