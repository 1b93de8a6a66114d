"""The acceptance tests of deployments, on the installation by the chart."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from tests.acceptance.conformance.conftest import alice, http
from tests.acceptance.conformance.test_states import TestLife
from tests.acceptance.installation import Deployed, Installation
from tests.acceptance.living import test_pause_and_rewind
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


class ChartInstallation(Installation):
    """The release, as the acceptance tests use an installation. The tests see the processes of all Pods."""

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
        return [process.pid for process in _processes(text)]

    def workers_of(self, deployed: Deployed) -> list[int]:
        prefix = f"{deployed.sink['username'].removeprefix('dep-')}-"
        found = [
            each for each in _processes("worker_main --spec") if each.environ().get("HOSTNAME", "").startswith(prefix)
        ]
        return [process.pid for process in found]


def _processes(text: str) -> Iterable[psutil.Process]:
    """Return the running processes whose command line contains `text`."""
    return [each for each in psutil.process_iter(["cmdline"]) if text in " ".join(each.info["cmdline"] or [])]


@pytest.fixture(scope="session")
def installation(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    return ChartInstallation(release, tmp_path_factory.mktemp("lifecycle"))


def test_a_pause_loses_and_repeats_nothing(installation: Installation, client: httpx2.Client) -> None:
    test_pause_and_rewind.test_nothing_is_lost_or_repeated(installation, client, "at_least_once")
