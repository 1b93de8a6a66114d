"""One locked child process: start it under the launcher, see that the lock holds, talk to it, end it."""

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
from headwater.sandbox.engine import Engine
from headwater.sandbox.frames import Channel, Closed, Frame, Kind, Malformed
from headwater.sandbox.notify import Listener
from headwater.sandbox.program import Program
from headwater.sandbox.results import ScriptError, parse_error

log = structlog.get_logger(__name__)

START_TIMEOUT_S = 20.0
LOAD_TIMEOUT_S = 5.0
LOAD_CPU_S = 1.5
"""The engine interrupts a top level after 1 s, unless it is in one long call of a built-in; then the child is ended."""
_LOOK_EVERY_S = 0.1
_PAGE_BYTES = 4096
_DYING_S = 1.0
_KILL_TIMEOUT_S = 30.0
_LAUNCH = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher.__main__ import main; main()"


class Died(Exception):
    """The child is gone. status is its exit status; −N means killed by signal N."""

    def __init__(self, status: int) -> None:
        super().__init__(f"exit status {status}" if status >= 0 else signal.Signals(-status).name)
        self.status = status


class LockedChild:
    """A running engine under the full lock. Used by one thread at a time."""

    def __init__(self, process: children.Child, channel: Channel) -> None:
        self._process = process
        self._channel = channel
        # Linux names the CPU clock of a process by its id: clock_getcpuclockid(3).
        self._cpu_clock = (~process.pid << 3) | 2
        self.pid = process.pid
        self.scripts: set[int] = set()

    @classmethod
    def start(cls, engine: Engine, timeout_s: float = START_TIMEOUT_S) -> "LockedChild":
        """Start and lock a child; returns when it has said hello. Raises SandboxFailed."""
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
                child._open(_listener(ours), time.monotonic() + timeout_s)
            except (Died, Malformed, OSError, SandboxFailed) as error:
                child.kill()
                raise SandboxFailed(f"The sandbox did not start: {error}") from error
        return child

    def _open(self, listener: Listener, end: float) -> None:
        """Let the engine start, until its hello; then shut the listener and look at the lock."""
        try:
            self._await_hello(listener, end)
        finally:
            listener.close()
        _check_threads(self.pid)
        if listener.refused:
            log.info("the engine tried system calls that its sandbox refuses", calls=sorted(listener.refused))

    def _await_hello(self, listener: Listener, end: float) -> None:
        poll = select.poll()
        poll.register(listener.fileno(), select.POLLIN)
        poll.register(self._channel.fileno(), select.POLLIN)
        while True:
            ready = dict(poll.poll(max(0.0, end - time.monotonic()) * 1000))
            if not ready:
                raise SandboxFailed(f"no answer in time{_refused(listener)}")
            if ready.get(listener.fileno(), 0) & select.POLLIN:
                listener.answer_one()
            elif self._channel.fileno() in ready:
                break
        try:
            frame = self.receive()
        except Died as died:
            raise SandboxFailed(f"the engine ended while starting ({died}){_refused(listener)}") from died
        if frame != (Kind.HELLO, b""):
            raise SandboxFailed("the engine did not say hello")

    def load(self, number: int, program: Program) -> ScriptError | None:
        """Load a script under a number, in place of the one there. Returns why it is refused. Raises Died."""
        cpu_before_s = self.cpu_s()
        self.send(Kind.LOAD, struct.pack("<H?", number, program.keeps_state) + program.text.encode())
        try:
            frame = self._loaded(cpu_before_s)
            error = None if frame.kind == Kind.LOADED else parse_error(frame.payload)
        except Malformed:
            raise Died(self.kill()) from None
        except TimeoutError:
            self.kill()
            return ScriptError("Timeout", "the top level of the script ran for more than 1 s")
        if error is None:
            self.scripts.add(number)
        return error

    def without_types(self, text: str) -> str | ScriptError:
        """The text without the types of TypeScript, or why it is refused; "" for a text that is a script. Raises Died.

        For a checking child only.
        """
        cpu_before_s = self.cpu_s()
        self.send(Kind.STRIP, text.encode())
        try:
            frame = self._loaded(cpu_before_s)
            return frame.payload.decode() if frame.kind == Kind.STRIPPED else parse_error(frame.payload)
        except (Malformed, UnicodeDecodeError):
            raise Died(self.kill()) from None
        except TimeoutError:
            self.kill()
            return ScriptError("Timeout", "reading it takes more than a second")

    def _loaded(self, cpu_before_s: float) -> Frame:
        """The answer to LOAD or STRIP. Raises Died, Malformed, TimeoutError when it used up its CPU time."""
        end = time.monotonic() + LOAD_TIMEOUT_S
        while (frame := self.receive()) is None:
            if self.cpu_s() - cpu_before_s > LOAD_CPU_S:
                raise TimeoutError
            if time.monotonic() > end:
                raise Died(self.kill())
            self._channel.wait(_LOOK_EVERY_S)
        return frame

    def send(self, kind: Kind, *payload: bytes | memoryview) -> None:
        """Send a frame, its payload in parts; what the socket does not take leaves with later calls. Raises Died."""
        try:
            self._channel.send(kind, *payload)
        except Closed:
            raise Died(self._ended()) from None

    def receive(self) -> Frame | None:
        """The next frame if it is there. Raises Died, Malformed."""
        try:
            return self._channel.receive()
        except Closed:
            raise Died(self._ended()) from None

    def wait(self, timeout_s: float) -> None:
        """Return when a frame may be there, at the latest after `timeout_s`."""
        self._channel.wait(timeout_s)

    def cpu_s(self) -> float:
        """CPU time of all its threads so far. 0 when it is gone."""
        try:
            return time.clock_gettime(self._cpu_clock)
        except OSError:
            return 0.0

    def resident_bytes(self) -> int:
        """Its resident memory. 0 when it is gone."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        except OSError:
            return 0
        return int(pages) * _PAGE_BYTES

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> int:
        """End it now, if it still runs. Returns its exit status."""
        self._channel.close()
        self._process.send(signal.SIGKILL)
        status = self._process.wait(_KILL_TIMEOUT_S)
        if status is None:
            raise SandboxFailed(f"The sandbox process {self.pid} does not end.")
        return status

    def _ended(self) -> int:
        """The exit status of a child that closed its end: it is about to die of something worth knowing."""
        self._channel.close()
        status = self._process.wait(_DYING_S)
        return self.kill() if status is None else status


def _spawn(engine: Engine, theirs: socket.socket, launch_channel: socket.socket) -> children.Child:
    number = launch_channel.fileno()
    mode = "jit" if engine.jit else "jitless"
    maps = "maps" if engine.checking else "no-maps"
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(Path(__file__).parent)]
    return children.spawn(
        [*launcher, str(number), str(engine.data_bytes), mode, maps, *engine.argv],
        env={},
        stdin=theirs.fileno(),
        stdout=theirs.fileno(),
        stderr=subprocess.DEVNULL,
        pass_fds=(number,),
    )


def _listener(channel: socket.socket) -> Listener:
    """The seccomp listener that the launcher hands over. Raises SandboxFailed with what the launcher says."""
    message, descriptors, _, _ = socket.recv_fds(channel, 4096, 1, socket.MSG_CMSG_CLOEXEC)
    if message != b"L" or not descriptors:
        raise SandboxFailed(message[1:].decode(errors="replace") or "the launcher ended")
    return Listener(descriptors[0])


def _refused(listener: Listener) -> str:
    return f"; refused system calls: {', '.join(sorted(listener.refused))}" if listener.refused else ""


def _check_threads(pid: int) -> None:
    """Every thread is under the filter and can't gain privileges. Raises SandboxFailed."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines() if ":" in line)
        if status["Seccomp"].strip() != "2" or status["NoNewPrivs"].strip() != "1":
            raise SandboxFailed("a thread of the engine is not locked")
