"""The configuration files of containerd, its CNI plugins, the kubelet and the kube-proxy."""

import json
from pathlib import Path
from typing import Any

from tests.kubernetes.cluster.node_spec import CNI_PLUGINS, KUBELET_PORT, NodeSpec

_CONTAINERD = """version = 3
root = "{folder}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause_image}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{plugins}"]
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def write_config(spec: NodeSpec) -> None:
    """Write all configuration files into the node's folder."""
    folder = Path(spec.folder)
    (folder / "cni").mkdir(exist_ok=True)
    (folder / "resolv.conf").write_text(f"nameserver {spec.dns}\n")
    (folder / "containerd.toml").write_text(
        _CONTAINERD.format(folder=folder, socket=spec.socket, pause_image=spec.pause_image, plugins=CNI_PLUGINS)
    )
    configs = {"cni/10-pods.conflist": _pod_network(spec), "kubelet.json": _kubelet(spec), "proxy.json": _proxy(spec)}
    for name, config in configs.items():
        (folder / name).write_text(json.dumps(config))


def _pod_network(spec: NodeSpec) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": spec.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni-addresses",
    }
    bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def _kubelet(spec: NodeSpec) -> dict[str, Any]:
    """Return the kubelet's configuration.

    The kubelet answers everybody, since only the tests and their Pods reach its port. It restarts failing containers
    after five seconds at most, and never evicts Pods because the disk of this machine is full.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": spec.address,
        "port": KUBELET_PORT,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{spec.socket}",
        "volumePluginDir": f"{spec.folder}/volume-plugins",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "localStorageCapacityIsolation": False,
        "evictionHard": {
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "crashLoopBackOff": {"maxContainerRestartPeriod": "5s"},
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 12,
        "clusterDNS": [spec.dns],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{spec.folder}/resolv.conf",
    }


def _proxy(spec: NodeSpec) -> dict[str, Any]:
    """Return the kube-proxy's configuration.

    The kube-proxy leaves settings of the whole machine as they are.
    """
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": spec.name,
        "bindAddress": spec.address,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "clusterCIDR": spec.all_pods,
        "clientConnection": {"kubeconfig": spec.proxy_config},
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
