"""Images are built from Containerfiles, and Pods run them."""

from pathlib import Path

import pytest

from tests.kubernetes.cluster.cluster import Cluster
from tests.kubernetes.cluster.image_builds import build_image
from tests.support.waiting import until

IMAGE = "headwater.test/sample"
CONTAINERFILE = """ARG BASE
FROM $BASE
RUN python3 -m venv --without-pip /environment
COPY LICENSE /texts/LICENSE
USER 10001
ENTRYPOINT ["/environment/bin/python", "-c"]
CMD ["import os; print(os.getuid(), *open('/texts/LICENSE').read().split()[:2])"]
"""
WITHIN_S = 60.0


@pytest.mark.timeout(1200)  # the first build on a machine installs a Debian
def test_a_pod_runs_an_image_that_was_built_from_a_containerfile(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    containerfile = tmp_path / "Containerfile"
    containerfile.write_text(CONTAINERFILE)
    archive = build_image(IMAGE, containerfile, ["LICENSE"])
    assert build_image(IMAGE, containerfile, ["LICENSE"]) == archive
    cluster.load(archive)
    path = f"/api/v1/namespaces/{namespace}/pods"
    container = {"name": "sample", "image": f"{IMAGE}:1", "imagePullPolicy": "Never"}
    cluster.post(path, {"metadata": {"name": "sample"}, "spec": {"containers": [container], "restartPolicy": "Never"}})
    until(lambda: cluster.get(f"{path}/sample")["status"]["phase"] == "Succeeded", WITHIN_S, "the end of the Pod")
    assert cluster.client.get(f"{path}/sample/log").text == "10001 Apache License\n"
