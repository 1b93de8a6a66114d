"""DeploymentWatcher: only polls that start after the call count."""

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime

import anyio
import pytest
from anyio import to_thread
from anyio.from_thread import BlockingPortal

from headwater.api.deployment_watcher import DeploymentWatcher
from headwater.errors import ApiStopping, DatabaseUnavailable
from headwater.model.deployment import Deployment, DeploymentProgress, DesiredPhase, Phase
from headwater.model.flow import PipelineConfig, Source
from headwater.model.sink import KafkaSink
from headwater.services.deployments import is_running

CONFIG_ID = "a-configuration"


class Polls:
    """Results of polls.

    The first poll waits until a test continues it, and returns an old result.
    """

    def __init__(self, *answers: DeploymentProgress | DatabaseUnavailable | None) -> None:
        self._answers = list(answers)
        self.began, self.go_on = threading.Event(), threading.Event()

    def __call__(self, asked: Collection[str]) -> Mapping[str, DeploymentProgress]:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if not self.began.is_set():
            self.began.set()
            self.go_on.wait(60)
        if isinstance(answer, DatabaseUnavailable):
            raise answer
        return {} if answer is None else dict.fromkeys(asked, answer)


def deployment(generation: int = 1) -> Deployment:
    return Deployment(
        id="d",
        config_id=CONFIG_ID,
        owner="alice",
        config=PipelineConfig(
            source=Source(type="pubsub", chain="base", entity="log"),
            transforms=[],
            sinks=[KafkaSink(type="kafka", name="a", uid="s")],
        ),
        desired=DesiredPhase.RUNNING,
        desired_revision=generation,
        generation=generation,
        reader_password="",
        worker_password="",
        created_at=datetime(2026, 1, 2, tzinfo=UTC),
    )


def running(generation: int) -> DeploymentProgress:
    return DeploymentProgress(
        "d", CONFIG_ID, DesiredPhase.RUNNING, generation, generation, Phase.RUNNING, generation, generation, 1, 1, ""
    )


async def wait_during_a_poll(
    polls: Polls, done: Callable[[DeploymentProgress | None], bool]
) -> list[DeploymentProgress | None]:
    """Wait for a configuration that another request waits for, during a poll.

    Returns the progress that `done` got.
    """
    seen_progress: list[DeploymentProgress | None] = []

    def noted(seen: DeploymentProgress | None) -> bool:
        seen_progress.append(seen)
        return done(seen)

    async with anyio.create_task_group() as tasks:
        watcher = DeploymentWatcher(polls)
        tasks.start_soon(watcher.run)
        tasks.start_soon(_ignore_errors, watcher)
        await to_thread.run_sync(polls.began.wait)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(watcher.wait_until, CONFIG_ID, noted, 20, "In progress.")
                await anyio.wait_all_tasks_blocked()
                polls.go_on.set()
        tasks.cancel_scope.cancel()
    return seen_progress


async def _ignore_errors(watcher: DeploymentWatcher) -> None:
    with contextlib.suppress(DatabaseUnavailable):
        await watcher.wait_until(CONFIG_ID, lambda _: False, 20, "In progress.")


@pytest.mark.parametrize("early", [running(1), None, DatabaseUnavailable("It is away.")])
def test_a_poll_from_before_the_call_does_not_count(
    portal: BlockingPortal, early: DeploymentProgress | DatabaseUnavailable | None
) -> None:
    seen_progress = portal.call(wait_during_a_poll, Polls(early, running(2)), lambda _: True)
    assert seen_progress == [running(2)]


def test_a_running_older_generation_does_not_count() -> None:
    assert not is_running(deployment(2), running(1))
    assert is_running(deployment(2), running(2))
    assert is_running(deployment(2), running(3))


async def wait_while_polls_fail(failures: int) -> tuple[list[str], str, str]:
    """One request waits while polls raise an unexpected error, and one after they work again.

    Returns the errors of the first request, and the loop's error before and after the second.
    """
    left = [failures]

    def read_progress(awaited: Collection[str]) -> Mapping[str, DeploymentProgress]:
        if left[0]:
            left[0] -= 1
            raise ZeroDivisionError
        return dict.fromkeys(awaited, running(1))

    errors = []
    async with anyio.create_task_group() as tasks:
        watcher = DeploymentWatcher(read_progress)
        tasks.start_soon(watcher.run)
        try:
            await watcher.wait_until(CONFIG_ID, lambda _: True, 20, "In progress.")
        except DatabaseUnavailable as error:
            errors.append(error.detail)
        before = watcher.poll_health.error
        with anyio.fail_after(30):
            while watcher.poll_health.error:  # noqa: ASYNC110  # also when nobody waits
                await anyio.sleep(0.01)
            await watcher.wait_until(CONFIG_ID, lambda _: True, 20, "In progress.")
        tasks.cancel_scope.cancel()
    return errors, before, watcher.poll_health.error


def test_an_unexpected_error_ends_no_watcher(portal: BlockingPortal) -> None:
    errors, before, after = portal.call(wait_while_polls_fail, 2)
    assert len(errors) == 1
    assert "Send the same request again" in errors[0]
    assert (before, after) == ("watching deployments: ZeroDivisionError", "")


async def _stopped_while_waiting() -> None:
    async with anyio.create_task_group() as tasks:
        watcher = DeploymentWatcher(lambda _: {})
        tasks.start_soon(watcher.run)
        tasks.start_soon(_stop_later, watcher)
        for _ in ("waits already", "begins to wait"):
            with anyio.fail_after(30), pytest.raises(ApiStopping):
                await watcher.wait_until(CONFIG_ID, lambda _: False, 20, "In progress.")
        tasks.cancel_scope.cancel()


async def _stop_later(watcher: DeploymentWatcher) -> None:
    await anyio.sleep(0.2)
    watcher.stop()


def test_waits_end_when_the_process_stops(portal: BlockingPortal) -> None:
    portal.call(_stopped_while_waiting)
