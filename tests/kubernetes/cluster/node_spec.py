"""The description of a node, which its first process reads."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

CNI_PLUGINS = Path("/usr/lib/cni")
KUBELET_PORT = 10250


@dataclass(frozen=True)
class NodeSpec:
    """A node, as a JSON file says it.

    Attributes:
        name: The name of the node and its host name.
        address: The node's address.
        pods: The network of its Pods.
        all_pods: The network of all Pods of the cluster.
        dns: The address of the DNS server.
        folder: Where the node's files are.
        programs: The folder of the programs.
        kubelet_config: The kubeconfig file of the kubelet.
        proxy_config: The kubeconfig file of the kube-proxy.
        pause_image: The image of the container that holds a Pod's namespaces.
        archives: Archives of images that the node imports before it registers.
    """

    name: str
    address: str
    pods: str
    all_pods: str
    dns: str
    folder: str
    programs: str
    kubelet_config: str
    proxy_config: str
    pause_image: str
    archives: list[str]

    @property
    def socket(self) -> str:
        """The socket of containerd."""
        return f"{self.folder}/containerd.sock"

    def program(self, name: str) -> str:
        """Return the path of a program."""
        return f"{self.programs}/{name}"

    def images_command(self, *arguments: str) -> list[str]:
        """Return the command line of `ctr images` with these arguments."""
        return [self.program("ctr"), "--address", self.socket, "--namespace", "k8s.io", "images", *arguments]

    def write(self) -> Path:
        """Write the JSON file."""
        path = Path(self.folder) / "spec.json"
        path.write_text(json.dumps(asdict(self)))
        return path

    @classmethod
    def read(cls, path: Path) -> "NodeSpec":
        """Read the JSON file."""
        return cls(**json.loads(path.read_text()))
