"""Builds the programs of the test cluster from Go modules, once for each version."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headwater.brokers.embedded import cache
from tests.kubernetes.cluster.control_groups import own_groups
from tests.kubernetes.cluster.enclosure import outside
from tests.kubernetes.cluster.node_spec import CNI_PLUGINS
from tests.support.kafka import CACHE_DIR

SOURCE = Path(__file__).parents[1] / "programs"
COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
"""The names of the program `kubernetes`."""
PROGRAMS = (
    "./box",
    "./coredns",
    "./kubernetes",
    "github.com/containerd/containerd/v2/cmd/containerd",
    "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
    "github.com/containerd/containerd/v2/cmd/ctr",
    "helm.sh/helm/v3/cmd/helm",
)
"""The packages of the cluster's programs."""
KWOK = "sigs.k8s.io/kwok/cmd/kwok"
"""The package of kwok, which only a benchmark needs."""
COMMANDS = {
    "go": "Go",
    "runc": "the Debian package runc",
    "buildah": "the Debian package buildah",
    "debootstrap": "the Debian package debootstrap",
    "nft": "the Debian package nftables",
    "ip": "the Debian package iproute2",
}
"""What the cluster needs, by the command that shows that it is there."""
_VERSION = "k8s.io/component-base/version"


def missing() -> str:
    """Return what this machine lacks for a test cluster, as a sentence.

    The text is empty if the machine lacks nothing.
    """
    lacking = [name for command, name in COMMANDS.items() if shutil.which(command) is None]
    if not (CNI_PLUGINS / "bridge").exists():
        lacking.append("the Debian package containernetworking-plugins")
    if os.geteuid() != 0:
        lacking.append("root")
    if not own_groups():
        lacking.append("control groups of version 1")
    return f"The tests on Kubernetes need {', '.join(lacking)}." if lacking else ""


def built() -> Path:
    """Return the folder of the programs. If they are missing, build them; this takes minutes."""
    return _cached("kubernetes-programs", _build)


def built_kwok() -> Path:
    """Return the program kwok, which makes Pods seem to run. If it is missing, build it."""
    return _cached("kubernetes-kwok", lambda folder: _go_build(folder, [KWOK])) / "kwok"


def _cached(name: str, build: Callable[[Path], None]) -> Path:
    """Return a folder of programs. If it is missing, build them into it."""
    files = sorted(path for path in SOURCE.rglob("*") if path.is_file())
    text = b"".join(path.read_bytes() for path in files)
    version = subprocess.run(["go", "version"], capture_output=True, check=True).stdout
    root = CACHE_DIR.expanduser()
    root.mkdir(parents=True, exist_ok=True)
    with (root / "kubernetes-programs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return cache.ensure(root / f"{name}-{hashlib.sha256(text + version).hexdigest()[:16]}", build)


def kubernetes_version() -> str:
    """Return the version of Kubernetes in go.mod, such as "v1.36.3"."""
    lines = (SOURCE / "go.mod").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.strip().startswith("k8s.io/kubernetes "))


def _build(folder: Path) -> None:
    started, version = time.monotonic(), kubernetes_version()
    print(f"Building Kubernetes {version} and its programs, once; this takes about 15 minutes.", flush=True)
    _go_build(folder, PROGRAMS)
    for name in COMPONENTS:
        (folder / name).symlink_to("kubernetes")
    print(f"Built them in {time.monotonic() - started:.0f} s.", flush=True)


def _go_build(folder: Path, packages: Sequence[str]) -> None:
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    flags = " ".join(["-s", "-w", *(f"-X {_VERSION}.{name}={value}" for name, value in values.items())])
    command = ["go", "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", flags, "-o", f"{folder}/"]
    folder.mkdir()
    subprocess.run(
        outside([*command, *packages]),
        cwd=SOURCE,
        check=True,
        env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local"},
    )
