"""The acceptance tests of deployments, on the installation by the chart."""

from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from tests.acceptance.conformance.conftest import alice, http
from tests.acceptance.conformance.test_states import TestLife
from tests.acceptance.installation import Deployed, Installation
from tests.acceptance.living import test_pause_and_rewind as pauses
from tests.acceptance.living.test_pause_and_rewind import (
    test_a_paused_pipeline_is_torn_down,
    test_records_that_retention_removed_are_named,
)
from tests.acceptance.living.test_revisions import test_a_filter_comes_back_with_its_values_while_paused
from tests.acceptance.test_redeploy import TestLogs, TestRollback, TestWithoutAFailure
from tests.kubernetes.release import Release

__all__ = [
    "TestLife",
    "TestLogs",
    "TestRollback",
    "TestWithoutAFailure",
    "alice",
    "http",
    "test_a_filter_comes_back_with_its_values_while_paused",
    "test_a_paused_pipeline_is_torn_down",
    "test_records_that_retention_removed_are_named",
]

pytestmark = pytest.mark.slow


class ChartInstallation(Installation):
    """The release, as the acceptance tests use an installation.

    The tests see the processes of all Pods.
    """

    def __init__(self, release: Release, folder: Path) -> None:
        super().__init__(folder, port=0, variables=release.settings)
        self._release = release

    @property
    def url(self) -> str:
        return self._release.url

    @property
    def key(self) -> str:
        return self._release.key

    def admin_config(self) -> dict[str, Any]:
        return {**self._release.servers.kafka.plain_settings}

    def processes(self, text: str) -> list[int]:
        return _processes(text)

    def workers_of(self, deployed: Deployed) -> list[int]:
        return _processes("worker_main --spec", f"{deployed.sink['username'].removeprefix('dep-')}-")


def _processes(text: str, pod: str = "") -> list[int]:
    """Return the processes whose command line contains `text`.

    The names of their Pods begin with `pod`.
    """
    return [
        each.pid
        for each in psutil.process_iter(["cmdline", "environ"])
        if text in " ".join(each.info["cmdline"] or [])
        and (each.info["environ"] or {}).get("HOSTNAME", "").startswith(pod)
    ]


@pytest.fixture(scope="session")
def installation(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return ChartInstallation(release, tmp_path_factory.mktemp("lifecycle"))


def test_a_pause_loses_and_repeats_nothing(installation: Installation, client: httpx2.Client) -> None:
    pauses.test_nothing_is_lost_or_repeated(installation, client, "at_least_once")
