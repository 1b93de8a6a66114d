"""The networks of the test cluster: addresses, and the links between network namespaces.

The tests, the control plane and the servers of the tests share one network namespace, whose bridge has the address
HOST. Each node has a namespace of its own with one link to the bridge, and a second bridge for its Pods. Everybody
reaches everybody: Pods by their addresses, Services through the kube-proxy of a node.
"""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HOST = "10.240.0.1"
"""The address of the tests, the control plane and the servers of the tests."""
PODS = "10.244.0.0/16"
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
"""The address of the Service `kubernetes`, the first one of SERVICES."""
BRIDGE = "nodes"


@dataclass(frozen=True)
class NodeNetwork:
    """The network namespace of one node.

    Attributes:
        number: The number of the node, from 1.
        file: The file on which the namespace is mounted.
    """

    number: int
    file: Path

    @property
    def address(self) -> str:
        """The address of the node."""
        return f"10.240.0.{10 + self.number}"

    @property
    def pods(self) -> str:
        """The network of the node's Pods."""
        return f"10.244.{self.number}.0/24"

    @property
    def link(self) -> str:
        """The name of the link's end at the bridge."""
        return f"node{self.number}"

    def create(self, others: Iterable["NodeNetwork"]) -> None:
        """Create the namespace, its link to the bridge, and its routes to the Pods of other nodes."""
        self.file.touch()
        subprocess.run(["unshare", f"--net={self.file}", "true"], check=True)
        _ip(
            f"link add {self.link} type veth peer name eth0 netns {self.file}",
            f"link set {self.link} master {BRIDGE} up",
            f"route add {self.pods} via {self.address}",
        )
        routes = [f"route add {other.pods} via {other.address}" for other in others]
        _ip(
            "link set lo up",
            f"addr add {self.address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {HOST}",
            *routes,
            inside=self.file,
        )

    def remove(self) -> None:
        """Remove the link and the namespace, which exists until its last process ends."""
        _ip(f"link del {self.link}")
        subprocess.run(["umount", str(self.file)], check=True)


def create_bridge() -> None:
    """Create the bridge of the nodes, and the route to Services through the first node."""
    first = NodeNetwork(1, Path())
    _ip(
        f"link add {BRIDGE} type bridge",
        f"addr add {HOST}/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
        f"route add {SERVICES} via {first.address}",
    )


def remove_bridge() -> None:
    """Remove the bridge of the nodes and its routes."""
    _ip(f"link del {BRIDGE}")


def _ip(*commands: str, inside: Path | None = None) -> None:
    """Run commands of `ip`, in this network namespace or inside another one."""
    enter = ["nsenter", f"--net={inside}"] if inside else []
    subprocess.run([*enter, "ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)
