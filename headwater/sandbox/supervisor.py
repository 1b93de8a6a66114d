"""The sandbox of one worker: a locked child with the worker's scripts in it, a spare one, and the batches in work."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import TracebackType

import structlog

from headwater.errors import HeadwaterError, SandboxFailed, ScriptRefused
from headwater.model.record import RecordBatch
from headwater.sandbox.child import Died, LockedChild
from headwater.sandbox.engine import Engine, deno_engine
from headwater.sandbox.frames import Frame, Kind, Malformed
from headwater.sandbox.job import REHEARSED, Death, Job, Mode, Segment
from headwater.sandbox.pool import ChildPool, refused
from headwater.sandbox.program import Program
from headwater.sandbox.rehearsals import REHEARSAL, Rehearsals
from headwater.sandbox.results import ScriptError, parse_question, parse_results, parse_row

log = structlog.get_logger(__name__)

Question = list[tuple[str, list[str]]]
"""Dataset names, and for each the values to look up as the script wrote them."""
Answer = list[list[bool] | None]
"""For each name of a question: membership per value, or None when there is no such dataset."""
Lookup = Callable[[Question], Answer]

KILL_AFTER_S = 0.5
"""How long after its time a child is killed that the engine could not interrupt."""
STARVED_AFTER_S = 10.0
"""When a child that gets no CPU is given up."""
RECYCLE_ABOVE_BYTES = 208 << 20
RECYCLE_INTERVAL_S = 10.0
MEASURE_EVERY_S = 0.1
"""How often it is asked how much memory the child has. Small batches come a hundred times a second."""
STATEFUL_SLICE_MS = 1500
"""How long a segment runs before it is interrupted when its script keeps state, which an interruption loses."""
SHORT_SLICES_S = 60.0
"""How long after an interruption the segments of such a script have the time limit of all others."""
MAX_WITH_CHILD = 2
"""Segments that the child has: it runs one while the parent looks up what another one asked, or takes its results."""
_MAX_QUESTIONS = 64
_MAX_WAITS = 200_000
"""How often a script may wait for an answer in one segment; its time is over long before."""
_DIGITS = bytes.maketrans(b"\0\1", b"01")
_PAUSE_S = 1.0
_LATE_S = 0.05
"""How often it is looked whether the engine has stopped a script that waits for an answer."""


@dataclass(slots=True, eq=False)
class _Exchange:
    """A segment that the child has.

    Attributes:
        limit_s: The time after which the engine interrupts a step of the segment.
        began_s: The clock when the last step could begin; moved on by the time that the script waited for answers.
        cpu_s: The child's CPU time then.
        traced: The record that runs, by its number in the segment, where the child names it.
        results: The frame RESULTS, while SUMMARY is not there.
        questions: How many questions were asked between passes.
        waits: How many questions the script waited for.
        question: The question that is to be answered.
        asked_s: The clock when the script began to wait for an answer.
        asked: The frame of the question that the script waits for.
        answer: The lookup that runs.
        rehearsed: Whether the child rehearses the segment first.
    """

    job: Job
    segment: Segment
    limit_s: float
    began_s: float = 0.0
    cpu_s: float = 0.0
    traced: int | None = None
    results: bytes = b""
    questions: int = 0
    waits: int = 0
    question: Question | None = None
    asked_s: float = 0.0
    asked: bytes = b""
    answer: Future[Answer] | None = None
    rehearsed: bool = False


class Sandbox:
    """Runs scripts over batches in a child that it replaces when it dies.

    A worker has one, for all its v8 transforms. Used by one thread; lookups and starts run on threads of its own. The
    child replies once to each segment and to each answer that it is sent, in their order; its questions are answered in
    the order in which they came.
    crash_events counts the batches over which a child died (however often).
    """

    def __init__(
        self,
        *,
        jit: bool = False,
        spare: bool = True,
        engine: Engine | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = ChildPool(engine or deno_engine(jit=jit), keep_spare=spare)
        self._clock = clock
        self._lookups = ThreadPoolExecutor(1, "sandbox-lookup")
        self._scripts: dict[int, Program] = {}
        self._lookup: dict[int, Lookup] = {}
        self._jobs: deque[Job] = deque()
        self._sent: deque[_Exchange] = deque()
        self._asking: deque[_Exchange] = deque()
        self._waiting: _Exchange | None = None
        self._stopped_s: dict[int, float] = {}
        self._rehearsals = Rehearsals()
        self._trouble: HeadwaterError | None = None
        self._recycled_s = clock()
        self._measured_s, self._is_large = float("-inf"), False
        self.crash_events = 0
        self._child: LockedChild | None = None

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id of the child at work."""
        return self._child.pid if self._child else None

    def add(self, script: str, lookup: Lookup) -> int:
        """Load a script; returns its number for `submit`. lookup answers its questions, on another thread.

        Blocks while the child starts and the script's top level runs. Raises ScriptRefused, SandboxFailed.
        """
        assert not self._jobs, "scripts are added before batches run"
        number, program = len(self._scripts), Program.of(script)
        self._load_first(number, program)
        self._scripts[number] = program
        self._lookup[number] = lookup
        return number

    def submit(self, number: int, batch: RecordBatch, *, feeds_script: bool = False) -> Job:
        """Queue a batch for a script. Batches end in the order in which they are submitted.

        feeds_script: another script gets the outputs, so that their numbers are marked as marks.py has it.
        """
        job = Job(batch, number, feeds_script=feeds_script, keeps_state=self._scripts[number].keeps_state)
        self._jobs.append(job)
        self.step()
        return job

    def step(self) -> None:
        """Move the batches on, as far as it goes without waiting. What goes wrong is kept for `wait`."""
        try:
            while self._jobs and self._trouble is None and self._advance():
                pass
        except HeadwaterError as error:
            self._trouble = error

    def blocked(self) -> bool:
        """True when `wait` would raise at once."""
        return self._trouble is not None

    def wait(self, job: Job) -> None:
        """Return when the batch is finished. Raises SandboxFailed, or what its lookup raised; then call it again."""
        while not job.finished:
            self.step()
            if self._trouble is not None:
                trouble, self._trouble = self._trouble, None
                raise trouble
            if not job.finished:
                self.pause(_PAUSE_S)

    def without_types(self, text: str) -> str | ScriptError:
        """The text without the types of TypeScript, or why it is refused; "" for a text that is a script.

        For a sandbox with a checking engine. Raises SandboxFailed.
        """
        assert not self._jobs, "scripts are read before batches run"
        try:
            return self._ready_child().without_types(text)
        except Died:
            self._child = None
            return ScriptError("SandboxCrash", "it is nested too deeply, or takes too much memory to read")

    def close(self) -> None:
        """End the children. Batches in work are given up."""
        self._jobs.clear()
        self._sent.clear()
        self._asking.clear()
        self._lookups.shutdown(cancel_futures=True)
        self._pool.close()
        if self._child is not None:
            self._child.kill()
            self._child = None

    # ---- one step; True when something moved ----

    def _advance(self) -> bool:
        if self._child is None and not self._replace():
            return False
        assert self._child is not None
        try:
            child = self._child
            return self._begin(child) or self._reply(child) or self._answer(child) or self._hear(child)
        except Died as died:
            self._bury(Death(died.status))
        except Malformed as error:
            log.error("the sandbox broke its protocol and is ended", reason=str(error))
            self._bury(Death(self._child.kill(), broken=True))
        return True

    def _with_child(self) -> list[_Exchange]:
        return [*self._sent, *self._asking]

    def _begin(self, child: LockedChild) -> bool:
        """Finish the first batch, or send the next segment."""
        first = self._jobs[0]
        if first.pending is None and all(exchange.job is not first for exchange in self._with_child()):
            first.finished = True
            self._jobs.popleft()
            self._recycle(child)
            return True
        job = next((job for job in self._jobs if job.pending is not None), first)
        segment = job.pending
        if segment is None or not self._has_room(child, job, segment):
            return False
        rehearsed = job.keeps_state and segment.mode is Mode.WHOLE and self._is_rehearsed(child, job, segment)
        realm = self._realm_to_judge(child, job.script) if segment.mode is Mode.JUDGED else job.script
        job.started(segment)
        flags, limit_ms = segment.mode.flag | job.flags | rehearsed * REHEARSED, self._limit_ms(job, segment)
        head = realm.to_bytes(2, "little") + bytes([flags]) + limit_ms.to_bytes(2, "little")
        exchange = _Exchange(job, segment, limit_ms / 1000, rehearsed=rehearsed)
        self._hand_over(child, exchange, Kind.BATCH, head, *job.payload(segment))
        return True

    def _is_rehearsed(self, child: LockedChild, job: Job, segment: Segment) -> bool:
        """Whether the child shall rehearse a segment. Raises Died."""
        script = job.script
        if not self._rehearsals.are_due(script, len(segment.rows)):
            return False
        return self._has_rehearsal(child, script, anew=self._rehearsals.needs_new_realm(script))

    def _realm_to_judge(self, child: LockedChild, script: int) -> int:
        """The number of the realm in which a slow record runs again. Raises Died.

        It is the realm for rehearsals; where that can't be loaded, the script's own, whose state begins anew for it.
        """
        if self._has_rehearsal(child, script, anew=False):
            return script | REHEARSAL
        self._reload(child, script)
        return script

    def _has_rehearsal(self, child: LockedChild, script: int, *, anew: bool) -> bool:
        """Load the realm for rehearsals if it is not there. False when its top level fails this time. Raises Died."""
        number = script | REHEARSAL
        if number in child.scripts and not anew:
            return True
        try:
            error = child.load(number, self._scripts[script])
        except Died:
            self._rehearsals.failed(script)
            raise
        if error is not None:
            self._rehearsals.failed(script)
        return error is None

    def _limit_ms(self, job: Job, segment: Segment) -> int:
        """The time after which the engine interrupts a segment.

        An interrupted script loses its state. A segment of a script that keeps state ends by itself, between two
        records, before its time is over; only on a busy machine it does not, so it gets more time. After a record that
        was interrupted it does not get more for a while: the next such record would delay the others again.
        """
        stopped_s = self._stopped_s.get(job.script, float("-inf"))
        if segment.mode is Mode.WHOLE and job.keeps_state and self._clock() - stopped_s > SHORT_SLICES_S:
            return STATEFUL_SLICE_MS
        return segment.limit_ms

    def _has_room(self, child: LockedChild, job: Job, segment: Segment) -> bool:
        """Whether the child may have this segment now. A suspected record runs when the child has no other segment."""
        others = self._with_child()
        if not others:
            return True
        shared = self._may_share(job, segment) and all(self._may_share(other.job, other.segment) for other in others)
        return shared and len(others) < MAX_WITH_CHILD and not self._must_go(child)

    @staticmethod
    def _may_share(job: Job, segment: Segment) -> bool:
        """Whether the child may have another segment beside this one: not where its script waits for answers."""
        return segment.mode is Mode.WHOLE and not job.keeps_state

    def _hand_over(self, child: LockedChild, exchange: _Exchange, kind: Kind, *payload: bytes | memoryview) -> None:
        exchange.traced = None
        self._sent.append(exchange)
        if len(self._sent) == 1:
            self._start_clocks(child)
        child.send(kind, *payload)

    def _start_clocks(self, child: LockedChild) -> None:
        """The child is free for the first of what it was sent."""
        if self._sent:
            self._sent[0].began_s, self._sent[0].cpu_s = self._clock(), child.cpu_s()

    def _hear(self, child: LockedChild) -> bool:
        if not self._sent:
            return False
        frame = child.receive()
        if frame is None:
            return self._look_at_time(child, self._sent[0])
        self._take(child, self._sent[0], frame)
        return True

    def _take(self, child: LockedChild, exchange: _Exchange, frame: Frame) -> None:
        match frame.kind:
            case Kind.TRACE:
                first = 0 if exchange.traced is None else exchange.traced + 1
                exchange.traced = parse_row(frame.payload, range(first, len(exchange.segment.rows)))
            case Kind.KEYS:
                exchange.questions += 1
                if exchange.questions > _MAX_QUESTIONS:
                    raise Malformed("too many questions")
                exchange.question = parse_question(frame.payload)
                self._asking.append(self._sent.popleft())
                self._start_clocks(child)
            case Kind.ASK:
                exchange.waits += 1
                if exchange.waits > _MAX_WAITS:
                    raise Malformed("too many questions")
                exchange.question, exchange.asked_s = parse_question(frame.payload), self._clock()
                exchange.asked = frame.payload
                self._waiting = exchange
            case Kind.RESULTS:
                self._waiting = None  # the engine stopped the script before it took its reply
                exchange.results = frame.payload
            case Kind.SUMMARY:
                self._finish(child, exchange, frame.payload)
            case Kind.BROKEN:
                raise Malformed(frame.payload.decode(errors="replace"))
            case _:
                raise Malformed(f"a frame of type {frame.kind}")

    def _finish(self, child: LockedChild, exchange: _Exchange, summary: bytes) -> None:
        cpu_s = child.cpu_s() - exchange.cpu_s
        results = parse_results(exchange.results, summary, len(exchange.segment.rows))
        if results.interrupted:
            self._stopped_s[exchange.job.script] = self._clock()
        blamed = exchange.job.take_results(exchange.segment, results, cpu_s)
        self._sent.popleft()  # not before: what can't be parsed is charged to the first that was sent
        if exchange.rehearsed:
            self._rehearsals.asked(exchange.job.script, questions=exchange.questions)
        self._start_clocks(child)
        if blamed:
            self._clean(child, exchange.job.script)

    def _answer(self, child: LockedChild) -> bool:
        if not self._asking:
            return False
        exchange = self._asking[0]
        answers = self._look_up(exchange)
        if answers is None:
            return False
        self._asking.popleft()
        self._hand_over(child, exchange, Kind.ANSWERS, answers)
        return True

    def _reply(self, child: LockedChild) -> bool:
        """Answer the script that waits. When the lookup fails the child is ended, and the script's state with it."""
        exchange = self._waiting
        if exchange is None:
            return False
        answers = exchange.job.replies.get(exchange.asked)
        if answers is None:
            try:
                answers = self._look_up(exchange)
            except HeadwaterError:
                self._take_back(child)
                raise
            if answers is None:
                return False
            exchange.job.remember(exchange.asked, answers)
        self._waiting = None
        exchange.began_s += self._clock() - exchange.asked_s
        child.send(Kind.REPLY, answers)
        return True

    def _look_up(self, exchange: _Exchange) -> bytes | None:
        """The payload of the frame that answers a question; None until it is there. Raises what the lookup raised."""
        assert exchange.question is not None
        if exchange.answer is None:
            exchange.answer = self._lookups.submit(self._lookup[exchange.job.script], exchange.question)
        if not exchange.answer.done():
            return None
        answered, exchange.answer = exchange.answer, None
        return b"\n".join(b"?" if part is None else bytes(part).translate(_DIGITS) for part in answered.result())

    def _take_back(self, child: LockedChild) -> None:
        """End the child; its segments run again in another child, and no record is blamed."""
        child.kill()
        for exchange in reversed(self._forget_child()):
            exchange.job.give_back(exchange.segment)

    # ---- time and death ----

    def _look_at_time(self, child: LockedChild, exchange: _Exchange) -> bool:
        if self._waiting is not None:
            return False
        limit_s = exchange.limit_s
        elapsed_s = self._clock() - exchange.began_s
        if elapsed_s < limit_s + KILL_AFTER_S:
            return False
        cpu_s = child.cpu_s() - exchange.cpu_s
        if cpu_s < limit_s and elapsed_s < STARVED_AFTER_S:
            return False
        self._bury(Death(child.kill(), overdue=True, cpu_s=cpu_s))
        return True

    def _bury(self, death: Death) -> None:
        """The child is dead. What it ran is taken apart; the batches go on in another child."""
        lost = self._forget_child()
        for exchange in lost[1:]:
            exchange.job.give_back(exchange.segment)
        for exchange in lost[:1]:
            if not exchange.job.crashed:
                exchange.job.crashed = True
                self.crash_events += 1
            if exchange.rehearsed:
                self._rehearsals.failed(exchange.job.script)
            exchange.job.take_death(exchange.segment, death, exchange.traced)

    def _forget_child(self) -> list[_Exchange]:
        """The segments that the child had."""
        lost, self._child, self._waiting = self._with_child(), None, None
        self._sent.clear()
        self._asking.clear()
        for exchange in lost:
            if exchange.answer is not None:
                exchange.answer.cancel()
        return lost

    # ---- children and scripts ----

    def _replace(self) -> bool:
        """Take a child from the pool as soon as one is ready."""
        child = self._pool.take(self._scripts)
        if child is None:
            return False
        if self._catch_up(child):
            self._child = child
            self._measured_s, self._is_large = float("-inf"), False
        return True

    def _catch_up(self, child: LockedChild) -> bool:
        """Load the scripts that came after the child's start."""
        try:
            for number in self._scripts:
                if number not in child.scripts:
                    self._reload(child, number)
        except Died:
            return False
        return True

    def _ready_child(self) -> LockedChild:
        while self._child is None:
            if not self._replace():
                self._pool.wait(_PAUSE_S)
        return self._child

    def _load_first(self, number: int, program: Program) -> None:
        """Load a new script. One that ends its process twice is at fault itself."""
        died: Died | None = None
        for _ in range(2):
            try:
                return self._load(self._ready_child(), number, program)
            except Died as error:
                died, self._child = error, None
        raise ScriptRefused(f"The script can't be loaded: its top level ends its process ({died}).")

    def _reload(self, child: LockedChild, number: int) -> None:
        """Load a script that was accepted before. One that took too long says that the machine is busy: child dies."""
        error = child.load(number, self._scripts[number])
        if error is not None and error.error == "Timeout":
            raise Died(child.kill())
        if error is not None:
            raise SandboxFailed(f"A script that was accepted before is refused: {refused(error).detail}")

    def _load(self, child: LockedChild, number: int, program: Program) -> None:
        error = child.load(number, program)
        if error is not None:
            raise refused(error)

    def _clean(self, child: LockedChild, number: int) -> None:
        """After a script was stopped: what it keeps in variables may be half done, and it may hold much memory."""
        if child.resident_bytes() > RECYCLE_ABOVE_BYTES:
            child.kill()
            self._child = None
        else:
            self._reload(child, number)

    def _recycle(self, child: LockedChild) -> None:
        """Between batches, swap a child that has grown for the spare: promises that a script makes are never freed."""
        if not self._with_child() and self._must_go(child):
            self._recycled_s = self._clock()
            child.kill()
            self._child = None

    def _must_go(self, child: LockedChild) -> bool:
        now = self._clock()
        if now - self._measured_s >= MEASURE_EVERY_S:
            self._measured_s, self._is_large = now, child.resident_bytes() > RECYCLE_ABOVE_BYTES
        return self._is_large and now - self._recycled_s >= RECYCLE_INTERVAL_S and self._pool.ready()

    def pause(self, timeout_s: float) -> None:
        """Wait for whatever the first batch waits for."""
        if self._child is None:
            self._pool.wait(timeout_s)
        elif self._waiting is not None and self._waiting.answer is not None:
            wait([self._waiting.answer], min(timeout_s, _LATE_S))
        elif self._sent:
            running = self._sent[0]
            left_s = running.began_s + running.limit_s + KILL_AFTER_S - self._clock()
            self._child.wait(min(timeout_s, max(0.05, left_s)))
        elif self._asking and self._asking[0].answer is not None:
            wait([self._asking[0].answer], timeout_s)
