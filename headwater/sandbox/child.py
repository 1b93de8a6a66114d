"""Starts one sandboxed child process, verifies its restrictions, exchanges frames with it and kills it."""

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
from headwater.sandbox.deno_command import DenoCommand
from headwater.sandbox.frames import Channel, ChannelClosed, Frame, Kind, ProtocolError
from headwater.sandbox.loadable_script import LoadableScript
from headwater.sandbox.results import ScriptError, parse_error
from headwater.sandbox.seccomp_notify import SeccompListener

log = structlog.get_logger(__name__)

START_TIMEOUT_S = 20.0
LOAD_TIMEOUT_S = 5.0
LOAD_CPU_S = 1.5
"""The CPU time that a script's top level may use before the parent kills the child.

V8 interrupts the top level after 1 s of wall time, but can't interrupt a single long call of a built-in function.
"""
_POLL_INTERVAL_S = 0.1
_PAGE_BYTES = 4096
_EXIT_TIMEOUT_S = 1.0
_KILL_TIMEOUT_S = 30.0
_LAUNCH = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher.__main__ import main; main()"


class ChildExited(Exception):
    """The child process has ended.

    Attributes:
        status: The exit status; −N means killed by signal N.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"exit status {status}" if status >= 0 else signal.Signals(-status).name)
        self.status = status


class SandboxedChild:
    """A running Deno process under seccomp and Landlock. Used by one thread at a time."""

    def __init__(self, process: children.Child, channel: Channel) -> None:
        self._process = process
        self._channel = channel
        # Linux names the CPU clock of a process by its id: clock_getcpuclockid(3).
        self._cpu_clock = (~process.pid << 3) | 2
        self.pid = process.pid
        self.scripts: set[int] = set()

    @classmethod
    def start(cls, engine: DenoCommand, timeout_s: float = START_TIMEOUT_S) -> "SandboxedChild":
        """Start a sandboxed child, and return after its HELLO frame. Raises SandboxFailed."""
        channel, theirs = frames.pair()
        ours, launch_channel = socket.socketpair()
        with ours, theirs, launch_channel:
            try:
                process = _spawn(engine, theirs, launch_channel)
            except OSError as error:
                channel.close()
                raise SandboxFailed(f"The sandbox did not start: {error}") from error
            theirs.close()
            launch_channel.close()
            child = cls(process, channel)
            try:
                ours.settimeout(timeout_s)
                child._complete_start(_receive_listener(ours), time.monotonic() + timeout_s)
            except (ChildExited, ProtocolError, OSError, SandboxFailed) as error:
                child.kill()
                raise SandboxFailed(f"The sandbox did not start: {error}") from error
        return child

    def _complete_start(self, listener: SeccompListener, end: float) -> None:
        """Serve the seccomp listener until HELLO, close it, and verify that each thread is restricted."""
        try:
            self._await_hello(listener, end)
        finally:
            listener.close()
        _check_threads(self.pid)
        if listener.refused:
            log.info("the engine made system calls that the sandbox refuses", calls=sorted(listener.refused))

    def _await_hello(self, listener: SeccompListener, end: float) -> None:
        poll = select.poll()
        poll.register(listener.fileno(), select.POLLIN)
        poll.register(self._channel.fileno(), select.POLLIN)
        while True:
            ready = dict(poll.poll(max(0.0, end - time.monotonic()) * 1000))
            if not ready:
                raise SandboxFailed(f"no answer in time{_refused_calls(listener)}")
            if ready.get(listener.fileno(), 0) & select.POLLIN:
                listener.handle_next_call()
            elif self._channel.fileno() in ready:
                break
        try:
            frame = self.receive()
        except ChildExited as died:
            raise SandboxFailed(f"the engine ended while starting ({died}){_refused_calls(listener)}") from died
        if frame != (Kind.HELLO, b""):
            raise SandboxFailed("the engine did not say hello")

    def load(self, number: int, script: LoadableScript) -> ScriptError | None:
        """Load a script under a number, in place of the script that had this number.

        Returns the error if the script is refused, else None. Raises ChildExited.
        """
        cpu_before_s = self.cpu_s()
        self.send(Kind.LOAD, struct.pack("<H?", number, script.keeps_state) + script.text.encode())
        try:
            frame = self._await_answer(cpu_before_s)
            error = None if frame.kind == Kind.LOADED else parse_error(frame.payload)
        except ProtocolError:
            raise ChildExited(self.kill()) from None
        except TimeoutError:
            self.kill()
            return ScriptError("Timeout", "the top level of the script ran for more than 1 s")
        if error is None:
            self.scripts.add(number)
        return error

    def strip_types(self, text: str) -> str | ScriptError:
        """Return the text without TypeScript types, or the error if it can't be parsed.

        Returns "" if the text already compiles as JavaScript. Only a child that validates scripts can do this. Raises
        ChildExited.
        """
        cpu_before_s = self.cpu_s()
        self.send(Kind.STRIP, text.encode())
        try:
            frame = self._await_answer(cpu_before_s)
            return frame.payload.decode() if frame.kind == Kind.STRIPPED else parse_error(frame.payload)
        except (ProtocolError, UnicodeDecodeError):
            raise ChildExited(self.kill()) from None
        except TimeoutError:
            self.kill()
            return ScriptError("Timeout", "reading it takes more than a second")

    def _await_answer(self, cpu_before_s: float) -> Frame:
        """Wait for the answer to LOAD or STRIP, and return it.

        Raises ChildExited, ProtocolError, and TimeoutError when the child used more than LOAD_CPU_S of CPU time.
        """
        end = time.monotonic() + LOAD_TIMEOUT_S
        while (frame := self.receive()) is None:
            if self.cpu_s() - cpu_before_s > LOAD_CPU_S:
                raise TimeoutError
            if time.monotonic() > end:
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
        """Return the next frame; None while it has not arrived completely. Raises ChildExited, ProtocolError."""
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
        return int(pages) * _PAGE_BYTES

    def alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> int:
        """Kill the child if it still runs. Returns its exit status."""
        self._channel.close()
        self._process.send(signal.SIGKILL)
        status = self._process.wait(_KILL_TIMEOUT_S)
        if status is None:
            raise SandboxFailed(f"The sandbox process {self.pid} does not end.")
        return status

    def _exit_status(self) -> int:
        """Return the exit status of a child that closed its socket.

        It is given a moment to exit by itself, so that the status tells the cause; then it is killed.
        """
        self._channel.close()
        status = self._process.wait(_EXIT_TIMEOUT_S)
        return self.kill() if status is None else status


def _spawn(engine: DenoCommand, theirs: socket.socket, launch_channel: socket.socket) -> children.Child:
    number = launch_channel.fileno()
    mode = "jit" if engine.jit else "jitless"
    maps = "maps" if engine.validates else "no-maps"
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(Path(__file__).parent)]
    return children.spawn(
        [*launcher, str(number), str(engine.data_bytes), mode, maps, *engine.argv],
        env={},
        stdin=theirs.fileno(),
        stdout=theirs.fileno(),
        stderr=subprocess.DEVNULL,
        pass_fds=(number,),
    )


def _receive_listener(channel: socket.socket) -> SeccompListener:
    """Receive the seccomp listener from the launcher. Raises SandboxFailed with the launcher's error message."""
    message, descriptors, _, _ = socket.recv_fds(channel, 4096, 1, socket.MSG_CMSG_CLOEXEC)
    if message != b"L" or not descriptors:
        raise SandboxFailed(message[1:].decode(errors="replace") or "the launcher ended")
    return SeccompListener(descriptors[0])


def _refused_calls(listener: SeccompListener) -> str:
    return f"; refused system calls: {', '.join(sorted(listener.refused))}" if listener.refused else ""


def _check_threads(pid: int) -> None:
    """Verify that each thread is under the seccomp filter and can't gain privileges. Raises SandboxFailed."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines() if ":" in line)
        if status["Seccomp"].strip() != "2" or status["NoNewPrivs"].strip() != "1":
            raise SandboxFailed("a thread of the engine is not locked")
