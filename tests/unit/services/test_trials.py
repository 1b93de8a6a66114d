"""Trials end within their limits of time and size."""

import itertools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import pytest

from headwater.errors import InvalidInput
from headwater.model.binding import Bindings
from headwater.model.flow import Flow
from headwater.model.record import Failure, RecordBatch, TransformResult
from headwater.model.transforms.v8 import V8Transform, ValidatedScript
from headwater.model.trial import NewTrial, Trial
from headwater.native import BytesColumn
from headwater.services.ids import new_id
from headwater.services.pipeline_checker import PipelineChecker
from headwater.services.samples import Samples
from headwater.services.trial_results import MAX_RESPONSE_BYTES
from headwater.services.trials import LONG_TIME_LIMIT_S, TIME_LIMIT_S, Trials, TrialStores
from headwater.transforms import TRANSFORMS
from headwater.transforms.base import DeferredBatch, PendingBatch, TransformContext
from headwater.transforms.transform_type import TransformType
from tests.support.memory.sets import MemoryDatasetNames, MemorySetStore
from tests.support.memory.topic_history import MemoryTopicHistory
from tests.support.sql import a_config, a_flow, fresh_database

TOPIC = "stream.base.log"
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.a", "set_values": ["x"]}
SCRIPT = {"type": "v8", "script": "function process(record) { return record; }"}
TOO_LARGE = {"type": "v8", "script": "function process(record) { return Array(1000).fill(record); }"}


class GrowingScript:
    """Replaces a v8 transform.

    Each output has 1 MB, and no batch has more than `max_batch_output_bytes` of outputs. The outputs of the script of
    TOO_LARGE are too large for each record.
    """

    uid = ""

    def __init__(self, config: V8Transform, context: TransformContext) -> None:
        is_too_large = config.script == TOO_LARGE["script"]
        self._max_batch_output_bytes = 0 if is_too_large else context.max_batch_output_bytes
        self.batch_sizes: list[int] = []

    def start(self, batch: RecordBatch) -> PendingBatch:
        return DeferredBatch(lambda: self._result(batch))

    def _result(self, batch: RecordBatch) -> TransformResult:
        assert self._max_batch_output_bytes is not None
        self.batch_sizes.append(len(batch))
        count = min(len(batch), self._max_batch_output_bytes // 1_000_000)
        output = batch.select([row < count for row in range(len(batch))])
        output.values = BytesColumn.of([b'"%b"' % (b"x" * 999_998)] * count)
        failures = [Failure(row, "NotRun", "too large", "", attempts=0) for row in range(count, len(batch))]
        return TransformResult(output, failures)

    def close(self) -> None: ...


def stream_of(count: int, value: bytes = b'{"a":"x"}') -> MemoryTopicHistory:
    history = MemoryTopicHistory()
    history.create(TOPIC, 2)
    for n in range(count):
        history.append(TOPIC, n % 2, 1000 + n, value)
    return history


def run(
    transforms: list[dict[str, Any]],
    values: list[bytes],
    *,
    clock: Callable[[], float] = lambda: 0.0,
    stream: MemoryTopicHistory | None = None,
    stored: Sequence[Flow] = (),
    **members: Any,
) -> Trial:
    database = fresh_database()
    for flow in stored:
        database.flows.create(flow)
    checker = PipelineChecker(
        bindings=Bindings(),
        validate_script=lambda _script, _example: ValidatedScript([]),
        transform_types=TRANSFORMS,
        new_id=new_id,
    )
    trials = Trials(
        stores=TrialStores(database.flows, database.deployments, database.revisions.get),
        samples=Samples(Bindings(), {None: stream or MemoryTopicHistory()}, lambda: 0.0),
        checker=checker,
        transform_types=TRANSFORMS | {"v8": TransformType(GrowingScript)},
        open_context=lambda _: nullcontext(TransformContext("", "alice", MemorySetStore(), MemoryDatasetNames())),
        now=lambda: datetime(2026, 1, 2, tzinfo=UTC),
        clock=clock,
    )
    sent = {
        "name": "trial",
        "pipeline_config": {
            "source": {"chain": "base", "entity": "log"},
            "transforms": transforms,
            "sinks": [{"type": "kafka", "name": "out"}],
        },
    }
    return trials.run("alice", NewTrial.model_validate(sent | members), values)


def every(seconds: float) -> Callable[[], float]:
    """Return a clock of which each read is some seconds later."""
    reads = itertools.count(0, seconds)
    return lambda: float(next(reads))


class TestTimeLimit:
    def test_records_after_the_time_limit_are_unfinished(self) -> None:
        trial = run([FILTER, FILTER], [b'{"a":"x"}'] * 3, clock=every(2))
        assert trial.records is not None
        assert [record.outcome for record in trial.records] == ["sent", "unfinished", "unfinished"]
        assert [len(record.steps) for record in trial.records] == [2, 0, 0]
        assert all(f"{TIME_LIMIT_S:.0f} s" in record.unfinished_reason for record in trial.records[1:])
        assert trial.done == 1

    def test_many_records_have_a_longer_limit_and_the_trial_says_how_many_were_done(self) -> None:
        trial = run([FILTER, FILTER], [], clock=every(2), stream=stream_of(300), sample={"last": 300})
        assert f"{LONG_TIME_LIMIT_S:.0f} s" in trial.unprocessed_reason
        assert trial.summary is not None
        assert 0 < trial.done < 300
        assert trial.summary.outcomes == {"sent": trial.done}

    def test_all_records_are_done_in_time(self) -> None:
        trial = run([FILTER], [], stream=stream_of(3000), sample={"last": 2500})
        assert (trial.done, trial.unprocessed_reason) == (2500, "")


class TestSizeLimit:
    def test_large_outputs_run_in_smaller_batches(self) -> None:
        trial = run([SCRIPT], [], stream=stream_of(300), sample={"last": 300}, detail="summary")
        assert trial.summary is not None
        assert (trial.done, trial.summary.outcomes) == (300, {"sent": 300})
        assert (trial.summary.transforms[0].received, trial.summary.transforms[0].errors) == (300, 0)
        assert trial.records is None

    @pytest.mark.parametrize("count", [2, 300])
    def test_too_large_outputs_of_the_other_revision_change_no_result(self, count: int) -> None:
        config = a_config(transforms=[TOO_LARGE | {"uid": "t1"}])
        stored = a_flow("0" * 26, "alice", pipeline_config=config)
        members: dict[str, Any] = {"id": stored.id, "against": 1, "sample": {"last": count}}
        trial = run([SCRIPT], [], stream=stream_of(count), stored=[stored], **members)
        assert (trial.summary is not None and trial.summary.outcomes) == {"sent": count}
        assert trial.records is not None
        assert (trial.records[0].unfinished_reason, len(trial.records[0].outputs)) == ("", 1)
        assert trial.comparison is not None
        assert (trial.done, trial.comparison.counts.total()) == (0, 0)
        assert (
            trial.unprocessed_reason
            == f"{count} records are not done: the outputs of each are larger than 16 MB together"
        )

    def test_a_large_response_shows_the_first_records_only(self) -> None:
        trial = run([SCRIPT], [], stream=stream_of(300), sample={"last": 300})
        assert trial.records is not None
        assert trial.done == 300
        *shown, last = trial.records
        assert 0 < len(shown) < MAX_RESPONSE_BYTES // 1_000_000
        assert all(len(record.outputs) == len(record.steps) == 1 for record in shown)
        assert (last.outcome, last.outputs) == ("unfinished", [])

    def test_the_sample_is_bounded_and_says_so(self) -> None:
        stream = stream_of(40, b'"%b"' % (b"x" * 999_998))
        trial = run([], [], stream=stream, sample={"last": 40})
        assert (len(trial.sample.records), trial.done) == (16, 16)
        assert "16 MB" in trial.sample.reason


class TestSample:
    def test_a_stream_without_a_topic_has_no_records(self) -> None:
        trial = run([FILTER], [], sample={"last": 5})
        assert (trial.sample.records, trial.records) == ([], [])
        assert trial.summary is not None
        assert [totals.received for totals in trial.summary.transforms] == [0]
        assert "no topic yet" in trial.sample.reason

    @pytest.mark.parametrize(
        ("sample", "offsets"),
        [
            ({"last": 3}, [(1, 3), (0, 4), (1, 4)]),
            ({"from": "1970-01-01T00:00:01.007Z", "count": 2}, [(1, 3), (0, 4)]),
            ({"positions": ["1/2", "0/0", "1/2", "1/77"]}, [(1, 2), (0, 0)]),
        ],
    )
    def test_the_records_that_are_read(self, sample: dict[str, Any], offsets: list[tuple[int, int]]) -> None:
        trial = run([FILTER], [], stream=stream_of(10), sample=sample)
        assert [record.position for record in trial.sample.records] == offsets
        assert trial.done == len(offsets)

    def test_positions_in_unknown_partitions(self) -> None:
        with pytest.raises(InvalidInput) as error:
            run([FILTER], [], stream=stream_of(2), sample={"positions": ["0/0", "7/0"]})
        assert [fault.pointer for fault in error.value.faults] == ["/sample/positions/1"]

    def test_missing_positions_are_named(self) -> None:
        trial = run([FILTER], [], stream=stream_of(2), sample={"positions": ["0/0", "1/9"]})
        assert trial.sample.reason.startswith("1 records were not read (1/9)")
