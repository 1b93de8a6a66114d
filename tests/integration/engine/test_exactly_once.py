"""With exactly-once delivery, a consumer sees each result once although workers are killed.

The consumer reads committed records.
"""

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.model.transforms.v8 import V8Transform
from tests.integration.engine.harness import Pipeline, check_copy, origins
from tests.support.kafka import KafkaServer
from tests.support.waiting import until

SCRIPT = """
function process(record) {
  if (record.n % 50 === 7) throw new TypeError("no");
  return record;
}"""


def numbered(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"n": n, "pad": "x" * 300} for n in range(start, stop)]


class Feeder:
    """Feeds records until the end of the block, and counts them."""

    PER_CALL = 200

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.count = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        stop = threading.Event()

        def feed() -> None:
            while not stop.wait(0.01):
                self._pipeline.feed(numbered(self.count, self.count + self.PER_CALL))
                self.count += self.PER_CALL

        thread = threading.Thread(target=feed)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def check_once(pipeline: Pipeline, count: int, *, dead: Callable[[int], bool] = lambda n: False) -> None:
    """Assert that each record is once among the results or the dead letters, in order."""
    assert check_copy(pipeline, [r for r in numbered(0, count) if not dead(r["n"])], repeats=False) == 0
    letters = origins(pipeline.records(pipeline.dead))
    assert len(letters) == len(set(letters)) == sum(map(dead, range(count)))


def kills(pipeline: Pipeline, seed: int, rounds: int) -> int:
    """Kill a worker repeatedly while records flow. Return the number of records."""
    draw, fed = random.Random(seed), Feeder(pipeline)
    with fed():
        for _ in range(rounds):
            with pipeline.watch_sink() as came, pipeline.worker() as worker:
                came()
                time.sleep(draw.uniform(0, 0.6))
                worker.kill()
    with pipeline.worker() as worker:
        pipeline.wait_committed(fed.count)
        assert worker.terminate() == 0
    return fed.count


class TestKill:
    @pytest.mark.slow
    def test_results_and_dead_letters(self, kafka: KafkaServer, tmp_path: Path) -> None:
        transforms = [V8Transform(uid="t1", type="v8", script=SCRIPT)]
        pipeline = Pipeline(kafka, tmp_path, transforms, delivery="exactly_once")
        check_once(pipeline, kills(pipeline, seed=1, rounds=4), dead=lambda n: n % 50 == 7)

    @pytest.mark.slow
    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("seed", range(3))
    def test_many_times(self, kafka: KafkaServer, tmp_path: Path, seed: int) -> None:
        pipeline = Pipeline(kafka, tmp_path, delivery="exactly_once")
        check_once(pipeline, kills(pipeline, seed, rounds=30))

    @pytest.mark.slow
    def test_of_one_worker_of_two(self, kafka: KafkaServer, tmp_path: Path) -> None:
        """Partitions are assigned and revoked while transactions are open."""
        pipeline = Pipeline(kafka, tmp_path, delivery="exactly_once")
        fed = Feeder(pipeline)
        with pipeline.worker(0) as first:
            first.ready()
            with fed():
                for _ in range(2):
                    with pipeline.worker(1) as second:
                        second.wait(lambda beat: beat.committed_batches > 0)
                        second.kill()
                with pipeline.worker(1) as second:
                    second.wait(lambda beat: beat.committed_batches > 0)
                    assert second.terminate() == 0
            pipeline.wait_committed(fed.count)
            assert first.terminate() == 0
        check_once(pipeline, fed.count)


class TestPlannedChanges:
    @pytest.mark.slow
    def test_a_worker_continues_after_one_with_the_other_delivery_mode(
        self, kafka: KafkaServer, tmp_path: Path
    ) -> None:
        pipeline = Pipeline(kafka, tmp_path)
        fed = Feeder(pipeline)
        with fed():
            for mode in ("at_least_once", "exactly_once", "exactly_once", "at_least_once"):
                pipeline.spec = pipeline.spec.model_copy(update={"delivery": mode})
                with pipeline.worker() as worker:
                    worker.wait(lambda beat: beat.committed_batches > 0)
                    assert worker.terminate() == 0
        with pipeline.worker() as worker:
            pipeline.wait_committed(fed.count)
            assert worker.terminate() == 0
        check_once(pipeline, fed.count)


class TestZombie:
    @pytest.mark.slow
    def test_a_stopped_and_replaced_worker_writes_nothing_more(self, kafka: KafkaServer, tmp_path: Path) -> None:
        pipeline = Pipeline(kafka, tmp_path, delivery="exactly_once")
        fed = Feeder(pipeline)
        with fed(), pipeline.worker() as zombie:
            zombie.wait(lambda beat: beat.committed_batches > 0)
            zombie.send(signal.SIGSTOP)
            with pipeline.worker() as successor:
                successor.wait(lambda beat: beat.committed_batches > 0)
                zombie.send(signal.SIGCONT)
                assert zombie.exit_status() == 1
                assert "another worker" in pipeline.log().lower()
                done = pipeline.committed()
                until(lambda: pipeline.committed() > done, what="progress of the successor")
                assert successor.terminate() == 0
        with pipeline.worker() as worker:
            pipeline.wait_committed(fed.count)
            assert worker.terminate() == 0
        check_once(pipeline, fed.count)

    @pytest.mark.slow
    def test_a_worker_that_is_stopped_for_longer_than_its_transaction_timeout(
        self, kafka: KafkaServer, tmp_path: Path
    ) -> None:
        pipeline = Pipeline(kafka, tmp_path, delivery="exactly_once")
        fed = Feeder(pipeline)
        with pipeline.worker() as worker:
            with fed():
                for _ in range(3):
                    done = pipeline.committed()
                    until(lambda: pipeline.committed() > done, what="progress")  # noqa: B023
                    worker.send(signal.SIGSTOP)
                    time.sleep(20)
                    worker.send(signal.SIGCONT)
            pipeline.wait_committed(fed.count)
            assert worker.terminate() == 0
        check_once(pipeline, fed.count)
