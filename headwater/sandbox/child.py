"""Starts a sandboxed child, verifies its restrictions, and exchanges frames with it."""

import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import structlog

from headwater import children
from headwater.errors import SandboxFailed
from headwater.sandbox import frames
from headwater.sandbox.analysed_script import AnalysedScript
from headwater.sandbox.deno_command import DenoCommand
from headwater.sandbox.frames import Channel, ChannelClosed, Frame, Kind, ProtocolError
from headwater.sandbox.results import ScriptFailure, parse_error
from headwater.sandbox.seccomp_notify import SeccompListener

log = structlog.get_logger(__name__)

START_TIMEOUT_S = 20.0
LOAD_TIMEOUT_S = 5.0
LOAD_CPU_S = 1.5
"""The CPU time that a script's top level may use before the parent kills the child.

V8 interrupts the top level after 1 s of wall time, but can't interrupt a single long call of a built-in function.
"""
_POLL_INTERVAL_S = 0.1
_EXIT_TIMEOUT_S = 1.0
_KILL_TIMEOUT_S = 30.0
_RUN_LAUNCHER = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher.__main__ import main; main()"


class ChildExited(Exception):
    """The child process has ended.

    Attributes:
        status: The exit status; −N means killed by signal N.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"exit status {status}" if status >= 0 else signal.Signals(-status).name)
        self.status = status


class SandboxedChild:
    """A running Deno process under seccomp and Landlock. Used by one thread at a time.

    Attributes:
        pid: The process id.
        loaded_realms: The numbers of the realms in which a script is loaded.
    """

    def __init__(self, process: children.Child, channel: Channel) -> None:
        self._process = process
        self._channel = channel
        # Linux names the CPU clock of a process by its id: clock_getcpuclockid(3).
        self._cpu_clock = (~process.pid << 3) | 2
        self.pid = process.pid
        self.loaded_realms: set[int] = set()

    @classmethod
    def start(cls, command: DenoCommand, timeout_s: float = START_TIMEOUT_S) -> "SandboxedChild":
        """Start a sandboxed child, and return after its HELLO frame. Raises SandboxFailed."""
        channel, child_end = frames.open_pair()
        launch_socket, launcher_end = socket.socketpair()
        with launch_socket, child_end, launcher_end:
            try:
                process = _spawn(command, child_end, launcher_end)
            except OSError as error:
                channel.close()
                raise SandboxFailed(f"The sandbox did not start: {error}") from error
            child_end.close()
            launcher_end.close()
            child = cls(process, channel)
            try:
                launch_socket.settimeout(timeout_s)
                child._complete_start(_receive_listener(launch_socket), time.monotonic() + timeout_s)
            except (ChildExited, ProtocolError, OSError, SandboxFailed) as error:
                child.kill()
                raise SandboxFailed(f"The sandbox did not start: {error}") from error
        return child

    def _complete_start(self, listener: SeccompListener, deadline: float) -> None:
        """Serve the seccomp listener until HELLO, close it, and verify all threads.

        Each thread must be restricted.
        """
        try:
            self._await_hello(listener, deadline)
        finally:
            listener.close()
        _check_threads(self.pid)
        if listener.refused:
            log.info("Deno made system calls that the sandbox refuses", calls=sorted(listener.refused))

    def _await_hello(self, listener: SeccompListener, deadline: float) -> None:
        poll = select.poll()
        poll.register(listener.fileno(), select.POLLIN)
        poll.register(self._channel.fileno(), select.POLLIN)
        while True:
            ready = dict(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
            if not ready:
                raise SandboxFailed(f"Deno sent no frame in time{_refused_calls(listener)}")
            if ready.get(listener.fileno(), 0) & select.POLLIN:
                listener.handle_next_call()
            elif self._channel.fileno() in ready:
                break
        try:
            frame = self.receive()
        except ChildExited as exited:
            raise SandboxFailed(f"Deno ended during its start ({exited}){_refused_calls(listener)}") from exited
        if frame != (Kind.HELLO, b""):
            raise SandboxFailed("the first frame of Deno is not HELLO")

    def load(self, realm_number: int, script: AnalysedScript) -> ScriptFailure | None:
        """Load a script into a new realm, which replaces the realm that had this number.

        Returns why the script can't be loaded, or None. The child is killed when the top level uses more than
        LOAD_CPU_S of CPU time; then the failure is "Timeout". Raises ChildExited.
        """
        cpu_before_s = self.cpu_s()
        self.send(Kind.LOAD, struct.pack("<H?", realm_number, script.must_block) + script.text.encode())
        try:
            frame = self._await_reply(cpu_before_s)
            failure = None if frame.kind == Kind.LOADED else parse_error(frame.payload)
        except ProtocolError as error:
            log.error("the sandbox violated its protocol while it loaded a script, and is killed", reason=str(error))
            raise ChildExited(self.kill()) from None
        except TimeoutError:
            self.kill()
            return ScriptFailure("Timeout", "the top level of the script ran for more than 1 s")
        if failure is None:
            self.loaded_realms.add(realm_number)
        return failure

    def strip_types(self, text: str) -> str | ScriptFailure:
        """Return the text without TypeScript types, or why the text can't be parsed.

        Returns "" if the text compiles as JavaScript. Only a child that validates scripts can do this. Raises
        ChildExited.
        """
        cpu_before_s = self.cpu_s()
        self.send(Kind.STRIP, text.encode())
        try:
            frame = self._await_reply(cpu_before_s)
            return frame.payload.decode() if frame.kind == Kind.STRIPPED else parse_error(frame.payload)
        except (ProtocolError, UnicodeDecodeError):
            raise ChildExited(self.kill()) from None
        except TimeoutError:
            self.kill()
            return ScriptFailure("Timeout", "the script takes more than a second to parse")

    def _await_reply(self, cpu_before_s: float) -> Frame:
        """Wait for the reply to LOAD or STRIP, and return it.

        Raises ChildExited, ProtocolError, and TimeoutError when the child used more than LOAD_CPU_S of CPU time.
        """
        deadline = time.monotonic() + LOAD_TIMEOUT_S
        while (frame := self.receive()) is None:
            if self.cpu_s() - cpu_before_s > LOAD_CPU_S:
                raise TimeoutError
            if time.monotonic() > deadline:
                raise ChildExited(self.kill())
            self._channel.wait(_POLL_INTERVAL_S)
        return frame

    def send(self, kind: Kind, *payload: bytes | memoryview) -> None:
        """Send a frame whose payload comes in parts. Raises ChildExited.

        Bytes that the socket does not accept now are sent by later calls.
        """
        try:
            self._channel.send(kind, *payload)
        except ChannelClosed:
            raise ChildExited(self._exit_status()) from None

    def receive(self) -> Frame | None:
        """Return the next frame; None while it has not arrived completely.

        Raises ChildExited, ProtocolError.
        """
        try:
            return self._channel.receive()
        except ChannelClosed:
            raise ChildExited(self._exit_status()) from None

    def wait(self, timeout_s: float) -> None:
        """Block until a frame may have arrived, for at most `timeout_s`."""
        self._channel.wait(timeout_s)

    def cpu_s(self) -> float:
        """Return the CPU time of all threads of the child so far; 0 after its end."""
        try:
            return time.clock_gettime(self._cpu_clock)
        except OSError:
            return 0.0

    def resident_bytes(self) -> int:
        """Return the resident memory of the child; 0 after its end."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        except OSError:
            return 0
        return int(pages) * resource.getpagesize()

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> int:
        """Kill the child if it still runs. Returns its exit status."""
        self._channel.close()
        self._process.send(signal.SIGKILL)
        status = self._process.wait(_KILL_TIMEOUT_S)
        if status is None:
            raise SandboxFailed(f"The sandbox process {self.pid} has not ended {_KILL_TIMEOUT_S:.0f} s after SIGKILL.")
        return status

    def _exit_status(self) -> int:
        """Return the exit status of a child that closed its socket.

        The child gets a moment to exit by itself, so that the status shows the cause; then it is killed.
        """
        self._channel.close()
        status = self._process.wait(_EXIT_TIMEOUT_S)
        return self.kill() if status is None else status


def _spawn(command: DenoCommand, child_end: socket.socket, launcher_end: socket.socket) -> children.Child:
    descriptor = launcher_end.fileno()
    jit = "jit" if command.jit else "jitless"
    proc_maps = "read-proc-maps" if command.for_validation else "no-proc-maps"
    launcher = [sys.executable, "-I", "-S", "-c", _RUN_LAUNCHER, str(Path(__file__).parent)]
    return children.spawn(
        [*launcher, str(descriptor), str(command.data_bytes), str(command.niceness), jit, proc_maps, *command.argv],
        env={},
        stdin=child_end.fileno(),
        stdout=child_end.fileno(),
        stderr=subprocess.DEVNULL,
        pass_fds=(descriptor,),
    )


def _receive_listener(launch_socket: socket.socket) -> SeccompListener:
    """Receive the seccomp listener from the launcher.

    Raises SandboxFailed with the launcher's error message.
    """
    message, descriptors, _, _ = socket.recv_fds(launch_socket, 4096, 1, socket.MSG_CMSG_CLOEXEC)
    if message != b"L" or not descriptors:
        raise SandboxFailed(message[1:].decode(errors="replace") or "the launcher ended without a message")
    return SeccompListener(descriptors[0])


def _refused_calls(listener: SeccompListener) -> str:
    return f"; refused system calls: {', '.join(sorted(listener.refused))}" if listener.refused else ""


def _check_threads(pid: int) -> None:
    """Verify that each thread is under the seccomp filter and can't gain privileges.

    Raises SandboxFailed.
    """
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines() if ":" in line)
        if status["Seccomp"].strip() != "2" or status["NoNewPrivs"].strip() != "1":
            raise SandboxFailed("a thread of Deno runs without the seccomp filter")
