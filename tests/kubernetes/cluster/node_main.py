"""Runs the programs of a node, as the first process of its namespaces.

`python -m tests.kubernetes.cluster.node_main SPEC` mounts what the node has for itself. When it ends, the kernel kills
all processes of the node, the containers too, and its mounts disappear.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.kubernetes.cluster.node_config import write_config
from tests.kubernetes.cluster.node_spec import NodeSpec

CONTAINERD_WITHIN_S = 30.0
OWN_FOLDERS = ("/run", "/var/lib", "/var/log")
MACHINE_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Settings of the whole machine that the kubelet would change. It reads and writes files with its values instead."""
NETWORK_SETTINGS = {
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/rp_filter": "0",
    "bridge/bridge-nf-call-iptables": "1",
}


def main(spec: NodeSpec) -> None:
    """Run the node until one of its three programs ends.

    A kubelet that is killed does not end the node, and SIGUSR1 starts it again.
    """
    _mount_own_folders(Path(spec.folder))
    for name, value in NETWORK_SETTINGS.items():
        Path("/proc/sys/net", name).write_text(value)
    _run("hostname", spec.name)
    write_config(spec)
    programs = {"containerd": _start(spec, "containerd", f"--config={spec.folder}/containerd.toml")}
    _wait_for_containerd(spec)
    for archive in spec.archives:
        _run(*spec.images_command("import", archive))
    programs["kubelet"] = _start_kubelet(spec)
    programs["kube-proxy"] = _start(spec, "kube-proxy", f"--config={spec.folder}/proxy.json")
    signal.signal(signal.SIGUSR1, lambda *_: programs.update(kubelet=_start_kubelet(spec)))
    while True:
        pid, status = os.wait()  # the first process also reaps orphans
        ended = next((program for program, process in programs.items() if process.pid == pid), None)
        if ended is None or (ended == "kubelet" and os.WIFSIGNALED(status)):
            continue
        log = Path(spec.folder, f"{ended}.log").read_text(errors="replace")
        sys.exit(f"{ended} ended with status {os.waitstatus_to_exitcode(status)}:\n{log[-4000:]}")


def _start_kubelet(spec: NodeSpec) -> subprocess.Popen[bytes]:
    return _start(
        spec,
        "kubelet",
        f"--config={spec.folder}/kubelet.json",
        f"--kubeconfig={spec.kubelet_config}",
        f"--hostname-override={spec.name}",
        f"--node-ip={spec.address}",
        f"--node-labels=topology.kubernetes.io/zone={spec.name}",
        f"--root-dir={spec.folder}/kubelet",
        f"--cert-dir={spec.folder}/certificates",
    )


def _mount_own_folders(folder: Path) -> None:
    hierarchies = [line.split(":")[1] for line in Path("/proc/self/cgroup").read_text().splitlines()]
    _run("mount", "-t", "sysfs", "sysfs", "/sys")
    _run("mount", "-t", "tmpfs", "tmpfs", "/sys/fs/cgroup")
    for hierarchy in filter(None, hierarchies):
        mounted = Path("/sys/fs/cgroup", hierarchy.removeprefix("name="))
        mounted.mkdir()
        _run("mount", "-t", "cgroup", "-o", hierarchy, "cgroup", str(mounted))
    for path in OWN_FOLDERS:
        _run("mount", "-t", "tmpfs", "tmpfs", path)
    settings = folder / "settings"
    settings.mkdir(exist_ok=True)
    for name, value in MACHINE_SETTINGS.items():
        own = settings / name.replace("/", ".")
        own.write_text(f"{value}\n")
        _run("mount", "--bind", str(own), f"/proc/sys/{name}")


def _start(spec: NodeSpec, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    path = f"{spec.programs}:{os.environ['PATH']}"
    with Path(spec.folder, f"{program}.log").open("ab") as log:
        command = [spec.program(program), *arguments]
        return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"PATH": path})


def _wait_for_containerd(spec: NodeSpec) -> None:
    deadline = time.monotonic() + CONTAINERD_WITHIN_S
    command = [spec.program("ctr"), "--address", spec.socket, "plugins", "ls"]
    while not Path(spec.socket).exists() or subprocess.run(command, capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            sys.exit(Path(spec.folder, "containerd.log").read_text()[-4000:])
        time.sleep(0.1)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(NodeSpec.read(Path(sys.argv[1])))
