"""The memory of processes, and the out-of-memory kills in this process's control group.

The cgroups are ordinary directories here.
"""

import os
import resource
from pathlib import Path

import pytest

from headwater.orchestrators import cgroups
from headwater.orchestrators.memory_usage import own_cgroup_counter, resident_bytes

KILLS = "low 0\noom_kill 3\n"


def make_cgroup(folder: Path, counters: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (folder / counters).write_text(KILLS)


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cgroups, "MOUNT", tmp_path)
    return tmp_path


@pytest.mark.parametrize("folder", ["headwater.service", "."], ids=["on a host", "in a container"])
@pytest.mark.parametrize(
    ("controllers", "hierarchy", "counters"), [("", ".", "memory.events"), ("memory", "memory", "memory.oom_control")]
)
def test_kills_are_counted(
    mount: Path, monkeypatch: pytest.MonkeyPatch, folder: str, controllers: str, hierarchy: str, counters: str
) -> None:
    """In a container without a cgroup namespace, the kernel names the path on the host.

    The mount is the cgroup.
    """
    make_cgroup(mount / hierarchy / folder, counters)
    monkeypatch.setattr(cgroups, "own_cgroups", lambda: [(controllers, "headwater.service")])
    assert own_cgroup_counter()() == 3


def test_a_hidden_cgroup_counts_no_kills(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "own_cgroups", lambda: [("memory", "elsewhere"), ("cpu", "x"), ("", "elsewhere")])
    assert own_cgroup_counter()() == 0


def test_memory_is_measured_in_pages_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = resident_bytes(os.getpid())
    monkeypatch.setattr(resource, "getpagesize", lambda: 65536)
    assert resident_bytes(os.getpid()) > 8 * usual
