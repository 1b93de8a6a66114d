"""Runs etcd, the API server, the controller manager, the scheduler and CoreDNS."""

import json
import secrets
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx2

from tests.kubernetes.cluster.logged_process import LoggedProcess, wait_for
from tests.kubernetes.cluster.network import API_SERVICE, HOST, SERVICES
from tests.support.certificates import Authority

PORT = 6443
URL = f"https://{HOST}:{PORT}"
ETCD = "http://127.0.0.1:2379"
DNS_READY = "127.0.0.1:8181"
START_WITHIN_S = 120.0
GROUPS = {"admin": "system:masters", "node": "system:nodes"}
_CORE_FILE = """.:53 {{
    bind {host}
    errors
    ready {ready}
    kubernetes cluster.local {{
        kubeconfig {kubeconfig}
        ttl 1
    }}
}}
"""


class ControlPlane:
    """The processes that every cluster has once. They listen on HOST and on loopback.

    Args:
        folder: Where data, logs, certificates and kubeconfig files are.
        programs: The folder of the programs.
        nodes: The names of the nodes that may register.
    """

    def __init__(self, folder: Path, programs: Path, nodes: Sequence[str]) -> None:
        self.folder = folder
        self._programs = programs
        self._processes: dict[str, LoggedProcess] = {}
        self._arguments: dict[str, Sequence[str]] = {}
        self.authority = Authority(folder / "certificates", "Test cluster")
        users = {
            "admin": "admin",
            "manager": "system:kube-controller-manager",
            "scheduler": "system:kube-scheduler",
            "proxy": "system:kube-proxy",
            **{name: f"system:node:{name}" for name in nodes},
        }
        tokens = {name: secrets.token_hex(16) for name in users}
        groups = {name: GROUPS["admin"] if name == "admin" else GROUPS["node"] for name in ("admin", *nodes)}
        lines = [f'{tokens[name]},{user},{name},"{groups.get(name, "")}"' for name, user in users.items()]
        (folder / "tokens.csv").write_text("\n".join(lines) + "\n")
        for name, token in tokens.items():
            self.kubeconfig(name).write_text(self._kubeconfig(token))
        self.client = httpx2.Client(
            base_url=URL,
            headers={"Authorization": f"Bearer {tokens['admin']}"},
            verify=ssl.create_default_context(cafile=str(self.authority.file)),
            timeout=30.0,
        )

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig file of a user."""
        return self.folder / f"{user}.kubeconfig"

    def start(self) -> None:
        """Start the processes, and wait until Pods can be created and names resolved."""
        self._start_etcd()
        self._start_api_server()
        self._wait_for(self._is_ready, "The readiness of the API server")
        self._start_controllers()
        self._start_dns()
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait_for(lambda: self.client.get(account).is_success, "The default service account")
        self._wait_for(lambda: _is_ok(f"http://{DNS_READY}/ready"), "The readiness of CoreDNS")

    def stop(self) -> None:
        """Kill the processes."""
        self.client.close()
        for program in reversed(list(self._processes)):
            self.kill(program)

    def kill(self, program: str) -> None:
        """Kill a process."""
        self._processes.pop(program).kill()

    def restart(self, program: str) -> None:
        """Start a killed process again, and wait until the API server is ready."""
        self._start(program, *self._arguments[program])
        self._wait_for(self._is_ready, "The readiness of the API server")

    def _wait_for(self, condition: Callable[[], object], what: str) -> None:
        wait_for(condition, list(self._processes.values()), START_WITHIN_S, what)

    def _is_ready(self) -> bool:
        try:
            return self.client.get("/readyz").is_success
        except httpx2.TransportError:
            return False

    def _kubeconfig(self, token: str) -> str:
        cluster = {"server": URL, "certificate-authority": str(self.authority.file)}
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "test", "user": {"token": token}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                "current-context": "test",
            }
        )

    def _start(self, program: str, *arguments: str) -> None:
        log = self.folder / f"{program}.log"
        self._arguments[program] = arguments
        self._processes[program] = LoggedProcess(log, [str(self._programs / program), *arguments])

    def _start_etcd(self) -> None:
        self._start(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def _start_api_server(self) -> None:
        hosts = (HOST, API_SERVICE, "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        serving = self.authority.sign("kube-apiserver", hosts=hosts)
        accounts = self.authority.sign("service-accounts")
        self._start(
            "kube-apiserver",
            f"--etcd-servers={ETCD}",
            f"--bind-address={HOST}",
            f"--advertise-address={HOST}",
            f"--secure-port={PORT}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--cert-dir={self.folder / 'certificates'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={accounts.certificate}",
            f"--service-account-signing-key-file={accounts.key}",
            "--authorization-mode=Node,RBAC",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            f"--service-cluster-ip-range={SERVICES}",
            "--enable-admission-plugins=NodeRestriction",
            "--kubelet-preferred-address-types=InternalIP",
            "--default-not-ready-toleration-seconds=5",
            "--default-unreachable-toleration-seconds=5",
            "--profiling=false",
        )

    def _start_controllers(self) -> None:
        common = ("--leader-elect=false", "--secure-port=0", "--authentication-skip-lookup")
        accounts = self.folder / "certificates" / "service-accounts.key"
        self._start(
            "kube-controller-manager",
            *common,
            f"--kubeconfig={self.kubeconfig('manager')}",
            f"--service-account-private-key-file={accounts}",
            f"--root-ca-file={self.authority.file}",
            "--use-service-account-credentials=true",
            "--controllers=*,-node-ipam-controller",
            "--node-monitor-period=2s",
            "--node-monitor-grace-period=20s",
        )
        self._start("kube-scheduler", *common, f"--kubeconfig={self.kubeconfig('scheduler')}")

    def _start_dns(self) -> None:
        config = self.folder / "Corefile"
        config.write_text(_CORE_FILE.format(host=HOST, ready=DNS_READY, kubeconfig=self.kubeconfig("admin")))
        self._start("coredns", "-conf", str(config))


def _is_ok(url: str) -> bool:
    try:
        return httpx2.get(url).is_success
    except httpx2.TransportError:
        return False
