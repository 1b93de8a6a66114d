"""Children that break the protocol, or end during a load.

Only an attacker in the child can break the protocol.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from headwater.errors import InvalidScript, SandboxFailed
from headwater.sandbox import Sandbox
from headwater.sandbox.analysed_script import AnalysedScript
from headwater.sandbox.child import ChildExited
from headwater.sandbox.dry_runs import DRY_RUN_REALM_BIT
from headwater.sandbox.frames import Frame, Kind
from headwater.sandbox.results import ScriptFailure
from tests.support.sandbox import batch, lines

AnswerFunction = Callable[[Kind, bytes], list[Frame]]


class Child:
    """A child with given answers."""

    pid = 0

    def __init__(self, answer: AnswerFunction) -> None:
        self.loaded_realms: set[int] = set()
        self.is_dead = False
        self._answer = answer
        self._frames: deque[Frame] = deque()

    def load(self, number: int, _script: AnalysedScript) -> ScriptFailure | None:
        self.loaded_realms.add(number)
        return None

    def send(self, kind: Kind, *payload: bytes) -> None:
        self._frames += self._answer(kind, b"".join(payload))

    def receive(self) -> Frame | None:
        return self._frames.popleft() if self._frames else None

    def wait(self, timeout_s: float) -> None:
        pass

    def is_alive(self) -> bool:
        return not self.is_dead

    def cpu_s(self) -> float:
        return 0.0

    def resident_bytes(self) -> int:
        return 0

    def kill(self) -> int:
        self.is_dead = True
        return -9


class LoadingChild(Child):
    """A child that loads scripts with the given results. A timeout kills the child."""

    def __init__(self, results: Iterator[ScriptFailure | ChildExited | None]) -> None:
        super().__init__(echo)
        self._results = results

    def load(self, number: int, script: AnalysedScript) -> ScriptFailure | None:
        if self.is_dead:
            raise ChildExited(-9)
        result = next(self._results)
        if isinstance(result, ChildExited):
            self.is_dead = True
            raise result
        if result is not None:
            self.kill()
        return result


class RefusingChild(Child):
    """A child in which the top level of each script fails."""

    def load(self, number: int, script: AnalysedScript) -> ScriptFailure | None:
        return ScriptFailure("TypeError", "x is not a function")


class SlowDryRunChild(Child):
    """A child in which a script's top level takes too much CPU time in the dry-run realm."""

    def load(self, number: int, script: AnalysedScript) -> ScriptFailure | None:
        if number & DRY_RUN_REALM_BIT:
            self.kill()
            return ScriptFailure("Timeout", "slow")
        return super().load(number, script)

    def send(self, kind: Kind, *payload: bytes) -> None:
        if self.is_dead:
            raise ChildExited(-9)
        super().send(kind, *payload)


class Pool:
    """Return the given children one after the other."""

    def __init__(self, children: Iterator[Child]) -> None:
        self._children = children

    def take(self, _scripts: object) -> Child | None:
        return next(self._children, None)

    def is_ready(self) -> bool:
        return False

    def wait(self, timeout_s: float) -> None:
        pass

    def close(self) -> None:
        pass


def echo(kind: Kind, payload: bytes) -> list[Frame]:
    """A correct child, whose script returns its input."""
    assert kind is Kind.SEGMENT
    records = payload.split(b"\n")[2:]
    return results(b"".join(record + b"\n" for record in records), b"%d 0 0  " % len(records))


def results(text: bytes, summary: bytes) -> list[Frame]:
    return [Frame(Kind.RESULTS, text), Frame(Kind.SUMMARY, summary)]


def sandbox(monkeypatch: pytest.MonkeyPatch, answers: Callable[[], Iterator[AnswerFunction]]) -> Sandbox:
    sandbox = Sandbox(spare=False)
    sandbox._starter.close()
    monkeypatch.setattr(sandbox, "_starter", Pool(Child(answer) for answer in answers()))
    return sandbox


def breach(*frames: Frame) -> Callable[[], Iterator[AnswerFunction]]:
    """The first child gives these answers to its first batch; later children are correct."""

    def answers() -> Iterator[AnswerFunction]:
        yield lambda *_: list(frames)
        while True:
            yield echo

    return answers


@pytest.mark.parametrize(
    "frames",
    [
        results(b"!bad\n{}\n{}\n", b"3 0 0  "),
        results(b"{}\n", b"3 0 0  "),
        [Frame(Kind.SUMMARY, b"3 0 0  ")],
        [Frame(Kind.LOOKUP_REQUEST, b"[1]")],
        [Frame(Kind.TRACE, b"9" * 5000)],
        [Frame(Kind.TRACE, b"1"), Frame(Kind.TRACE, b"1")],
        [Frame(Kind.TRACE, b"3")],
        [Frame(Kind.HELLO, b"")],
        [Frame(Kind.HARNESS_ERROR, b"why")],
    ],
)
def test_an_invalid_reply_loses_no_record(monkeypatch: pytest.MonkeyPatch, frames: list[Frame]) -> None:
    with sandbox(monkeypatch, breach(*frames)) as broken_sandbox:
        number = broken_sandbox.add("", lambda request: [None for _ in request])
        records = lines({"n": 1}, {"n": 2}, {"n": 3})
        jobs = [broken_sandbox.submit(number, batch(records)) for _ in range(3)]
        for job in jobs:
            broken_sandbox.wait(job)
            assert ([*job.outputs], job.failures) == (records, {})
        assert broken_sandbox.crashed_batches == 1
        assert [job.crashed for job in jobs] == [True, False, False]


def test_a_record_that_always_breaks_the_protocol_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(kind: Kind, payload: bytes) -> list[Frame]:
        return results(b"!bad\n", b"1 0 0  ") if b'{"n":2}' in payload else echo(kind, payload)

    def answers() -> Iterator[AnswerFunction]:
        while True:
            yield answer

    with sandbox(monkeypatch, answers) as broken_sandbox:
        job = broken_sandbox.submit(
            broken_sandbox.add("", lambda request: []), batch(lines({"n": 1}, {"n": 2}, {"n": 3}))
        )
        broken_sandbox.wait(job)
        assert [error.error for error in job.failures.values()] == ["SandboxCrash"]
        assert job.outputs == [b'{"n":1}', b"", b'{"n":3}']


def test_a_failure_of_the_harness_is_not_blamed_on_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers() -> Iterator[AnswerFunction]:
        while True:
            yield lambda *_: [Frame(Kind.HARNESS_ERROR, b"TypeError: x is undefined\n    at harness.js:1")]

    with sandbox(monkeypatch, answers) as broken_sandbox:
        job = broken_sandbox.submit(broken_sandbox.add("", lambda request: []), batch(lines({"n": 1})))
        broken_sandbox.wait(job)
        assert "(the harness failed: TypeError: x is undefined); if" in job.failures[0].message


def test_a_child_that_a_timeout_killed_does_not_count_as_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first script times out, which kills the child.

    The second one ends its process once, and then loads.
    """
    results = iter([ScriptFailure("Timeout", "slow"), ChildExited(-5), None])
    with Sandbox(spare=False) as sandbox:
        sandbox._starter.close()
        monkeypatch.setattr(sandbox, "_starter", Pool(LoadingChild(results) for _ in range(3)))
        with pytest.raises(InvalidScript, match="slow"):
            sandbox.add("", lambda request: [])
        assert sandbox.add("", lambda request: []) == 0


def sandbox_with(monkeypatch: pytest.MonkeyPatch, *children: Child) -> Sandbox:
    sandbox = Sandbox(spare=False)
    sandbox._starter.close()
    monkeypatch.setattr(sandbox, "_starter", Pool(iter(children)))
    return sandbox


@pytest.mark.parametrize("result", [ScriptFailure("Timeout", "slow"), ChildExited(-5)])
def test_another_child_replaces_a_spare_child_that_ends_while_it_loads_a_missing_script(
    monkeypatch: pytest.MonkeyPatch, result: ScriptFailure | ChildExited
) -> None:
    first, spare, third = (LoadingChild(iter(results)) for results in ([None], [result], [None]))
    with sandbox_with(monkeypatch, first, spare, third) as sandbox:
        number = sandbox.add("", lambda request: [])
        first.kill()
        sandbox._child = None
        job = sandbox.submit(number, batch(lines({"n": 1})))
        sandbox.wait(job)
        assert ([*job.outputs], job.failures, sandbox.crashed_batches) == (lines({"n": 1}), {}, 0)


def test_a_spare_child_that_refuses_an_accepted_script_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    first, spare, third = LoadingChild(iter([None])), RefusingChild(echo), LoadingChild(iter([None]))
    with sandbox_with(monkeypatch, first, spare, third) as sandbox:
        number = sandbox.add("", lambda request: [])
        first.kill()
        sandbox._child = None
        job = sandbox.submit(number, batch(lines({"n": 1})))
        with pytest.raises(SandboxFailed, match="refused"):
            sandbox.wait(job)
        assert spare.is_dead
        sandbox.wait(job)
        assert [*job.outputs] == lines({"n": 1})


def test_no_record_is_blamed_when_the_load_of_the_realm_for_dry_runs_kills_the_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modes: list[int] = []

    def echo_and_note_mode(kind: Kind, payload: bytes) -> list[Frame]:
        modes.append(payload[2] & 3)
        return echo(kind, payload)

    stateful = "let n = 0; function process(r) { n++; return flow.contains('a', [n]) ? r : null; }"
    with sandbox_with(monkeypatch, *(SlowDryRunChild(echo_and_note_mode) for _ in range(2))) as sandbox:
        number = sandbox.add(stateful, lambda request: [])
        records = lines(*({"n": n} for n in range(10)))
        job = sandbox.submit(number, batch(records))
        sandbox.wait(job)
        assert ([*job.outputs], job.crashed, sandbox.crashed_batches, modes) == (records, False, 0, [0])


def test_a_slow_record_is_measured_in_its_own_realm_when_a_second_realm_kills_the_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modes: list[int] = []
    times = itertools.count()

    def slow_at_first(kind: Kind, payload: bytes) -> list[Frame]:
        modes.append(payload[2] & 3)
        [text, summary] = echo(kind, payload)
        return [text, summary._replace(payload=b"1 0 0 0 ") if len(modes) == 1 else summary]

    stateful = "let n = 0; function process(r) { n++; return flow.contains('a', [n]) ? r : null; }"
    children = [SlowDryRunChild(slow_at_first) for _ in range(3)]
    for child in children:
        monkeypatch.setattr(child, "cpu_s", lambda: 0.06 * min(next(times), 1))
    with sandbox_with(monkeypatch, *children) as sandbox:
        number = sandbox.add(stateful, lambda request: [])
        job = sandbox.submit(number, batch(lines({"n": 0})))
        sandbox.wait(job)
        assert ([*job.outputs], job.crashed) == (lines({"n": 0}), False)
        assert len(modes) == 2


def test_a_realm_whose_measurement_was_interrupted_is_reloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    runs: list[int] = []
    times = itertools.count()

    class NotingChild(SlowDryRunChild):
        def load(self, number: int, script: AnalysedScript) -> ScriptFailure | None:
            loaded.append(number)
            return super().load(number, script)

    def slow_and_interrupted(kind: Kind, payload: bytes) -> list[Frame]:
        runs.append(len(loaded))
        [text, summary] = echo(kind, payload)
        if len(runs) == 1:
            return [text, summary._replace(payload=b"1 0 0 0 ")]
        return results(b"", b"0 1 0  ") if len(runs) <= 3 else [text, summary]

    stateful = "let n = 0; function process(r) { n++; return flow.contains('a', [n]) ? r : null; }"
    children = [NotingChild(slow_and_interrupted) for _ in range(3)]
    for child in children:
        monkeypatch.setattr(child, "cpu_s", lambda: next(times) * 0.06)
    with sandbox_with(monkeypatch, *children) as sandbox:
        number = sandbox.add(stateful, lambda request: [])
        for n in range(2):
            sandbox.wait(sandbox.submit(number, batch(lines({"n": n}))))
        last_measurement, next_record = runs[2:4]
        assert next_record > last_measurement


def test_a_lookup_request_before_the_last_response_breaks_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup_may_end = threading.Event()
    requests = [Frame(Kind.SYNC_LOOKUP_REQUEST, b'["a",["%d"]]' % n) for n in range(2)]

    def ask_twice(kind: Kind, payload: bytes) -> list[Frame]:
        return requests if kind is Kind.SEGMENT else results(b"{}\n", b"1 0 0  ")

    def echo_and_end_lookup(kind: Kind, payload: bytes) -> list[Frame]:
        lookup_may_end.set()
        return echo(kind, payload)

    with sandbox_with(monkeypatch, Child(ask_twice), Child(echo_and_end_lookup)) as sandbox:
        number = sandbox.add("", lambda request: [None for _ in request if not lookup_may_end.wait(1)])
        job = sandbox.submit(number, batch(lines({"n": 1})))
        sandbox.wait(job)
        assert ([*job.outputs], sandbox.crashed_batches) == (lines({"n": 1}), 1)
