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
    WorkerGroups,
    find_cgroups,
    prepare_delegated_folder,
    read_counter,
)

LIMIT = 1 << 30


def group(path: Path, *pids: int) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    return path


class TestDelegatedFolder:
    def test_of_a_service_with_a_group_of_its_own_for_its_processes(self, tmp_path: Path) -> None:
        """With `Delegate=yes` and `DelegateSubgroup=`, no process has to move."""
        unit = group(tmp_path / "headwater.service")
        own = group(unit / "main", 1)
        assert prepare_delegated_folder(own, lambda folder: folder == unit) == unit
        assert (unit / "cgroup.subtree_control").read_text() == "+memory"
        assert not (unit / SUPERVISOR).exists()

    def test_of_a_service_whose_processes_are_in_the_delegated_group(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unit = group(tmp_path / "headwater.service", 71, 72)
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
        unit = group(tmp_path / "headwater.service", 71)
        with pytest.raises(BlockingIOError):
            prepare_delegated_folder(unit, lambda folder: folder == unit)

    def test_systemds_cgroups_are_not_changed(self, tmp_path: Path) -> None:
        session = group(tmp_path / "session-1.scope", 71)
        with pytest.raises(PermissionError, match="Delegate=yes"):
            prepare_delegated_folder(session)
        assert sorted(path.name for path in session.iterdir()) == ["cgroup.procs"]


class TestGroups:
    def test_limits_of_v2(self, tmp_path: Path) -> None:
        group = WorkerGroups(tmp_path, V2, "headwater-1-").create(LIMIT)
        written = {path.name: path.read_text() for path in group.path.iterdir()}
        assert written == {"memory.max": str(LIMIT), "memory.swap.max": "0", "memory.oom.group": "0"}
        assert group.procs_file == group.path / "cgroup.procs"

    def test_kills_of_v2(self, tmp_path: Path) -> None:
        group = WorkerGroups(tmp_path, V2, "headwater-1-").create(LIMIT)
        assert group.kills() == 0
        (group.path / "memory.events").write_text("low 0\nhigh 0\nmax 41\noom 2\noom_kill 2\noom_group_kill 0\n")
        assert group.kills() == 2
        assert group.reached_limit(), "an old kernel does not report the peak"
        (group.path / "memory.peak").write_text(f"{LIMIT // 2}\n")
        assert not group.reached_limit()
        (group.path / "memory.peak").write_text(f"{LIMIT - 4096}\n")
        assert group.reached_limit()

    def test_a_cgroup_whose_limit_cannot_be_set_is_removed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> int:
            raise PermissionError

        groups = WorkerGroups(tmp_path, V2, "headwater-1-")
        monkeypatch.setattr(Path, "write_text", refuse)
        with pytest.raises(PermissionError):
            groups.create(LIMIT)
        assert list(tmp_path.iterdir()) == []

    def test_a_cgroup_with_processes_is_removed_later(self, tmp_path: Path) -> None:
        (tmp_path / "headwater-2-1").mkdir()
        busy = group(tmp_path / "headwater-1-7", 71)
        groups = WorkerGroups(tmp_path, V2, "headwater-1-")
        assert not groups.sweep()
        (busy / "cgroup.procs").unlink()
        assert groups.sweep()
        assert [path.name for path in tmp_path.iterdir()] == ["headwater-2-1"]


class TestFindGroups:
    @pytest.fixture
    def proc(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(cgroups, "MOUNT", tmp_path / "mount")
        (tmp_path / "mount").mkdir()
        return tmp_path

    def test_where_systemd_delegated(self, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        unit = group(proc / "mount" / "system.slice" / "headwater.service")
        group(unit / "main", os.getpid())
        monkeypatch.setattr(cgroups, "own_groups", lambda: [("", "system.slice/headwater.service/main")])
        monkeypatch.setattr(cgroups.prepare_delegated_folder, "__defaults__", (lambda folder: folder == unit,))
        monkeypatch.setattr(cgroups, "_remove", lambda path: True)
        assert find_cgroups(proc / "workers", LIMIT) is not None
        (tried,) = unit.glob("headwater-*")
        assert (tried / "memory.max").read_text() == str(LIMIT)

    @pytest.mark.parametrize("lines", [[("", "user.slice/x.scope")], [("cpu", "x")], [("memory", "elsewhere")]])
    def test_nowhere(self, proc: Path, monkeypatch: pytest.MonkeyPatch, lines: list[tuple[str, str]]) -> None:
        group(proc / "mount" / "user.slice" / "x.scope", os.getpid())
        monkeypatch.setattr(cgroups, "own_groups", lambda: lines)
        assert find_cgroups(proc / "workers", LIMIT) is None


def test_a_missing_counter_is_zero(tmp_path: Path) -> None:
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert read_counter(tmp_path / "memory.oom_control", "oom_kill") == 3
    assert read_counter(tmp_path / "memory.oom_control", "other") == 0
    assert read_counter(tmp_path / "missing", "oom_kill") == 0
