"""The embedded Valkey: its start, crash and end, and the errors when it can't start."""

import importlib.util
import os
import queue
import signal
import stat
import tempfile
import time
from pathlib import Path

import pytest
import redis
from structlog.testing import capture_logs

from headwater.errors import SetupError
from headwater.stores import embedded_valkey
from headwater.stores.embedded_valkey import EmbeddedValkey
from tests.support.waiting import until

READY_WITHIN_S = 30.0


def executable(path: Path, text: str) -> Path:
    """Write a shell script that ends with the given command."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_serves_a_private_socket_only_and_keeps_its_values(tmp_path: Path) -> None:
    valkey = EmbeddedValkey(tmp_path / "data")
    for expected in (None, b"1"):
        child = valkey.start()
        valkey.wait_ready(child, READY_WITHIN_S)
        assert Path(f"/proc/{child.pid}/fd/1").readlink().name.startswith("pipe:")  # its log is bounded
        with redis.Redis.from_url(valkey.url) as client:
            assert client.get("key") == expected
            client.set("key", 1)
            config = client.config_get()
        assert child.stop(grace_s=10.0) == 0
        assert (config["port"], config["appendonly"], config["appendfsync"], config["save"]) == ("0", "yes", "no", "")
        assert config["set-max-listpack-entries"] == "512"
    directory = tmp_path / "data" / "valkey"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    until(lambda: "Ready to accept connections" in (tmp_path / "data" / "logs" / "valkey.log").read_text())


def test_a_kill_loses_no_acknowledged_write(tmp_path: Path) -> None:
    valkey = EmbeddedValkey(tmp_path / "data")
    written = 0
    for writes in (1_200, 100, 0):
        child = valkey.start()
        valkey.wait_ready(child, READY_WITHIN_S)
        with redis.Redis.from_url(valkey.url) as client:
            assert int(client.get("key") or 0) == written
            for _ in range(writes):
                written = client.incr("key")
                time.sleep(0.001)  # beyond a second, in which the server might sync
        child.send(signal.SIGKILL)
        child.wait(READY_WITHIN_S)


def test_writes_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_valkey, "FSYNC_INTERVAL_S", 0.01)
    synced: queue.SimpleQueue[str] = queue.SimpleQueue()

    def fdatasync(descriptor: int) -> None:
        synced.put(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        raise OSError("the disk is ill")

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    valkey = EmbeddedValkey(tmp_path / "data")
    with valkey.syncing_append_only_file(), capture_logs() as logs:
        child = valkey.start()
        valkey.wait_ready(child, READY_WITHIN_S)
        assert [synced.get(timeout=READY_WITHIN_S) for _ in range(3)] == ["appendonly.aof.1.incr.aof"] * 3
    assert child.stop(grace_s=10.0) == 0
    assert [(entry["log_level"], entry["reason"]) for entry in logs] == [("error", "the disk is ill")]


def test_a_long_data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data_dir = tmp_path / ("long" * 25)
    valkey = EmbeddedValkey(data_dir)
    assert valkey.url == EmbeddedValkey(data_dir).url != EmbeddedValkey(tmp_path / ("other" * 25)).url
    child = valkey.start()
    valkey.wait_ready(child, READY_WITHIN_S)
    child.stop(grace_s=10.0)
    (private,) = tmp_path.glob("headwater-*")
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


def test_odd_characters_in_the_data_dir(tmp_path: Path) -> None:
    valkey = EmbeddedValkey(tmp_path / "a b%2F?#ü")
    child = valkey.start()
    valkey.wait_ready(child, READY_WITHIN_S)
    with redis.Redis.from_url(valkey.url) as client:
        assert client.ping()
    child.stop(grace_s=10.0)


def test_an_existing_socket_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="hw") as short:  # pytest's path may be too long for a socket
        monkeypatch.setattr(tempfile, "tempdir", short)
        valkey = EmbeddedValkey(tmp_path / ("long" * 25))
        socket = Path(valkey.url.removeprefix("unix://"))
        (tmp_path / "elsewhere").mkdir()
        socket.parent.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(SetupError, match=r"another user.* a --data-dir that is short enough"):
            valkey.start()


def test_a_data_dir_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: -1)
    with pytest.raises(SetupError, match=r"another user.* Start Headwater as the user who owns it"):
        EmbeddedValkey(tmp_path / "data").start()


def test_no_directory_for_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 25)))
    with pytest.raises(SetupError, match="shorter --data-dir"):
        EmbeddedValkey(tmp_path / ("long" * 25))


def test_a_data_dir_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(SetupError, match="--data-dir"):
        EmbeddedValkey(tmp_path / "data").start()


class TestBinary:
    @pytest.fixture(autouse=True)
    def _only_the_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
        monkeypatch.setenv("PATH", str(tmp_path))

    def test_none(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match="no valkey-server"):
            EmbeddedValkey(tmp_path).start()

    def test_too_old(self, tmp_path: Path) -> None:
        executable(tmp_path / "redis-server", "echo 'Redis server v=6.0.16 sha=00000000:0'")
        with pytest.raises(SetupError, match=r"older than version 6\.2"):
            EmbeddedValkey(tmp_path).start()

    def test_no_version(self, tmp_path: Path) -> None:
        executable(tmp_path / "valkey-server", "echo 'Valkey server, version 9'")
        with pytest.raises(SetupError, match=r"prints no version: 'Valkey server, version 9'"):
            EmbeddedValkey(tmp_path).start()

    def test_does_not_run(self, tmp_path: Path) -> None:
        executable(tmp_path / "valkey-server", "exit 3")
        with pytest.raises(SetupError, match="does not run"):
            EmbeddedValkey(tmp_path).start()

    def test_ends_at_once(self, tmp_path: Path) -> None:
        executable(tmp_path / "valkey-server", 'test "$1" = --version && echo v=9.1.2 || echo broken; exit 0')
        valkey = EmbeddedValkey(tmp_path)
        with pytest.raises(SetupError, match=r"status 0.*valkey\.log"):
            valkey.wait_ready(valkey.start(), READY_WITHIN_S)
        until(lambda: "broken" in (tmp_path / "logs" / "valkey.log").read_text())

    def test_never_ready(self, tmp_path: Path) -> None:
        executable(tmp_path / "redis-server", 'test "$1" = --version && echo v=6.2.1 || exec /bin/sleep 60')
        valkey = EmbeddedValkey(tmp_path)
        child = valkey.start()
        with pytest.raises(SetupError, match="not ready within"):
            valkey.wait_ready(child, 0.1)
        child.stop(grace_s=5.0)
