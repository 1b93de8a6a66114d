"""The files that are written for workers' cgroups, in ordinary directories.

The cgroups are v2, as delegated by systemd.

The kernel creates the files of a new cgroup; in a directory they appear when they are written.
"""

import os
from pathlib import Path

import pytest

from headwater.orchestrators import cgroups
from headwater.orchestrators.cgroups import (
    SUPERVISOR,
    V2,
    WorkerCgroups,
    find_cgroups,
    prepare_delegated_folder,
    read_counter,
)

LIMIT = 1 << 30


def make_cgroup(path: Path, *pids: int) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    return path


class TestDelegatedFolder:
    def test_of_a_service_with_a_cgroup_of_its_own_for_its_processes(self, tmp_path: Path) -> None:
        """With `Delegate=yes` and `DelegateSubgroup=`, no process has to move."""
        unit = make_cgroup(tmp_path / "headwater.service")
        own = make_cgroup(unit / "main", 1)
        assert prepare_delegated_folder(own, lambda folder: folder == unit) == unit
        assert (unit / "cgroup.subtree_control").read_text() == "+memory"
        assert not (unit / SUPERVISOR).exists()

    def test_of_a_service_whose_processes_are_in_the_delegated_cgroup(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unit = make_cgroup(tmp_path / "headwater.service", 71, 72)
        moved = []
        write = Path.write_text

        def move(path: Path, text: str) -> int:
            """Like the kernel, keep a process in one cgroup only."""
            if path.name == "cgroup.procs":
                if text == "72":
                    write(unit / "cgroup.procs", "")
                    raise ProcessLookupError
                moved.append((path.parent.name, text))
                left = [pid for pid in (unit / "cgroup.procs").read_text().split() if pid != text]
                return write(unit / "cgroup.procs", "\n".join(left))
            return write(path, text)

        monkeypatch.setattr(Path, "write_text", move)
        assert prepare_delegated_folder(unit, lambda folder: folder == unit) == unit
        assert moved == [(SUPERVISOR, "71")]
        assert (unit / "cgroup.subtree_control").read_text() == "+memory"

    def test_a_cgroup_in_which_processes_keep_appearing(self, tmp_path: Path) -> None:
        unit = make_cgroup(tmp_path / "headwater.service", 71)
        with pytest.raises(BlockingIOError):
            prepare_delegated_folder(unit, lambda folder: folder == unit)

    def test_systemds_cgroups_are_not_changed(self, tmp_path: Path) -> None:
        session = make_cgroup(tmp_path / "session-1.scope", 71)
        with pytest.raises(PermissionError, match="Delegate=yes"):
            prepare_delegated_folder(session)
        assert sorted(path.name for path in session.iterdir()) == ["cgroup.procs"]


class TestWorkerCgroups:
    def test_limits_of_v2(self, tmp_path: Path) -> None:
        cgroup = WorkerCgroups(tmp_path, V2, "headwater-1-").create(LIMIT)
        written = {path.name: path.read_text() for path in cgroup.path.iterdir()}
        assert written == {"memory.max": str(LIMIT), "memory.swap.max": "0", "memory.oom.group": "0"}
        assert cgroup.procs_file == cgroup.path / "cgroup.procs"

    def test_kills_of_v2(self, tmp_path: Path) -> None:
        cgroup = WorkerCgroups(tmp_path, V2, "headwater-1-").create(LIMIT)
        assert cgroup.kills() == 0
        (cgroup.path / "memory.events").write_text("low 0\nhigh 0\nmax 41\noom 2\noom_kill 2\noom_group_kill 0\n")
        assert cgroup.kills() == 2
        assert cgroup.reached_limit(), "an old kernel does not report the peak"
        (cgroup.path / "memory.peak").write_text(f"{LIMIT // 2}\n")
        assert not cgroup.reached_limit()
        (cgroup.path / "memory.peak").write_text(f"{LIMIT - 4096}\n")
        assert cgroup.reached_limit()

    def test_a_cgroup_whose_limit_cannot_be_set_is_removed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> int:
            raise PermissionError

        worker_cgroups = WorkerCgroups(tmp_path, V2, "headwater-1-")
        monkeypatch.setattr(Path, "write_text", refuse)
        with pytest.raises(PermissionError):
            worker_cgroups.create(LIMIT)
        assert list(tmp_path.iterdir()) == []

    def test_a_cgroup_with_processes_is_removed_later(self, tmp_path: Path) -> None:
        (tmp_path / "headwater-2-1").mkdir()
        busy = make_cgroup(tmp_path / "headwater-1-7", 71)
        worker_cgroups = WorkerCgroups(tmp_path, V2, "headwater-1-")
        assert not worker_cgroups.sweep()
        (busy / "cgroup.procs").unlink()
        assert worker_cgroups.sweep()
        assert [path.name for path in tmp_path.iterdir()] == ["headwater-2-1"]


class TestFindCgroups:
    @pytest.fixture
    def proc(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(cgroups, "MOUNT", tmp_path / "mount")
        (tmp_path / "mount").mkdir()
        return tmp_path

    def test_where_systemd_delegated(self, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        unit = make_cgroup(proc / "mount" / "system.slice" / "headwater.service")
        make_cgroup(unit / "main", os.getpid())
        monkeypatch.setattr(cgroups, "own_cgroups", lambda: [("", "system.slice/headwater.service/main")])
        monkeypatch.setattr(cgroups.prepare_delegated_folder, "__defaults__", (lambda folder: folder == unit,))
        monkeypatch.setattr(cgroups, "_remove", lambda path: True)
        assert find_cgroups(proc / "workers", LIMIT) is not None
        (tried,) = unit.glob("headwater-*")
        assert (tried / "memory.max").read_text() == str(LIMIT)

    @pytest.mark.parametrize("lines", [[("", "user.slice/x.scope")], [("cpu", "x")], [("memory", "elsewhere")]])
    def test_nowhere(self, proc: Path, monkeypatch: pytest.MonkeyPatch, lines: list[tuple[str, str]]) -> None:
        make_cgroup(proc / "mount" / "user.slice" / "x.scope", os.getpid())
        monkeypatch.setattr(cgroups, "own_cgroups", lambda: lines)
        assert find_cgroups(proc / "workers", LIMIT) is None


def test_a_missing_counter_is_zero(tmp_path: Path) -> None:
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert read_counter(tmp_path / "memory.oom_control", "oom_kill") == 3
    assert read_counter(tmp_path / "memory.oom_control", "other") == 0
    assert read_counter(tmp_path / "missing", "oom_kill") == 0
