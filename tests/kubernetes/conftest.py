"""Fixtures of the tests on a Kubernetes cluster."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.kubernetes.cluster import enclosure
from tests.kubernetes.cluster.cluster import Cluster
from tests.kubernetes.cluster.image_builds import HEADWATER, build_headwater
from tests.kubernetes.cluster.programs import built, missing
from tests.kubernetes.cluster.servers import Servers, running_servers
from tests.kubernetes.release import Release

FOLDER = Path(__file__).parent
ENTITIES = ("erc20_token_transfer", "erc721_token_transfer", "erc1155_token_transfer")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, which only `make test-kubernetes` runs."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.kubernetes)


@pytest.fixture(scope="session")
def programs() -> Path:
    """Return the folder of the cluster's programs.

    Skip the tests where they can't be built, but not in CI.
    """
    reason = missing()
    if reason:
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    return built()


@pytest.fixture(scope="session")
def cluster(programs: Path) -> Iterator[Cluster]:
    """Run the session's cluster, which all tests share.

    The enclosure removes one whose start fails.
    """
    folder = enclosure.folder()
    if folder is None:
        pytest.skip("Run these tests with `make test-kubernetes`, which gives them a network of their own.")
    running = Cluster(folder, programs)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def servers(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Run the session's Kafka, PostgreSQL and Valkey, which Pods reach too."""
    with running_servers(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture(scope="session")
def image(cluster: Cluster) -> str:
    """Build Headwater's image, load it into the nodes, and return its name."""
    cluster.load(build_headwater())
    return f"{HEADWATER}:1"


@pytest.fixture(scope="session")
def release(
    cluster: Cluster, servers: Servers, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    """Install Headwater with two APIs and two controllers.

    The streams of some entities of Base exist.
    """
    namespace = "release"
    cluster.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    installed = Release(cluster, servers, namespace, image, tmp_path_factory.mktemp("release"))
    for entity in ENTITIES:
        installed.create_stream("base", entity)
    installed.install()
    yield installed
    cluster.client.delete(f"/api/v1/namespaces/{namespace}").raise_for_status()


@pytest.fixture(scope="session")
def client(release: Release) -> Iterator[httpx2.Client]:
    """Return a client of the release's API."""
    with release.client() as http_client:
        yield http_client


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Create a namespace for one test, and delete it afterwards with all that is in it."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.post("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    cluster.client.delete(f"/api/v1/namespaces/{name}").raise_for_status()
