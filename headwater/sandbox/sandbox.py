"""The sandbox of one worker: a child, a spare child, and the batches in progress."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import KW_ONLY, dataclass
from types import TracebackType

import structlog

from headwater.errors import HeadwaterError, InvalidScript, SandboxFailed
from headwater.model.record import RecordBatch
from headwater.sandbox.child import ChildExited, SandboxedChild
from headwater.sandbox.child_starter import ChildStarter
from headwater.sandbox.deno_command import DenoCommand, deno_command
from headwater.sandbox.frames import Frame, Kind, ProtocolError
from headwater.sandbox.loadable_script import LoadableScript
from headwater.sandbox.rehearsals import REHEARSAL_REALM_BIT, Rehearsals
from headwater.sandbox.results import ScriptError, parse_question, parse_results, parse_row
from headwater.sandbox.script_batch import REHEARSE_FLAG, ChildDeath, Mode, ScriptBatch, Segment
from headwater.sandbox.script_refusal import script_refused

log = structlog.get_logger(__name__)

MembershipQuery = list[tuple[str, list[str]]]
"""Dataset names, and for each name the values to look up, as the script wrote them."""
MembershipResult = list[list[bool] | None]
"""For each name of a query, whether each value is a member; None for an unknown dataset."""
LookupFunction = Callable[[MembershipQuery], MembershipResult]

KILL_GRACE_S = 0.5
"""Grace period after a time limit. A child that V8 has not interrupted by then is killed."""
CPU_STARVATION_TIMEOUT_S = 10.0
"""After this time a child is killed even if it got too little CPU time to reach its limit."""
RECYCLE_ABOVE_BYTES = 208 << 20
"""A child whose resident memory exceeds this is replaced between two batches."""
RECYCLE_INTERVAL_S = 10.0
"""The shortest interval between two replacements of a child that has grown too large."""
MEMORY_CHECK_INTERVAL_S = 0.1
"""The shortest interval between two reads of the child's memory; small batches arrive a hundred times a second."""
STATEFUL_SEGMENT_LIMIT_MS = 1500
"""The time limit of a segment of a stateful script, which loses its state when it is interrupted."""
STATEFUL_PENALTY_S = 60.0
"""After a record of a stateful script was interrupted, its segments have the normal time limit for this long."""
MAX_IN_FLIGHT_SEGMENTS = 2
"""The most segments in flight: the child runs one while the parent looks up values or reads results of another."""
_MAX_QUESTIONS = 64
_MAX_SYNC_QUESTIONS = 200_000
"""The most synchronous questions of one segment. An honest script reaches its time limit long before."""
_DIGITS = bytes.maketrans(b"\0\1", b"01")
_PAUSE_S = 1.0
_INTERRUPT_POLL_S = 0.05
"""The interval at which the parent checks whether V8 interrupted a script that waits for an answer."""


@dataclass(slots=True, eq=False)
class _InFlightSegment:
    """A segment that was sent to the child and is not finished.

    Attributes:
        limit_s: The time after which V8 interrupts a step of the segment. A step ends at a question or at the results.
        began_s: The clock when the last step could begin, plus the time that the script spent waiting for answers.
        cpu_s: The child's CPU time at `began_s`.
        traced: The index in the segment of the running record, from the last TRACE frame.
        results: The frame RESULTS, until SUMMARY arrives.
        batched_questions: The number of KEYS frames, which the child sends between passes.
        sync_questions: The number of ASK frames, for whose answers the script blocked.
        query: The query of the question that is not answered yet.
        query_frame: The payload of the ASK frame for which the script blocks.
        asked_at_s: The clock when the script began to block.
        lookup: The lookup that is running.
        rehearsed: Whether the child rehearses the segment first.
    """

    script_batch: ScriptBatch
    segment: Segment
    limit_s: float
    _: KW_ONLY
    began_s: float = 0.0
    cpu_s: float = 0.0
    traced: int | None = None
    results: bytes = b""
    batched_questions: int = 0
    sync_questions: int = 0
    query: MembershipQuery | None = None
    query_frame: bytes = b""
    asked_at_s: float = 0.0
    lookup: Future[MembershipResult] | None = None
    rehearsed: bool = False


class Sandbox:
    """Runs scripts over batches in a child process, which is replaced when it dies.

    A worker has one sandbox for all its v8 transforms. One thread uses the sandbox; lookups and child starts run on
    threads that the sandbox owns. The child sends one reply for each segment and each answer, in the order in which
    they were sent. The parent answers questions in the order in which they arrived.

    Attributes:
        crash_events: The number of batches during which a child died; a batch counts once.
    """

    def __init__(
        self,
        *,
        jit: bool = False,
        spare: bool = True,
        engine: DenoCommand | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._starter = ChildStarter(engine or deno_command(jit=jit), keep_spare=spare)
        self._clock = clock
        self._lookup_executor = ThreadPoolExecutor(1, "sandbox-lookup")
        self._scripts: dict[int, LoadableScript] = {}
        self._lookup_functions: dict[int, LookupFunction] = {}
        self._batches: deque[ScriptBatch] = deque()
        self._running: deque[_InFlightSegment] = deque()
        self._awaiting_lookup: deque[_InFlightSegment] = deque()
        self._blocked_on_answer: _InFlightSegment | None = None
        self._interrupted_at_s: dict[int, float] = {}
        self._rehearsals = Rehearsals()
        self._pending_error: HeadwaterError | None = None
        self._recycled_at_s = clock()
        self._measured_at_s, self._is_large = float("-inf"), False
        self.crash_events = 0
        self._child: SandboxedChild | None = None

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id of the current child; None while there is none."""
        return self._child.pid if self._child else None

    def add(self, script: str, lookup: LookupFunction) -> int:
        """Load a script, and return its number for `submit`.

        `lookup` answers the script's queries, on another thread. Blocks while the child starts and the script's top
        level runs. Raises InvalidScript, SandboxFailed.
        """
        assert not self._batches, "scripts are added before batches run"
        number, loadable = len(self._scripts), LoadableScript.of(script)
        self._load_new_script(number, loadable)
        self._scripts[number] = loadable
        self._lookup_functions[number] = lookup
        return number

    def submit(self, number: int, batch: RecordBatch, *, feeds_script: bool = False) -> ScriptBatch:
        """Queue a batch for a script. Batches finish in the order in which they are submitted.

        With `feeds_script`, the outputs go to another script, so BigInts are marked (see bigint_marks.py).
        """
        script_batch = ScriptBatch(
            batch, number, feeds_script=feeds_script, keeps_state=self._scripts[number].keeps_state
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

        Raises SandboxFailed, or the error of a lookup; then call `wait` again.
        """
        while not script_batch.finished:
            self.step()
            if self._pending_error is not None:
                error, self._pending_error = self._pending_error, None
                raise error
            if not script_batch.finished:
                self.wait_for_event(_PAUSE_S)

    def strip_types(self, text: str) -> str | ScriptError:
        """Return the text without TypeScript types, or the error if it can't be parsed.

        Returns "" if the text already compiles as JavaScript. Only a sandbox that validates scripts can do this. Raises
        SandboxFailed.
        """
        assert not self._batches, "types are stripped before batches run"
        try:
            return self._ready_child().strip_types(text)
        except ChildExited:
            self._child = None
            return ScriptError("SandboxCrash", "it is nested too deeply, or takes too much memory to read")

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
        if self._child is None and not self._take_child():
            return False
        assert self._child is not None
        try:
            child = self._child
            return (
                self._send_next_segment(child)
                or self._answer_blocked_script(child)
                or self._answer_batched_question(child)
                or self._receive_frame(child)
            )
        except ChildExited as exited:
            self._handle_child_death(ChildDeath(exited.status))
        except ProtocolError as error:
            log.error("the sandbox violated its protocol and is killed", reason=str(error))
            self._handle_child_death(ChildDeath(self._child.kill(), broken=True))
        return True

    def _all_in_flight(self) -> list[_InFlightSegment]:
        return [*self._running, *self._awaiting_lookup]

    def _send_next_segment(self, child: SandboxedChild) -> bool:
        """Finish the first batch, or send the next segment."""
        first = self._batches[0]
        if first.pending is None and all(in_flight.script_batch is not first for in_flight in self._all_in_flight()):
            first.finished = True
            self._batches.popleft()
            self._recycle(child)
            return True
        script_batch = next((script_batch for script_batch in self._batches if script_batch.pending is not None), first)
        segment = script_batch.pending
        if segment is None or not self._has_room(child, script_batch, segment):
            return False
        rehearsed = (
            script_batch.keeps_state
            and segment.mode is Mode.WHOLE
            and self._should_rehearse(child, script_batch, segment)
        )
        realm = (
            self._measuring_realm(child, script_batch.script) if segment.mode is Mode.MEASURED else script_batch.script
        )
        script_batch.mark_started(segment)
        flags, limit_ms = (
            segment.mode.flag | script_batch.flags | rehearsed * REHEARSE_FLAG,
            self._limit_ms(script_batch, segment),
        )
        head = realm.to_bytes(2, "little") + bytes([flags]) + limit_ms.to_bytes(2, "little")
        in_flight = _InFlightSegment(script_batch, segment, limit_ms / 1000, rehearsed=rehearsed)
        self._send(child, in_flight, Kind.BATCH, head, *script_batch.payload(segment))
        return True

    def _should_rehearse(self, child: SandboxedChild, script_batch: ScriptBatch, segment: Segment) -> bool:
        """Decide whether the child rehearses a segment, and load the rehearsal realm for it.

        Raises ChildExited.
        """
        script = script_batch.script
        if not self._rehearsals.are_due(script, len(segment.rows)):
            return False
        return self._load_rehearsal_realm(child, script, reload=self._rehearsals.needs_new_realm(script))

    def _measuring_realm(self, child: SandboxedChild, script: int) -> int:
        """Return the number of the realm in which a slow record is measured again.

        Raises ChildExited. It is the rehearsal realm, or, if that can't be loaded, the script's own realm after a
        reload, which resets its state.
        """
        if self._load_rehearsal_realm(child, script, reload=False):
            return script | REHEARSAL_REALM_BIT
        self._reload(child, script)
        return script

    def _load_rehearsal_realm(self, child: SandboxedChild, script: int, *, reload: bool) -> bool:
        """Load the rehearsal realm if it is not loaded; with `reload`, load it again.

        Returns False when its top level fails. Raises ChildExited.
        """
        number = script | REHEARSAL_REALM_BIT
        if number in child.scripts and not reload:
            return True
        try:
            error = child.load(number, self._scripts[script])
        except ChildExited:
            self._rehearsals.record_failure(script)
            raise
        if error is not None:
            self._rehearsals.record_failure(script)
        return error is None

    def _limit_ms(self, script_batch: ScriptBatch, segment: Segment) -> int:
        """Return the time after which V8 interrupts a segment.

        An interrupted script loses its state. A segment of a stateful script ends by itself, between two records,
        before its time limit. Only on a busy machine does it fail to, so it gets a longer limit. After an interruption
        it has the normal limit for a while, because another slow record would delay all others again.
        """
        interrupted_at_s = self._interrupted_at_s.get(script_batch.script, float("-inf"))
        if (
            segment.mode is Mode.WHOLE
            and script_batch.keeps_state
            and self._clock() - interrupted_at_s > STATEFUL_PENALTY_S
        ):
            return STATEFUL_SEGMENT_LIMIT_MS
        return segment.limit_ms

    def _has_room(self, child: SandboxedChild, script_batch: ScriptBatch, segment: Segment) -> bool:
        """Return whether this segment may be sent now.

        A suspected record is sent only if nothing else is in flight.
        """
        others = self._all_in_flight()
        if not others:
            return True
        shared = self._can_overlap(script_batch, segment) and all(
            self._can_overlap(other.script_batch, other.segment) for other in others
        )
        return shared and len(others) < MAX_IN_FLIGHT_SEGMENTS and not self._should_recycle(child)

    @staticmethod
    def _can_overlap(script_batch: ScriptBatch, segment: Segment) -> bool:
        """Return whether another segment may be in flight beside this one.

        This segment must not wait for answers.
        """
        return segment.mode is Mode.WHOLE and not script_batch.keeps_state

    def _send(
        self, child: SandboxedChild, in_flight: _InFlightSegment, kind: Kind, *payload: bytes | memoryview
    ) -> None:
        in_flight.traced = None
        self._running.append(in_flight)
        if len(self._running) == 1:
            self._start_clocks(child)
        child.send(kind, *payload)

    def _start_clocks(self, child: SandboxedChild) -> None:
        """Start the clocks of the first segment in the queue, because the child begins with it now."""
        if self._running:
            self._running[0].began_s, self._running[0].cpu_s = self._clock(), child.cpu_s()

    def _receive_frame(self, child: SandboxedChild) -> bool:
        if not self._running:
            return False
        frame = child.receive()
        if frame is None:
            return self._kill_if_overdue(child, self._running[0])
        self._handle_frame(child, self._running[0], frame)
        return True

    def _handle_frame(self, child: SandboxedChild, in_flight: _InFlightSegment, frame: Frame) -> None:
        match frame.kind:
            case Kind.TRACE:
                first = 0 if in_flight.traced is None else in_flight.traced + 1
                in_flight.traced = parse_row(frame.payload, range(first, len(in_flight.segment.rows)))
            case Kind.KEYS:
                in_flight.batched_questions += 1
                if in_flight.batched_questions > _MAX_QUESTIONS:
                    raise ProtocolError("the script asked too many questions in one segment")
                in_flight.query = parse_question(frame.payload)
                self._awaiting_lookup.append(self._running.popleft())
                self._start_clocks(child)
            case Kind.ASK:
                in_flight.sync_questions += 1
                if in_flight.sync_questions > _MAX_SYNC_QUESTIONS:
                    raise ProtocolError("the script asked too many questions in one segment")
                in_flight.query, in_flight.asked_at_s = parse_question(frame.payload), self._clock()
                in_flight.query_frame = frame.payload
                self._blocked_on_answer = in_flight
            case Kind.RESULTS:
                self._blocked_on_answer = None  # V8 interrupted the script before it read its answer.
                in_flight.results = frame.payload
            case Kind.SUMMARY:
                self._finish(child, in_flight, frame.payload)
            case Kind.BROKEN:
                raise ProtocolError(frame.payload.decode(errors="replace"))
            case _:
                raise ProtocolError(f"the child sent a frame of the unexpected type {frame.kind}")

    def _finish(self, child: SandboxedChild, in_flight: _InFlightSegment, summary: bytes) -> None:
        cpu_s = child.cpu_s() - in_flight.cpu_s
        results = parse_results(in_flight.results, summary, len(in_flight.segment.rows))
        if results.interrupted:
            self._interrupted_at_s[in_flight.script_batch.script] = self._clock()
        must_reload = in_flight.script_batch.take_results(in_flight.segment, results, cpu_s)
        # Only now: if parsing fails, this segment must still be the first in the queue, because the first gets the
        # blame.
        self._running.popleft()
        if in_flight.rehearsed:
            self._rehearsals.record_questions(in_flight.script_batch.script, questions=in_flight.batched_questions)
        self._start_clocks(child)
        if must_reload:
            self._reset_realm(child, in_flight.script_batch.script)

    def _answer_batched_question(self, child: SandboxedChild) -> bool:
        if not self._awaiting_lookup:
            return False
        in_flight = self._awaiting_lookup[0]
        answers = self._look_up(in_flight)
        if answers is None:
            return False
        self._awaiting_lookup.popleft()
        self._send(child, in_flight, Kind.ANSWERS, answers)
        return True

    def _answer_blocked_script(self, child: SandboxedChild) -> bool:
        """Answer the script that is blocked in `flow.contains`.

        If the lookup fails, the child is killed and the script's state is lost.
        """
        in_flight = self._blocked_on_answer
        if in_flight is None:
            return False
        answers = in_flight.script_batch.cached_replies.get(in_flight.query_frame)
        if answers is None:
            try:
                answers = self._look_up(in_flight)
            except HeadwaterError:
                self._kill_and_requeue(child)
                raise
            if answers is None:
                return False
            in_flight.script_batch.cache_reply(in_flight.query_frame, answers)
        self._blocked_on_answer = None
        in_flight.began_s += self._clock() - in_flight.asked_at_s
        child.send(Kind.REPLY, answers)
        return True

    def _look_up(self, in_flight: _InFlightSegment) -> bytes | None:
        """Return the payload of the frame that answers a question; None until the lookup is done.

        Raises the error of the lookup.
        """
        assert in_flight.query is not None
        if in_flight.lookup is None:
            in_flight.lookup = self._lookup_executor.submit(
                self._lookup_functions[in_flight.script_batch.script], in_flight.query
            )
        if not in_flight.lookup.done():
            return None
        answered, in_flight.lookup = in_flight.lookup, None
        return b"\n".join(b"?" if part is None else bytes(part).translate(_DIGITS) for part in answered.result())

    def _kill_and_requeue(self, child: SandboxedChild) -> None:
        """Kill the child, and requeue its segments. No record is blamed."""
        child.kill()
        for in_flight in reversed(self._drop_child()):
            in_flight.script_batch.requeue(in_flight.segment)

    # ---- time and death ----

    def _kill_if_overdue(self, child: SandboxedChild, in_flight: _InFlightSegment) -> bool:
        if self._blocked_on_answer is not None:
            return False
        limit_s = in_flight.limit_s
        elapsed_s = self._clock() - in_flight.began_s
        if elapsed_s < limit_s + KILL_GRACE_S:
            return False
        cpu_s = child.cpu_s() - in_flight.cpu_s
        if cpu_s < limit_s and elapsed_s < CPU_STARVATION_TIMEOUT_S:
            return False
        self._handle_child_death(ChildDeath(child.kill(), overdue=True, cpu_s=cpu_s))
        return True

    def _handle_child_death(self, death: ChildDeath) -> None:
        """Handle the death of the child.

        The segment that ran is split; all other segments are requeued and run in another child.
        """
        lost = self._drop_child()
        for in_flight in lost[1:]:
            in_flight.script_batch.requeue(in_flight.segment)
        for in_flight in lost[:1]:
            if not in_flight.script_batch.crashed:
                in_flight.script_batch.crashed = True
                self.crash_events += 1
            if in_flight.rehearsed:
                self._rehearsals.record_failure(in_flight.script_batch.script)
            in_flight.script_batch.take_death(in_flight.segment, death, in_flight.traced)

    def _drop_child(self) -> list[_InFlightSegment]:
        """Drop the child, and return the segments that were in flight."""
        lost, self._child, self._blocked_on_answer = self._all_in_flight(), None, None
        self._running.clear()
        self._awaiting_lookup.clear()
        for in_flight in lost:
            if in_flight.lookup is not None:
                in_flight.lookup.cancel()
        return lost

    # ---- children and scripts ----

    def _take_child(self) -> bool:
        """Take a child from the starter. Returns False while none is ready."""
        child = self._starter.take(self._scripts)
        if child is None:
            return False
        if self._load_missing_scripts(child):
            self._child = child
            self._measured_at_s, self._is_large = float("-inf"), False
        return True

    def _load_missing_scripts(self, child: SandboxedChild) -> bool:
        """Load the scripts that were added after the child was started.

        Returns False when the child dies.
        """
        try:
            for number in self._scripts:
                if number not in child.scripts:
                    self._reload(child, number)
        except ChildExited:
            return False
        return True

    def _ready_child(self) -> SandboxedChild:
        while self._child is None:
            if not self._take_child():
                self._starter.wait(_PAUSE_S)
        return self._child

    def _load_new_script(self, number: int, script: LoadableScript) -> None:
        """Load a new script. If the child dies twice while loading it, the script is refused."""
        exited: ChildExited | None = None
        for _ in range(2):
            try:
                return self._load(self._ready_child(), number, script)
            except ChildExited as error:
                exited, self._child = error, None
        raise InvalidScript(f"The script can't be loaded: its top level ends its process ({exited}).")

    def _reload(self, child: SandboxedChild, number: int) -> None:
        """Reload a script that was accepted before. Raises ChildExited, SandboxFailed.

        A timeout then only means that the machine is busy, so the child is killed and another one tries.
        """
        error = child.load(number, self._scripts[number])
        if error is not None and error.error == "Timeout":
            raise ChildExited(child.kill())
        if error is not None:
            raise SandboxFailed(f"A script that was accepted before is refused: {script_refused(error).detail}")

    def _load(self, child: SandboxedChild, number: int, script: LoadableScript) -> None:
        error = child.load(number, script)
        if error is not None:
            raise script_refused(error)

    def _reset_realm(self, child: SandboxedChild, number: int) -> None:
        """Reset a script after an interruption, because its variables may be inconsistent.

        Replaces the child instead when it uses too much memory.
        """
        if child.resident_bytes() > RECYCLE_ABOVE_BYTES:
            child.kill()
            self._child = None
        else:
            self._reload(child, number)

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
        if now - self._measured_at_s >= MEMORY_CHECK_INTERVAL_S:
            self._measured_at_s, self._is_large = now, child.resident_bytes() > RECYCLE_ABOVE_BYTES
        return self._is_large and now - self._recycled_at_s >= RECYCLE_INTERVAL_S and self._starter.ready()

    def wait_for_event(self, timeout_s: float) -> None:
        """Wait for what the first batch waits for: a child start, a lookup, or a frame.

        Waits at most `timeout_s`.
        """
        if self._child is None:
            self._starter.wait(timeout_s)
        elif self._blocked_on_answer is not None and self._blocked_on_answer.lookup is not None:
            wait([self._blocked_on_answer.lookup], min(timeout_s, _INTERRUPT_POLL_S))
        elif self._running:
            running = self._running[0]
            left_s = running.began_s + running.limit_s + KILL_GRACE_S - self._clock()
            self._child.wait(min(timeout_s, max(0.05, left_s)))
        elif self._awaiting_lookup and self._awaiting_lookup[0].lookup is not None:
            wait([self._awaiting_lookup[0].lookup], timeout_s)
