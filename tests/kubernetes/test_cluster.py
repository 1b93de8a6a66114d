"""The test cluster has working Pods, failures, Services, names, logs and nodes."""

import socket
from collections.abc import Callable, Sequence
from typing import Any

import httpx2

from tests.kubernetes.cluster.cluster import BOX_IMAGE, Cluster, condition
from tests.kubernetes.cluster.network import BRIDGE
from tests.support.waiting import until

WITHIN_S = 60.0
NODE_LOST_WITHIN_S = 120.0


def container(*command: str, memory: str = "32Mi") -> dict[str, Any]:
    """Return a container of the box's image."""
    return {
        "name": "box",
        "image": BOX_IMAGE,
        "imagePullPolicy": "Never",
        "args": list(command),
        "resources": {"limits": {"memory": memory}, "requests": {"cpu": "10m", "memory": "8Mi"}},
    }


class Pods:
    """Creates Pods in one namespace and reads their states."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, name: str, *command: str, memory: str = "32Mi", **spec: Any) -> None:
        """Create a Pod with one container."""
        body = {
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [container(*command, memory=memory)], "terminationGracePeriodSeconds": 1, **spec},
        }
        self._cluster.post(self._path, body)

    def get(self, name: str) -> Any:
        """Return a Pod."""
        return self._cluster.get(f"{self._path}/{name}")

    def state(self, name: str) -> Any:
        """Return the status of a Pod's container; an empty one before the container is known."""
        return next(iter(self.get(name)["status"].get("containerStatuses", [])), {})

    def has_ended(self, name: str) -> Callable[[], bool]:
        """Return a function that returns whether a Pod's container has ended for good."""
        return lambda: self.get(name)["status"]["phase"] in {"Succeeded", "Failed"}

    def is_ready(self, name: str) -> Callable[[], bool]:
        """Return a function that returns whether a Pod is ready."""
        return lambda: condition(self.get(name), "Ready") == "True"

    def log(self, name: str) -> str:
        """Return the log of a Pod, as the API server reads it from the kubelet."""
        response = self._cluster.client.get(f"{self._path}/{name}/log")
        assert response.is_success, response.text
        return str(response.text)

    def output(self, name: str, *command: str) -> str:
        """Run a Pod to its end, and return its log."""
        self.create(name, *command, restartPolicy="Never")
        until(self.has_ended(name), WITHIN_S, f"the end of {name}")
        return self.log(name)


def test_both_nodes_are_ready(cluster: Cluster) -> None:
    assert cluster.ready_nodes() == {"node1", "node2"}


def test_a_pod_runs_with_an_address_of_its_own(cluster: Cluster, namespace: str) -> None:
    pods = Pods(cluster, namespace)
    for node in cluster.nodes.values():
        pods.create(f"on-{node.name}", "pause", nodeName=node.name)
    for node in cluster.nodes.values():
        until(pods.is_ready(f"on-{node.name}"), WITHIN_S, "the Pod's readiness")
        address = pods.get(f"on-{node.name}")["status"]["podIP"]
        assert address.rpartition(".")[0] == node.network.pods.rpartition(".")[0]


def test_the_log_of_a_pod_is_read_through_the_api_server(cluster: Cluster, namespace: str) -> None:
    pods = Pods(cluster, namespace)
    pods.create("quiet", "pause")
    until(pods.is_ready("quiet"), WITHIN_S, "the Pod's readiness")
    assert pods.log("quiet") == "paused\n"
    assert cluster.kubectl("logs", "--namespace", namespace, "quiet") == "paused\n"


def test_a_container_that_uses_too_much_memory_is_reported_as_oom_killed(cluster: Cluster, namespace: str) -> None:
    pods = Pods(cluster, namespace)
    pods.create("hungry", "eat", restartPolicy="Never")
    until(pods.has_ended("hungry"), WITHIN_S, "the kill")
    ended = pods.state("hungry")["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_a_container_that_fails_again_and_again_is_reported_as_a_crash_loop(cluster: Cluster, namespace: str) -> None:
    pods = Pods(cluster, namespace)
    pods.create("broken", "fail", "its last words")
    until(lambda: pods.state("broken").get("restartCount", 0) >= 3, WITHIN_S, "the third restart")
    until(lambda: "waiting" in pods.state("broken")["state"], WITHIN_S, "the wait for the next restart")
    state = pods.state("broken")
    assert state["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert (state["lastState"]["terminated"]["exitCode"], state["lastState"]["terminated"]["message"]) == (
        3,
        "its last words",
    )


def create_service(cluster: Cluster, namespace: str, name: str) -> str:
    """Create a Service of the Pods with a label, and return its address."""
    spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]}
    body = {"metadata": {"name": name}, "spec": spec}
    return str(cluster.post(f"/api/v1/namespaces/{namespace}/services", body)["spec"]["clusterIP"])


def test_a_service_is_reached_by_its_name_from_pods_of_both_nodes(cluster: Cluster, namespace: str) -> None:
    pods = Pods(cluster, namespace)
    create_service(cluster, namespace, "server")
    pods.create("server", "serve", ":8080", nodeName="node1")
    until(pods.is_ready("server"), WITHIN_S, "the server's readiness")
    until(lambda: endpoints(cluster, namespace, "server"), WITHIN_S, "the Service's endpoint")
    for node in cluster.nodes:
        for name in ("server", f"server.{namespace}.svc.cluster.local"):
            pod = f"client-{node}-{len(name)}"
            pods.create(pod, "fetch", f"http://{name}/", nodeName=node, restartPolicy="OnFailure")
            until(pods.has_ended(pod), WITHIN_S, f"the answer for {pod}")
            assert pods.log(pod) == "server\n"


def endpoints(cluster: Cluster, namespace: str, service: str) -> Sequence[str]:
    """Return the addresses of the ready Pods behind a Service."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    slices = cluster.get(f"{path}?labelSelector=kubernetes.io/service-name={service}")["items"]
    found = (endpoint for each in slices for endpoint in each["endpoints"] or [] if endpoint["conditions"]["ready"])
    return [address for endpoint in found for address in endpoint["addresses"]]


def test_the_tests_reach_pods_and_services_by_their_addresses(cluster: Cluster, namespace: str) -> None:
    pods = Pods(cluster, namespace)
    service = create_service(cluster, namespace, "server")
    pods.create("server", "serve", ":8080", nodeName="node2")
    until(pods.is_ready("server"), WITHIN_S, "the server's readiness")
    assert httpx2.get(f"http://{pods.get('server')['status']['podIP']}:8080/").text == "server\n"

    def answer() -> str:
        try:
            return httpx2.get(f"http://{service}/", timeout=1.0).text
        except httpx2.TransportError:
            return ""

    until(lambda: answer() == "server\n", WITHIN_S, "the Service's answer")


def test_nothing_of_the_cluster_listens_on_an_address_of_the_machine(cluster: Cluster) -> None:
    assert {name for _, name in socket.if_nameindex()} == {"lo", BRIDGE, *cluster.nodes}


def deployment(replicas: int) -> dict[str, Any]:
    """Return a Deployment named `web`."""
    pod = {"containers": [container("pause")], "terminationGracePeriodSeconds": 1}
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
        },
    }


def nodes_of(cluster: Cluster, namespace: str) -> list[str]:
    """Return the nodes of the ready Pods of the Deployment `web`.

    Pods that are being deleted do not count.
    """
    pods = cluster.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app=web")["items"]
    kept = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return sorted(pod["spec"]["nodeName"] for pod in kept if condition(pod, "Ready") == "True")


def test_a_drained_node_has_no_pods_of_a_deployment(cluster: Cluster, namespace: str) -> None:
    cluster.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment(4))
    until(lambda: len(nodes_of(cluster, namespace)) == 4, WITHIN_S, "the Deployment's readiness")
    assert set(nodes_of(cluster, namespace)) == {"node1", "node2"}
    try:
        cluster.kubectl("drain", "node2", "--ignore-daemonsets", "--force", "--timeout=60s")
        until(lambda: nodes_of(cluster, namespace) == ["node1"] * 4, WITHIN_S, "the Pods' move")
    finally:
        cluster.kubectl("uncordon", "node2")


def test_pods_of_a_killed_node_move_and_the_node_returns(cluster: Cluster, namespace: str) -> None:
    cluster.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment(2))
    until(lambda: nodes_of(cluster, namespace) == ["node1", "node2"], WITHIN_S, "the Deployment's readiness")
    cluster.nodes["node2"].kill()
    try:
        until(lambda: nodes_of(cluster, namespace) == ["node1"] * 2, NODE_LOST_WITHIN_S, "the Pods' move")
        assert cluster.ready_nodes() == {"node1"}
    finally:
        cluster.nodes["node2"].start()
        cluster.wait_until_ready()
