"""The cgroup of a running worker."""

import os
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.installation import Installation, deployed, pipeline

SCRIPT = {"type": "v8", "script": "const process = (record) => record;"}


def groups_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


@pytest.mark.long
def test_a_worker_and_its_sandbox_share_a_cgroup(installation: Installation, client: httpx2.Client) -> None:
    with deployed(client, pipeline(transforms=[SCRIPT])) as deployment:
        (worker,), (controller,) = installation.workers_of(deployment), installation.processes("headwater controller")
        if groups_of(worker) == groups_of(controller):
            assert not os.environ.get("CI"), "CI needs control groups"
            pytest.skip("no control group can be made here: it takes root or a delegated part of the tree")
        below = [pid for pid in installation.sandboxes() if groups_of(pid) == groups_of(worker)]
        assert len(below) >= 1
        assert "headwater-" in groups_of(worker)
        with deployed(client, pipeline(transforms=[SCRIPT])) as other:
            assert (
                len({groups_of(pid) for pid in (*installation.workers_of(deployment), *installation.workers_of(other))})
                == 2
            )
