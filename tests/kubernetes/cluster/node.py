"""A node of the cluster: namespaces, control groups, and the processes inside them."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.kubernetes.cluster.control_groups import ControlGroups
from tests.kubernetes.cluster.control_plane import ControlPlane
from tests.kubernetes.cluster.logged_process import LoggedProcess
from tests.kubernetes.cluster.network import HOST, PODS, NodeNetwork
from tests.kubernetes.cluster.node_spec import NodeSpec
from tests.support.processes import descendants

_NAMESPACES = ("unshare", "--mount", "--pid", "--cgroup", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc")


class Node:
    """A node that can be killed, and started again with the images that it had.

    Args:
        network: The node's network namespace.
        control_plane: The control plane at which the node registers.
        programs: The folder of the programs.
        pause_image: The image of the container that holds a Pod's namespaces.
        archives: Archives of images that the node imports before it registers.
    """

    def __init__(
        self,
        network: NodeNetwork,
        control_plane: ControlPlane,
        programs: Path,
        pause_image: str,
        archives: Sequence[Path],
    ) -> None:
        self.name = network.link
        self.network = network
        folder = control_plane.folder / self.name
        folder.mkdir()
        self._spec = NodeSpec(
            name=self.name,
            address=network.address,
            pods=network.pods,
            all_pods=PODS,
            dns=HOST,
            folder=str(folder),
            programs=str(programs),
            kubelet_config=str(control_plane.kubeconfig(self.name)),
            proxy_config=str(control_plane.kubeconfig("proxy")),
            pause_image=pause_image,
            archives=[str(archive) for archive in archives],
        )
        self._groups: ControlGroups | None = None
        self.process: LoggedProcess | None = None

    def start(self) -> None:
        """Start the node. It registers at the control plane some seconds later."""
        assert self.process is None, "the node runs"
        self._groups = ControlGroups.create(self.name)
        module = [sys.executable, "-m", "tests.kubernetes.cluster.node_main", str(self._spec.write())]
        enter = ["/usr/bin/nsenter", f"--net={self.network.file}"]
        log = Path(self._spec.folder) / f"{self.name}.log"
        self.process = LoggedProcess(log, [*enter, *self._groups.command([*_NAMESPACES, *module])])

    def kill(self) -> None:
        """Kill all processes of the node, as if its machine failed."""
        if self.process is not None:
            self.process.kill()
            self.process = None
        if self._groups is not None:
            self._groups.remove()
            self._groups = None

    def kill_kubelet(self) -> None:
        """Kill the kubelet alone. The containers run on."""
        os.kill(self._pid(self._spec.program("kubelet")), signal.SIGKILL)

    def start_kubelet(self) -> None:
        """Start a killed kubelet again."""
        os.kill(self._pid(sys.executable), signal.SIGUSR1)

    def _pid(self, program: str) -> int:
        """Return the id of the node's process that runs a program."""
        assert self.process is not None, "the node does not run"
        return next(each.pid for each in descendants(self.process.pid) if each.command.startswith(f"{program} "))

    def tag(self, image: str, name: str) -> None:
        """Give an image another name, too."""
        subprocess.run(self._spec.images_command("tag", image, name), check=True, stdout=subprocess.DEVNULL)

    def load(self, archive: Path) -> "subprocess.Popen[str]":
        """Begin to import the archive of an image."""
        return subprocess.Popen(
            self._spec.images_command("import", str(archive)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
