"""The sandbox of one worker: a child, a spare child, and the batches in progress."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from types import TracebackType

import structlog

from headwater.errors import HeadwaterError, InvalidScript, SandboxFailed
from headwater.model.record import RecordBatch
from headwater.sandbox.analysed_script import AnalysedScript
from headwater.sandbox.child import ChildExited, SandboxedChild
from headwater.sandbox.child_starter import ChildStarter
from headwater.sandbox.deno_command import DenoCommand, deno_command
from headwater.sandbox.dry_runs import DRY_RUN_REALM_BIT, DryRunScheduler
from headwater.sandbox.frames import Frame, Kind, ProtocolError
from headwater.sandbox.in_flight_segment import InFlightSegment
from headwater.sandbox.invalid_script import invalid_script
from headwater.sandbox.lookups import LookupFunction
from headwater.sandbox.results import ScriptFailure, parse_lookup_request, parse_results, parse_trace
from headwater.sandbox.script_batch import ChildDeath, Mode, ScriptBatch, Segment

log = structlog.get_logger(__name__)

KILL_GRACE_S = 0.5
"""Grace period after a time limit. If V8 has not interrupted the script by then, the parent kills the child."""
CPU_STARVATION_TIMEOUT_S = 10.0
"""After this time a child is killed even if it got too little CPU time to reach its limit."""
RECYCLE_ABOVE_BYTES = 208 << 20
"""A child whose resident memory exceeds this is replaced between two batches."""
RECYCLE_INTERVAL_S = 10.0
"""The shortest interval between two replacements by `_recycle`."""
MEMORY_CHECK_INTERVAL_S = 0.1
"""The shortest interval between two reads of the child's memory; small batches arrive a hundred times a second."""
BLOCKING_SEGMENT_LIMIT_MS = 1500
"""The time limit of each pass of a segment of a blocking script. An interrupted script loses its state."""
BLOCKING_PENALTY_S = 60.0
"""After V8 has interrupted a blocking script, its segments have the normal time limit for this long."""
MAX_IN_FLIGHT_SEGMENTS = 2
"""The most segments in flight: the child runs one while the parent looks up values or reads results of another."""
_MAX_LOOKUP_REQUESTS = 64
_MAX_SYNC_LOOKUP_REQUESTS = 200_000
"""The most synchronous lookup requests of one segment. An honest script reaches its time limit long before."""
_MAX_REASON_LENGTH = 300
"""The most characters of a protocol error in the message of a failed record. The log has the whole text."""
_LOAD_ATTEMPTS = 2
_MEMBERSHIP_DIGITS = bytes.maketrans(b"\0\1", b"01")
_MAX_WAIT_S = 1.0
"""How long one wait for an event lasts at most."""
_MIN_WAIT_S = 0.05
"""The shortest timeout of the wait for a frame, also when the running segment is overdue."""
_INTERRUPT_POLL_S = 0.05
"""The interval at which the parent checks whether V8 interrupted a script that waits for an answer."""


class Sandbox:
    """Runs scripts over batches in a child process, which is replaced when it dies.

    A worker has one sandbox for all its v8 transforms. One thread uses the sandbox; lookups and child starts run on
    threads that the sandbox owns. The child replies to each SEGMENT and each LOOKUP_RESPONSE frame with results or a
    lookup request. Its replies are in the order of these frames. The parent responds to lookup requests in the order in
    which they arrived.

    Attributes:
        crashed_batches: The number of batches of which a segment was running when its child died.
    """

    def __init__(
        self,
        *,
        jit: bool = False,
        spare: bool = True,
        command: DenoCommand | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._starter = ChildStarter(command or deno_command(jit=jit), keep_spare=spare)
        self._clock = clock
        self._lookup_executor = ThreadPoolExecutor(1, "sandbox-lookup")
        self._scripts: dict[int, AnalysedScript] = {}
        self._lookup_functions: dict[int, LookupFunction] = {}
        self._batches: deque[ScriptBatch] = deque()
        self._running: deque[InFlightSegment] = deque()
        """The segments that the child runs, one after the other. The child runs the first one now."""
        self._awaiting_lookup: deque[InFlightSegment] = deque()
        """The segments that wait for the response to a LOOKUP_REQUEST frame."""
        self._blocked_on_lookup: InFlightSegment | None = None
        """The running segment, while its script blocks for the response to a SYNC_LOOKUP_REQUEST frame."""
        self._interrupted_at_s: dict[int, float] = {}
        """By script number: the clock when V8 last interrupted the script."""
        self._dry_runs = DryRunScheduler()
        self._pending_error: HeadwaterError | None = None
        self._recycled_at_s = clock()
        self._memory_checked_at_s, self._child_is_large = float("-inf"), False
        self.crashed_batches = 0
        self._child: SandboxedChild | None = None

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id of the current child; None while there is none."""
        return self._child.pid if self._child else None

    def cpu_s(self) -> float:
        """Return the CPU time of the current child, in seconds; 0 while there is none."""
        return self._child.cpu_s() if self._child else 0.0

    def add(self, script: str, lookup: LookupFunction) -> int:
        """Load a script, and return its number for `submit`.

        Blocks while the child starts and the script's top level runs. Raises InvalidScript, SandboxFailed.
        """
        assert not self._batches, "scripts are added before batches run"
        script_number, analysed = len(self._scripts), AnalysedScript.of(script)
        self._load_new_script(script_number, analysed)
        self._scripts[script_number] = analysed
        self._lookup_functions[script_number] = lookup
        return script_number

    def submit(
        self,
        script_number: int,
        batch: RecordBatch,
        *,
        feeds_script: bool = False,
        max_batch_output_bytes: int | None = None,
    ) -> ScriptBatch:
        """Queue a batch for a script. Batches finish in the order in which they are submitted.

        Args:
            script_number: The script's number.
            batch: The records.
            feeds_script: Whether the outputs go to another script, so that BigInts are marked (see bigint_marks.py).
            max_batch_output_bytes: See ScriptBatch.
        """
        script_batch = ScriptBatch(
            batch,
            script_number,
            feeds_script=feeds_script,
            must_block=self._scripts[script_number].must_block,
            max_batch_output_bytes=max_batch_output_bytes,
        )
        self._batches.append(script_batch)
        self.step()
        return script_batch

    def step(self) -> None:
        """Advance the batches as far as possible without blocking.

        An error is stored, and raised by `wait`.
        """
        try:
            while self._batches and self._pending_error is None and self._advance():
                pass
        except HeadwaterError as error:
            self._pending_error = error

    def has_failed(self) -> bool:
        """Return whether an error is stored, which `wait` would raise at once."""
        return self._pending_error is not None

    def wait(self, script_batch: ScriptBatch) -> None:
        """Block until the batch is finished.

        Raises SandboxFailed, or the error of a lookup. After an error, call `wait` again.
        """
        while not script_batch.finished:
            self.step()
            if self._pending_error is not None:
                error, self._pending_error = self._pending_error, None
                raise error
            if not script_batch.finished:
                self.wait_for_event(_MAX_WAIT_S)

    def wait_for_event(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` for a child to start, a lookup to end, or a frame to arrive."""
        if self._child is None:
            self._starter.wait(timeout_s)
        elif self._blocked_on_lookup is not None and self._blocked_on_lookup.lookup is not None:
            wait([self._blocked_on_lookup.lookup], min(timeout_s, _INTERRUPT_POLL_S))
        elif self._running:
            running = self._running[0]
            left_s = running.pass_began_s + running.limit_s + KILL_GRACE_S - self._clock()
            self._child.wait(min(timeout_s, max(_MIN_WAIT_S, left_s)))
        elif self._awaiting_lookup and self._awaiting_lookup[0].lookup is not None:
            wait([self._awaiting_lookup[0].lookup], timeout_s)

    def strip_types(self, text: str) -> str | ScriptFailure:
        """Return the text without TypeScript types, or why the text can't be parsed.

        Returns "" if the text compiles as JavaScript. Only a sandbox that validates scripts can do this. Raises
        SandboxFailed.
        """
        assert not self._batches, "types are stripped before batches run"
        try:
            return self._ready_child().strip_types(text)
        except ChildExited:
            self._child = None
            message = "the script is nested too deeply, or takes too much memory to parse, or the machine is too busy"
            return ScriptFailure("SandboxCrash", message)

    def close(self) -> None:
        """Kill the children. Unfinished batches are abandoned."""
        self._batches.clear()
        self._running.clear()
        self._awaiting_lookup.clear()
        self._lookup_executor.shutdown(cancel_futures=True)
        self._starter.close()
        if self._child is not None:
            self._child.kill()
            self._child = None

    # ---- One step. Each method returns True if it made progress. ----

    def _advance(self) -> bool:
        child = self._child or self._obtain_child()
        if child is None:
            return False
        try:
            return (
                self._finish_first_batch(child)
                or self._send_next_segment(child)
                or self._respond_to_blocked_script(child)
                or self._respond_to_lookup_request(child)
                or self._receive_frame(child)
            )
        except ChildExited as exited:
            self._handle_child_death(ChildDeath(exited.status))
        except ProtocolError as error:
            log.error("the sandbox violated its protocol and is killed", reason=str(error))
            reason = str(error).partition("\n")[0][:_MAX_REASON_LENGTH]
            self._handle_child_death(ChildDeath(child.kill(), protocol_error=reason))
        return True

    def _all_in_flight(self) -> list[InFlightSegment]:
        return [*self._running, *self._awaiting_lookup]

    def _finish_first_batch(self, child: SandboxedChild) -> bool:
        """Finish the first batch when it has no more segments."""
        first = self._batches[0]
        if first.pending is not None or any(in_flight.script_batch is first for in_flight in self._all_in_flight()):
            return False
        first.finished = True
        self._batches.popleft()
        self._recycle(child)
        return True

    def _send_next_segment(self, child: SandboxedChild) -> bool:
        """Send the next segment, if there is one and if it may be sent now."""
        script_batch = next((script_batch for script_batch in self._batches if script_batch.pending is not None), None)
        if script_batch is None:
            return False
        segment = script_batch.pending
        assert segment is not None
        if not self._may_send(child, script_batch, segment):
            return False
        has_dry_run = self._prepare_dry_run(child, script_batch, segment)
        realm_number = self._prepare_realm(child, script_batch, segment)
        script_batch.mark_sent(segment)
        limit_ms = self._limit_ms(script_batch, segment)
        runs_in_own_realm = realm_number == script_batch.script_number
        in_flight = InFlightSegment(
            script_batch, segment, limit_ms, has_dry_run=has_dry_run, runs_in_own_realm=runs_in_own_realm
        )
        self._send(
            child, in_flight, Kind.SEGMENT, in_flight.binary_header(realm_number), *script_batch.payload(segment)
        )
        return True

    def _prepare_dry_run(self, child: SandboxedChild, script_batch: ScriptBatch, segment: Segment) -> bool:
        """Load the realm for a dry run, and return True, if the segment gets a dry run.

        Raises ChildExited.
        """
        script_number = script_batch.script_number
        if not script_batch.must_block or segment.mode is not Mode.NORMAL:
            return False
        if not self._dry_runs.count_segment(script_number, len(segment.rows)):
            return False
        return self._load_dry_run_realm(child, script_number, reload=self._dry_runs.count_dry_run(script_number))

    def _prepare_realm(self, child: SandboxedChild, script_batch: ScriptBatch, segment: Segment) -> int:
        """Return the number of the realm in which a segment runs. Raises ChildExited.

        A record of a blocking script that was slow runs again, at least once, only to measure its CPU time
        (Mode.MEASURED). It runs in the realm for dry runs. If that realm can't be loaded, or has failed before and may
        kill the child again, the record runs in the script's own realm, which is reloaded and so loses its state.
        """
        script_number = script_batch.script_number
        if segment.mode is not Mode.MEASURED:
            return script_number
        has_failed = self._dry_runs.has_failed(script_number)
        if not has_failed and self._load_dry_run_realm(child, script_number, reload=False):
            return script_number | DRY_RUN_REALM_BIT
        self._reload(child, script_number)
        return script_number

    def _load_dry_run_realm(self, child: SandboxedChild, script_number: int, *, reload: bool) -> bool:
        """Load the realm for dry runs if it is not loaded; with `reload`, load it again.

        Returns False when its top level fails. Raises ChildExited.
        """
        realm_number = script_number | DRY_RUN_REALM_BIT
        if realm_number in child.loaded_realms and not reload:
            return True
        try:
            failure = child.load(realm_number, self._scripts[script_number])
        except ChildExited:
            self._dry_runs.on_failed(script_number)
            raise
        if failure is not None:
            self._dry_runs.on_failed(script_number)
        if not child.is_alive():  # `load` kills a child that uses too much CPU time
            raise ChildExited(child.kill())
        return failure is None

    def _limit_ms(self, script_batch: ScriptBatch, segment: Segment) -> int:
        """Return the time after which V8 interrupts a pass of a segment.

        An interrupted script loses its state. The harness ends a segment of a blocking script between two records, well
        before the normal time limit. Only a busy machine or a slow record makes the segment exceed that limit, so the
        limit here is longer. After an interruption it has the normal limit for a while, because another slow record
        would delay all others again.
        """
        interrupted_at_s = self._interrupted_at_s.get(script_batch.script_number, float("-inf"))
        if (
            segment.mode is Mode.NORMAL
            and script_batch.must_block
            and self._clock() - interrupted_at_s > BLOCKING_PENALTY_S
        ):
            return BLOCKING_SEGMENT_LIMIT_MS
        return segment.limit_ms

    def _may_send(self, child: SandboxedChild, script_batch: ScriptBatch, segment: Segment) -> bool:
        """Return whether this segment may be sent now.

        Two segments may be in flight together only in mode NORMAL, and only if their scripts don't block on answers.
        """
        all_in_flight = self._all_in_flight()
        if not all_in_flight:
            return True
        can_overlap = self._can_overlap(script_batch, segment) and all(
            self._can_overlap(in_flight.script_batch, in_flight.segment) for in_flight in all_in_flight
        )
        return can_overlap and len(all_in_flight) < MAX_IN_FLIGHT_SEGMENTS and not self._should_recycle(child)

    @staticmethod
    def _can_overlap(script_batch: ScriptBatch, segment: Segment) -> bool:
        """Return whether another segment may be in flight beside this one."""
        return segment.mode is Mode.NORMAL and not script_batch.must_block

    def _send(
        self, child: SandboxedChild, in_flight: InFlightSegment, kind: Kind, *payload: bytes | memoryview
    ) -> None:
        in_flight.traced = None
        self._running.append(in_flight)
        if len(self._running) == 1:
            self._start_clocks(child)
        child.send(kind, *payload)

    def _start_clocks(self, child: SandboxedChild) -> None:
        """Start the clocks of the first segment in the queue, which the child begins to run."""
        if self._running:
            self._running[0].pass_began_s, self._running[0].cpu_before_s = self._clock(), child.cpu_s()

    def _receive_frame(self, child: SandboxedChild) -> bool:
        if not self._running:
            return False
        frame = child.receive()
        if frame is None:
            return self._kill_if_overdue(child, self._running[0])
        self._handle_frame(child, self._running[0], frame)
        return True

    def _handle_frame(self, child: SandboxedChild, in_flight: InFlightSegment, frame: Frame) -> None:
        match frame.kind:
            case Kind.TRACE:
                next_index = 0 if in_flight.traced is None else in_flight.traced + 1
                in_flight.traced = parse_trace(frame.payload, range(next_index, len(in_flight.segment.rows)))
            case Kind.LOOKUP_REQUEST:
                in_flight.lookup_requests += 1
                if in_flight.lookup_requests > _MAX_LOOKUP_REQUESTS:
                    raise ProtocolError("the script sent too many lookup requests in one segment")
                in_flight.request = parse_lookup_request(frame.payload)
                self._awaiting_lookup.append(self._running.popleft())
                self._start_clocks(child)
            case Kind.SYNC_LOOKUP_REQUEST:
                if self._blocked_on_lookup is not None:
                    raise ProtocolError("the script sent a lookup request before the response to its last one")
                in_flight.sync_lookup_requests += 1
                if in_flight.sync_lookup_requests > _MAX_SYNC_LOOKUP_REQUESTS:
                    raise ProtocolError("the script sent too many lookup requests in one segment")
                in_flight.request, in_flight.blocked_at_s = parse_lookup_request(frame.payload), self._clock()
                in_flight.sync_request_payload = frame.payload
                self._blocked_on_lookup = in_flight
            case Kind.RESULTS:
                self._blocked_on_lookup = None  # Still set only if V8 interrupted the script during the lookup.
                in_flight.results = frame.payload
            case Kind.SUMMARY:
                self._finish_segment(child, in_flight, frame.payload)
            case Kind.HARNESS_ERROR:
                raise ProtocolError(f"the harness failed: {frame.payload.decode(errors='replace')}")
            case _:
                raise ProtocolError(f"the child sent a frame of the unexpected type {frame.kind}")

    def _finish_segment(self, child: SandboxedChild, in_flight: InFlightSegment, summary: bytes) -> None:
        cpu_s = child.cpu_s() - in_flight.cpu_before_s
        results = parse_results(in_flight.results, summary, len(in_flight.segment.rows))
        if results.interrupted:
            self._interrupted_at_s[in_flight.script_number] = self._clock()
        must_reload = in_flight.script_batch.apply_results(in_flight.segment, results, cpu_s)
        if in_flight.segment.mode is Mode.MEASURED and results.interrupted:
            must_reload = in_flight.runs_in_own_realm
        # The segment remains the first in the queue until its results are parsed, because a protocol error is blamed on
        # the first segment.
        self._running.popleft()
        if in_flight.has_dry_run:
            self._dry_runs.on_finished(in_flight.script_number, has_looked_up=in_flight.lookup_requests > 0)
        self._start_clocks(child)
        if must_reload:
            self._reset_realm(child, in_flight.script_number)

    def _respond_to_lookup_request(self, child: SandboxedChild) -> bool:
        if not self._awaiting_lookup:
            return False
        in_flight = self._awaiting_lookup[0]
        response = self._look_up(in_flight)
        if response is None:
            return False
        self._awaiting_lookup.popleft()
        self._send(child, in_flight, Kind.LOOKUP_RESPONSE, response)
        return True

    def _respond_to_blocked_script(self, child: SandboxedChild) -> bool:
        """Respond to the script that is blocked in `flow.contains`.

        If the lookup fails, the child is killed and the script's state is lost.
        """
        in_flight = self._blocked_on_lookup
        if in_flight is None:
            return False
        response = in_flight.script_batch.cached_responses.get(in_flight.sync_request_payload)
        if response is None:
            try:
                response = self._look_up(in_flight)
            except HeadwaterError:
                self._kill_and_requeue(child)
                raise
            if response is None:
                return False
            in_flight.script_batch.cache_response(in_flight.sync_request_payload, response)
        self._blocked_on_lookup = None
        in_flight.pass_began_s += self._clock() - in_flight.blocked_at_s
        child.send(Kind.SYNC_LOOKUP_RESPONSE, response)
        return True

    def _look_up(self, in_flight: InFlightSegment) -> bytes | None:
        """Return the payload of the response to the lookup request; None until the lookup is done.

        Raises the error of the lookup.
        """
        assert in_flight.request is not None
        if in_flight.lookup is None:
            in_flight.lookup = self._lookup_executor.submit(
                self._lookup_functions[in_flight.script_number], in_flight.request
            )
        if not in_flight.lookup.done():
            return None
        lookup, in_flight.lookup = in_flight.lookup, None
        return b"\n".join(
            b"?" if are_members is None else bytes(are_members).translate(_MEMBERSHIP_DIGITS)
            for are_members in lookup.result()
        )

    def _kill_and_requeue(self, child: SandboxedChild) -> None:
        """Kill the child, and requeue its segments. The death counts against no record."""
        child.kill()
        for in_flight in reversed(self._take_in_flight()):
            in_flight.script_batch.requeue(in_flight.segment)

    # ---- time and death ----

    def _kill_if_overdue(self, child: SandboxedChild, in_flight: InFlightSegment) -> bool:
        if self._blocked_on_lookup is not None:
            return False
        limit_s = in_flight.limit_s
        elapsed_s = self._clock() - in_flight.pass_began_s
        if elapsed_s < limit_s + KILL_GRACE_S:
            return False
        cpu_s = child.cpu_s() - in_flight.cpu_before_s
        if cpu_s < limit_s and elapsed_s < CPU_STARVATION_TIMEOUT_S:
            return False
        self._handle_child_death(ChildDeath(child.kill(), overdue=True, cpu_s=cpu_s))
        return True

    def _handle_child_death(self, death: ChildDeath) -> None:
        """Handle the death of the child.

        `ScriptBatch.apply_death` decides about the segment that ran; all other segments are requeued. They run in
        another child. A child that dies while no segment is in flight is only replaced.
        """
        lost = self._take_in_flight()
        if not lost:
            return
        running, *waiting = lost
        for in_flight in waiting:
            in_flight.script_batch.requeue(in_flight.segment)
        if not running.script_batch.crashed:
            running.script_batch.crashed = True
            self.crashed_batches += 1
        if running.has_dry_run:
            self._dry_runs.on_failed(running.script_number)
        running.script_batch.apply_death(running.segment, death, running.traced)

    def _take_in_flight(self) -> list[InFlightSegment]:
        """Forget the dead child, and return the segments that were in flight in it."""
        lost, self._child, self._blocked_on_lookup = self._all_in_flight(), None, None
        self._running.clear()
        self._awaiting_lookup.clear()
        for in_flight in lost:
            if in_flight.lookup is not None:
                in_flight.lookup.cancel()
        return lost

    # ---- children and scripts ----

    def _obtain_child(self) -> SandboxedChild | None:
        """Take a child from the starter as the current child, after it has loaded all scripts.

        Returns None while no child is ready, and when the child dies while it loads scripts. Raises SandboxFailed.
        """
        child = self._starter.take(self._scripts)
        if child is None:
            return None
        try:
            self._load_missing_scripts(child)
        except ChildExited:
            return None
        except SandboxFailed:
            child.kill()
            raise
        self._child = child
        self._memory_checked_at_s, self._child_is_large = float("-inf"), False
        return child

    def _load_missing_scripts(self, child: SandboxedChild) -> None:
        """Load the scripts that were added after the child was started.

        Raises ChildExited, SandboxFailed.
        """
        for script_number in self._scripts:
            if script_number not in child.loaded_realms:
                self._reload(child, script_number)

    def _ready_child(self) -> SandboxedChild:
        """Return a child that runs. Blocks while it starts. Raises SandboxFailed."""
        if self._child is not None and not self._child.is_alive():
            self._child = None
        while (child := self._child or self._obtain_child()) is None:
            self._starter.wait(_MAX_WAIT_S)
        return child

    def _load_new_script(self, script_number: int, script: AnalysedScript) -> None:
        """Load a new script.

        Raises InvalidScript, also when two children die while they load the script, and SandboxFailed.
        """
        exited: ChildExited | None = None
        for _ in range(_LOAD_ATTEMPTS):
            try:
                failure = self._ready_child().load(script_number, script)
            except ChildExited as error:
                self._child, exited = None, error
                continue
            if failure is not None:
                raise invalid_script(failure)
            return
        raise InvalidScript(
            f"The script can't be loaded: its process ended during that ({exited}). Either its top level ends the "
            "process, or the machine is too busy: try again."
        )

    def _reload(self, child: SandboxedChild, script_number: int) -> None:
        """Reload a script that was accepted before. Raises ChildExited, SandboxFailed.

        A timeout then only means that the machine is busy, so the child is killed and another one tries.
        """
        failure = child.load(script_number, self._scripts[script_number])
        if failure is not None and failure.error == "Timeout":
            raise ChildExited(child.kill())
        if failure is not None:
            raise SandboxFailed(f"A script that was accepted before is refused: {invalid_script(failure).detail}")

    def _reset_realm(self, child: SandboxedChild, script_number: int) -> None:
        """Reload a script after a record of it was interrupted or has timed out.

        An interruption may leave its variables inconsistent. Replaces the child instead when it uses too much memory.
        """
        if child.resident_bytes() > RECYCLE_ABOVE_BYTES:
            child.kill()
            self._child = None
        else:
            self._reload(child, script_number)

    def _recycle(self, child: SandboxedChild) -> None:
        """Replace the child by the spare one between two batches when its memory is too large.

        Memory grows because Promises that a script creates are never freed.
        """
        if not self._all_in_flight() and self._should_recycle(child):
            self._recycled_at_s = self._clock()
            child.kill()
            self._child = None

    def _should_recycle(self, child: SandboxedChild) -> bool:
        now = self._clock()
        if now - self._memory_checked_at_s >= MEMORY_CHECK_INTERVAL_S:
            self._memory_checked_at_s, self._child_is_large = now, child.resident_bytes() > RECYCLE_ABOVE_BYTES
        return self._child_is_large and now - self._recycled_at_s >= RECYCLE_INTERVAL_S and self._starter.is_ready()
