"""Starts of children whose scripts load slowly, end their process, or are refused."""

from collections.abc import Iterator, Sequence

import pytest

from headwater.errors import SandboxFailed
from headwater.sandbox.analysed_script import AnalysedScript
from headwater.sandbox.child import ChildExited, SandboxedChild
from headwater.sandbox.child_starter import ChildStarter
from headwater.sandbox.deno_command import DenoCommand
from headwater.sandbox.results import ScriptFailure

SCRIPTS = {0: AnalysedScript("")}
TIMEOUT = ScriptFailure("Timeout", "the top level of the script ran for more than 1 s")
LoadResult = ScriptFailure | ChildExited | None


class Child:
    """A child that loads a script with a given result."""

    def __init__(self, result: LoadResult) -> None:
        self._result = result
        self.killed = False

    def load(self, _realm_number: int, _script: AnalysedScript) -> ScriptFailure | None:
        if isinstance(self._result, ChildExited):
            raise self._result
        return self._result

    def is_alive(self) -> bool:
        return not self.killed

    def kill(self) -> int:
        self.killed = True
        return -9


@pytest.fixture
def starter() -> Iterator[ChildStarter]:
    starter = ChildStarter(DenoCommand((), 0, jit=False), keep_spare=False)
    yield starter
    starter.close()


def give(monkeypatch: pytest.MonkeyPatch, results: Sequence[LoadResult]) -> list[Child]:
    """Let the next children load their scripts with these results."""
    children = [Child(result) for result in results]
    remaining = iter(children)
    monkeypatch.setattr(SandboxedChild, "start", lambda _command: next(remaining))
    return children


def take(starter: ChildStarter) -> object:
    while (child := starter.take(SCRIPTS)) is None:
        starter.wait(5.0)
    return child


def test_a_load_that_times_out_on_a_busy_machine_is_no_failed_start(
    starter: ChildStarter, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = give(monkeypatch, [TIMEOUT, TIMEOUT, TIMEOUT, None])
    assert take(starter) is children[-1]
    assert [child.killed for child in children] == [True, True, True, False]


def test_loads_that_always_time_out_fail_at_last(starter: ChildStarter, monkeypatch: pytest.MonkeyPatch) -> None:
    children = give(monkeypatch, [TIMEOUT] * 50)
    with pytest.raises(SandboxFailed, match="took more than 1 s in 5 children in a row"):
        take(starter)
    assert sum(child.killed for child in children) == 15


@pytest.mark.parametrize(
    ("result", "message"),
    [(ScriptFailure("TypeError", "no"), "A script that was accepted before is refused"), (ChildExited(-5), "SIGTRAP")],
)
def test_three_failed_starts_fail(
    starter: ChildStarter, monkeypatch: pytest.MonkeyPatch, result: LoadResult, message: str
) -> None:
    give(monkeypatch, [result] * 3)
    with pytest.raises(SandboxFailed, match=message):
        take(starter)
