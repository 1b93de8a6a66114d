"""Workers that are killed for their memory use, on an installation with a low memory limit."""

import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Installation, pipeline
from tests.support.waiting import until

FLOW = "/api/v1/flow"


def check_that_kills_are_reported(client: httpx2.Client) -> None:
    """Deploy a pipeline whose workers have too little memory, and look at its health."""
    path = f"{FLOW}/{client.post(FLOW, json=pipeline()).json()['id']}"
    deploying = threading.Thread(target=lambda: client.post(f"{path}/deploy"))
    deploying.start()
    seen: list[dict[str, Any]] = []

    def is_reported() -> bool:
        stats = client.get(f"{path}/deploy/stats")
        if stats.status_code == 200:
            seen.extend(health for health in [stats.json()["workers_health"]] if health["workers"])
        return bool(seen) and seen[-1]["workers"][0]["status"] in ("OOMKilled", "CrashLoopBackOff")

    until(is_reported, what="a worker that is shown as killed for memory")
    (worker,) = seen[-1]["workers"]
    assert seen[-1]["oom_killed_workers"] == 1
    assert (worker["is_oom_killed"], worker["is_ready"]) == (True, False)
    assert "HEADWATER_WORKER_MEMORY_MB" in worker["reason"]
    deploying.join()
    assert client.delete(path).status_code == 200


@pytest.mark.slow
@pytest.mark.proves("2.4/workers_health.oom_killed_workers", "2.4/worker-entry.is_oom_killed")
def test_out_of_memory_kills_are_reported_as_such(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "data", flags=("--worker-memory-mb", "32"))
    installation.start()
    try:
        with installation.client() as client:
            check_that_kills_are_reported(client)
    finally:
        installation.stop()
