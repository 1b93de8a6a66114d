"""Native code in the sandboxed child can do nothing.

Headwater does not start without the sandbox.
"""

import errno
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import SandboxFailed, SetupError
from headwater.sandbox import check_machine
from headwater.sandbox.child import SandboxedChild
from headwater.sandbox.deno_command import DenoCommand, deno_command
from headwater.sandbox.frames import Kind
from headwater.sandbox.launcher import landlock

HERE = Path(__file__).parent
DATA_BYTES = 320 << 20
REFUSED = {errno.EPERM, errno.ENOSYS}


def compiled(source: str, directory: Path) -> str:
    """Compile a C file, and return the program.

    Skip the test without a compiler, but not in CI.
    """
    compiler = shutil.which("gcc")
    if compiler is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs gcc for the probes of the sandbox's lock")
        pytest.skip("needs gcc")
    program = directory / source.removesuffix(".c")
    subprocess.run([compiler, "-O1", "-w", "-pthread", "-o", program, HERE / source], check=True)
    return str(program)


def answers(child: SandboxedChild) -> dict[str, int]:
    end = time.monotonic() + 20
    while (frame := child.receive()) is None:
        assert time.monotonic() < end, "the probe does not answer"
        time.sleep(0.01)
    assert frame.kind == Kind.RESULTS
    lines = frame.payload.decode().splitlines()
    return {name: int(code) for name, _, code in (line.rpartition("=") for line in lines)}


@pytest.fixture
def probe(tmp_path: Path) -> DenoCommand:
    return DenoCommand((compiled("probe.c", tmp_path),), DATA_BYTES, jit=False)


@pytest.mark.parametrize("for_validation", [False, True])
def test_native_code_can_do_nothing_from_any_thread(probe: DenoCommand, for_validation: bool) -> None:
    child = SandboxedChild.start(replace(probe, for_validation=for_validation))
    child.send(Kind.SEGMENT, b"")
    found = answers(child)
    child.kill()
    for thread in ("main", "second"):
        mine = {name.removeprefix(f"{thread} "): code for name, code in found.items() if name.startswith(thread)}
        assert len(mine) > 75
        allowed = {name for name in mine if name.startswith("allowed")}
        assert {mine[name] for name in allowed} == {0}
        assert mine.pop("map 2 GB") == errno.ENOMEM
        assert {name: code for name, code in mine.items() if name not in allowed and code not in REFUSED} == {}


def test_with_the_jit_only_code_can_be_mapped_too(probe: DenoCommand) -> None:
    child = SandboxedChild.start(DenoCommand(probe.argv, DATA_BYTES, jit=True))
    child.send(Kind.SEGMENT, b"")
    found = answers(child)
    child.kill()
    code = {"map code", "map writable code", "make code", "pkey_mprotect"}
    worked = {name.partition(" ")[2] for name, number in found.items() if not number and "allowed" not in name}
    assert worked <= code


def test_no_file_can_be_opened_during_the_start(tmp_path: Path) -> None:
    child = SandboxedChild.start(DenoCommand((compiled("early_probe.c", tmp_path),), DATA_BYTES, jit=False))
    found = answers(child)
    child.kill()
    assert found.pop("allowed: read the loader") == 0
    assert found.pop("socket") == errno.EPERM
    assert {*found.values()} == {errno.EACCES}


def test_the_engine_has_no_writable_code_without_the_jit() -> None:
    child = SandboxedChild.start(deno_command(jit=False))
    maps = Path(f"/proc/{child.pid}/maps").read_text()
    environment = Path(f"/proc/{child.pid}/environ").read_bytes()
    limits = Path(f"/proc/{child.pid}/limits").read_text()
    child.kill()
    assert "rwx" not in maps
    assert sorted(environment.split(b"\0")[:-1]) == [
        b"DENO_DIR=/nonexistent", b"DENO_NO_UPDATE_CHECK=1", b"HOME=/nonexistent", b"NO_COLOR=1",
    ]  # fmt: skip
    assert [line.split()[3] for line in limits.splitlines() if line.startswith("Max data size")] == [str(DATA_BYTES)]


def test_an_unexpected_system_call_is_named(tmp_path: Path) -> None:
    source = tmp_path / "odd.c"
    source.write_text("#include <sys/socket.h>\nint main(void) { return socket(1, 1, 0) < 0 ? 3 : 0; }")
    program = compiled(str(source), tmp_path)
    with pytest.raises(SandboxFailed, match=r"exit status 3.*number 41"):
        SandboxedChild.start(DenoCommand((program,), DATA_BYTES, jit=False))


def test_a_program_that_sends_nothing_is_killed() -> None:
    command = DenoCommand(("/bin/cat",), DATA_BYTES, jit=False)
    with pytest.raises(SandboxFailed, match="sent no frame in time"):
        SandboxedChild.start(command, timeout_s=1.0)


def test_a_missing_program() -> None:
    with pytest.raises(SandboxFailed, match=r"Landlock: .*No such file"):
        SandboxedChild.start(DenoCommand(("/nonexistent/program",), DATA_BYTES, jit=False))


class TestCheck:
    @pytest.mark.parametrize("jit", [False, True])
    def test_this_machine_passes(self, jit: bool) -> None:
        check_machine(jit=jit)

    def test_another_platform(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "darwin")
        with pytest.raises(SetupError, match="Linux"):
            check_machine()

    def test_without_landlock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def absent() -> int:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported", "landlock_create_ruleset")

        monkeypatch.setattr(landlock, "version", absent)
        with pytest.raises(SetupError, match=r"Landlock .*Linux 5\.13"):
            check_machine()

    def test_without_glibc(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(landlock, "_DIRECTORIES", (Path("/nonexistent"),))
        with pytest.raises(SetupError, match="musl"):
            check_machine()

    def test_under_a_filter_that_has_a_listener(self) -> None:
        """The kernel allows one listener per process.

        A container's seccomp profile may already use it.
        """
        program = (
            "from headwater.sandbox.launcher import seccomp, syscalls\n"
            "from headwater.sandbox.launcher.bpf import ALLOW, return_action\n"
            "from headwater.sandbox import check_machine\n"
            "from headwater.errors import SetupError\n"
            "syscalls.prctl(38, 1)\n"
            "seccomp.install([return_action(ALLOW)])\n"
            "try: check_machine()\n"
            "except SetupError as error: print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
        assert "a filter with a listener is in force already" in done.stdout
