import signal
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from headwater.native import BytesColumn
from headwater.sandbox.results import Results
from headwater.sandbox.script_batch import (
    CPU_LIMIT_S,
    LONE_RUN_LIMITS_MS,
    MAX_SEGMENT_BYTES,
    NOT_RUN,
    SEGMENT_LIMIT_MS,
    ChildDeath,
    Mode,
    ScriptBatch,
    Segment,
)
from tests.support.sandbox import batch, lines

CRASH = ChildDeath(-signal.SIGTRAP)
FOREIGN_KILL = ChildDeath(-signal.SIGKILL)
VIOLATION = ChildDeath(-signal.SIGKILL, protocol_error="an error line has an unexpected form")
OVERDUE = ChildDeath(-signal.SIGKILL, overdue=True, cpu_s=1.0)
STARVED = ChildDeath(-signal.SIGKILL, overdue=True)
BUSY_S, IDLE_S = CPU_LIMIT_S * 1.5, CPU_LIMIT_S / 10


def results(
    outputs: Sequence[bytes],
    *,
    interrupted: bool = False,
    slow: Sequence[int] = (),
    unfinished: Sequence[int] = (),
    logs: Sequence[str] = (),
) -> Results:
    need_no_checks = not (slow or unfinished) and not any(line.startswith(b"!") for line in outputs)
    has_multiple_outputs = any(b"\t" in line for line in outputs)
    return Results(
        len(outputs),
        interrupted,
        [*slow],
        [*unfinished],
        BytesColumn.of(outputs),
        [*logs],
        need_no_checks,
        has_multiple_outputs,
    )


def job_of(count: int) -> ScriptBatch:
    return ScriptBatch(batch(lines(*({"n": n} for n in range(count)))), 0)


def take(job: ScriptBatch) -> Segment:
    segment = job.pending
    assert segment is not None
    job.mark_sent(segment)
    return segment


def shape(job: ScriptBatch) -> list[tuple[list[int], Mode]]:
    shapes = []
    while job.pending is not None:
        segment = take(job)
        shapes.append(([*segment.rows], segment.mode))
    return shapes


def alone(job: ScriptBatch) -> Segment:
    """Return the first segment of a batch whose record 0 is a suspect."""
    job.apply_results(take(job), results([], interrupted=True), IDLE_S)
    return take(job)


class TestSegments:
    def test_a_batch_is_one_segment(self) -> None:
        job = job_of(3)
        segment = take(job)
        assert ([*segment.rows], segment.mode, segment.limit_ms) == ([0, 1, 2], Mode.NORMAL, SEGMENT_LIMIT_MS)
        job.apply_results(segment, results([b"{}", b"", b'{"n":2}']), IDLE_S)
        assert job.outputs == [b"{}", b"", b'{"n":2}']
        assert shape(job) == []

    def test_an_empty_batch_has_no_segments(self) -> None:
        assert job_of(0).pending is None

    def test_a_large_batch_is_cut_by_bytes(self) -> None:
        big = b'{"x":"%s"}' % (b"x" * (MAX_SEGMENT_BYTES // 2))
        job = ScriptBatch(batch([b"{}", big, big, big * 3, b"{}"]), 0)
        assert [rows for rows, _ in shape(job)] == [[0, 1], [2], [3], [4]]

    def test_records_that_are_not_utf8_are_skipped(self) -> None:
        job = ScriptBatch(batch([b"{}", None, b"\xff", b'{"a":\n1}', b'{"a":"\n"}', b"[1]"]), 0)
        assert [rows for rows, _ in shape(job)] == [[0, 3, 5]]
        assert {row: error.error for row, error in job.failures.items()} == dict.fromkeys((1, 2, 4), "InvalidJSON")

    def test_the_payload_has_columns_and_records_of_its_rows(self) -> None:
        head, text = job_of(4).payload(Segment([1, 3]))
        records = bytes(text).split(b"\n")
        columns, long = map(msgspec.json.decode, head.splitlines())
        assert columns["offsets"] == [[1001, 1002], [1, 2]]  # and the row's number on top
        assert columns["partitions"] == [[1], [2]]
        assert long == [2]
        assert records == [b'{"n":1}', b'{"n":3}']

    def test_records_of_a_script_are_not_validated(self) -> None:
        records = batch([b' {"a":12345678901234567890e0}', b'{"a":12345678901234567890}'])
        script_batch = ScriptBatch(replace(records, may_have_bigint_marks=True), 0)
        assert script_batch.payload(Segment(range(2)))[0].splitlines()[1] == b"[2]"
        assert script_batch.payload(Segment([1]))[0].splitlines()[1] == b"[1]"
        assert ScriptBatch(records, 0).payload(Segment(range(2)))[0].splitlines()[1] == b"[2,0,[6],1,[5]]"

    def test_flags_have_the_writer_of_records_and_the_reader_of_outputs(self) -> None:
        records = batch([b"{}"])
        script_batch = [ScriptBatch(replace(records, may_have_bigint_marks=source), 0, feeds_script=feeds_script).flags
                for source in (False, True) for feeds_script in (False, True)]  # fmt: skip
        assert script_batch == [0, 8, 4, 12]

    @pytest.mark.parametrize(
        ("sizes", "message"),
        [
            ([1_000_000] * 8, None),
            ([1_000_001], "larger than 1,000,000 bytes"),
            ([1_000_000] * 8 + [1], "larger than 8,000,000 bytes together"),
        ],
    )
    def test_outputs_have_room(self, sizes: list[int], message: str | None) -> None:
        job = job_of(1)
        line = b"\t".join(b"x" * size for size in sizes)
        job.apply_results(take(job), replace(results([line]), need_no_checks=False), IDLE_S)
        assert [error.error for error in job.failures.values()] == (["OutputTooLarge"] if message else [])
        assert message is None or message in job.failures[0].message

    def test_marks_do_not_count_to_the_size(self) -> None:
        records = batch([b"{}"])
        line = b' {"a":1e0,"b":"' + b"x" * 999_986 + b'"}'
        for feeds_script, is_error in ((True, False), (False, True)):
            job = ScriptBatch(records, 0, feeds_script=feeds_script)
            job.apply_results(take(job), replace(results([line]), need_no_checks=False), IDLE_S)
            assert bool(job.failures) is is_error


class TestTime:
    def test_an_interrupted_record_runs_alone_and_others_continue(self) -> None:
        job = job_of(5)
        job.apply_results(take(job), results([b"{}", b"{}"], interrupted=True), IDLE_S)
        assert shape(job) == [([2], Mode.ALONE), ([3, 4], Mode.NORMAL)]

    def test_a_too_large_result_continues_without_rejection(self) -> None:
        job = job_of(5)
        job.apply_results(take(job), results([b"{}", b"{}"]), IDLE_S)
        assert shape(job) == [([2, 3, 4], Mode.NORMAL)]

    def test_a_slow_record_runs_again_alone(self) -> None:
        job = job_of(3)
        job.apply_results(take(job), results([b"{}", b"{}", b"{}"], slow=[1]), IDLE_S)
        assert shape(job) == [([1], Mode.ALONE)]

    def test_a_record_that_is_fast_alone_is_accepted(self) -> None:
        job = job_of(1)
        assert not job.apply_results(alone(job), results([b"{}"]), IDLE_S)
        assert ([*job.outputs], job.failures, shape(job)) == ([b"{}"], {}, [])

    def test_two_slow_runs_alone_reject_a_record(self) -> None:
        job = job_of(1)
        assert not job.apply_results(alone(job), results([], interrupted=True), BUSY_S)
        again = take(job)
        assert again.limit_ms == LONE_RUN_LIMITS_MS[0]
        assert job.apply_results(again, results([b"{}"]), BUSY_S)
        assert job.failures[0].error == "Timeout"
        assert job.outputs == [b""]
        assert shape(job) == []

    def test_a_rejected_slow_record_has_no_output(self) -> None:
        job = job_of(1)
        job.apply_results(take(job), results([b"{}"], slow=[0]), IDLE_S)
        for _ in range(2):
            job.apply_results(take(job), results([b"{}"]), BUSY_S)
        assert ([*job.outputs], job.failures[0].error) == ([b""], "Timeout")

    @pytest.mark.parametrize("end", [CRASH, VIOLATION])
    def test_a_slow_record_that_then_kills_loses_its_output(self, end: ChildDeath) -> None:
        job = job_of(2)
        job.apply_results(take(job), results([b"{}", b"{}"], slow=[1]), IDLE_S)
        while job.pending is not None:
            job.apply_death(take(job), end, None)
        assert ([*job.outputs], [*job.failures]) == ([b"{}", b""], [1])

    @pytest.mark.parametrize(
        ("first", "then", "output"),
        [
            (b"{}", b'!"UnknownDataset","too many",0,0', b""),
            (b'!"UnknownDataset","too many",0,0', b"{}", b"{}"),
        ],
    )
    def test_the_last_run_of_a_slow_record_counts(self, first: bytes, then: bytes, output: bytes) -> None:
        job = job_of(1)
        job.apply_results(take(job), results([first], slow=[0]), IDLE_S)
        job.apply_results(take(job), results([then]), IDLE_S)
        assert job.outputs == [output]
        assert [*job.failures] == ([] if output else [0])

    def test_no_record_is_rejected_on_a_busy_machine(self) -> None:
        job = job_of(1)
        segment = alone(job)
        limits = []
        for _ in range(6):
            limits.append(segment.limit_ms)
            assert not job.apply_results(segment, results([], interrupted=True), IDLE_S)
            segment = take(job)
        assert limits == [75, 300, 1200, 2000, 10000, 10000]
        assert not job.failures

    def test_log_lines_of_a_slow_record_are_kept_once(self) -> None:
        job = job_of(1)
        job.apply_results(take(job), results([b"{}"], slow=[0], logs=["hello"]), IDLE_S)
        job.apply_results(take(job), results([b"{}"], logs=["hello"]), IDLE_S)
        assert job.logs == ["hello"]

    def test_log_lines_of_all_segments_are_bounded_together(self) -> None:
        job = job_of(2)
        job.apply_results(take(job), results([b"{}"], interrupted=True, logs=["first"] * 160), IDLE_S)
        job.apply_results(take(job), results([b"{}"], logs=["second"] * 160), IDLE_S)
        assert job.logs == ["first"] * 160 + ["second"] * 40


class TestDeath:
    def test_the_batch_runs_again_traced(self) -> None:
        job = job_of(3)
        job.apply_death(take(job), CRASH, None)
        assert shape(job) == [([0, 1, 2], Mode.TRACED)]

    def test_the_record_that_was_traced_last_runs_alone_and_first(self) -> None:
        job = job_of(5)
        job.apply_death(Segment(range(5), Mode.TRACED), CRASH, 2)
        assert shape(job)[:3] == [([2], Mode.ALONE), ([0, 1], Mode.NORMAL), ([3, 4], Mode.TRACED)]

    @pytest.mark.parametrize("traced", [None, 99])
    def test_without_a_trace_the_segment_is_halved(self, traced: int | None) -> None:
        job = job_of(0)
        job.apply_death(Segment([4, 5, 6], Mode.TRACED), CRASH, traced)
        assert shape(job) == [([4], Mode.TRACED), ([5, 6], Mode.TRACED)]
        job.apply_death(Segment([4], Mode.TRACED), CRASH, traced)
        assert shape(job) == [([4], Mode.ALONE)]

    @pytest.mark.parametrize("end", [CRASH, OVERDUE])
    def test_one_death_in_a_shared_child_rejects_no_record(self, end: ChildDeath) -> None:
        job = job_of(2)
        job.apply_results(take(job), results([b"{}", b"{}"], slow=[1]), IDLE_S)
        job.apply_death(take(job), end, None)
        assert not job.failures
        job.apply_results(take(job), results([b"[1]"]), IDLE_S)
        assert ([*job.outputs], job.failures, shape(job)) == ([b"{}", b"[1]"], {}, [])

    @pytest.mark.parametrize(("end", "error"), [(CRASH, "SandboxCrash"), (OVERDUE, "Timeout")])
    def test_a_death_alone_after_a_traced_death_rejects_the_record(self, end: ChildDeath, error: str) -> None:
        job = job_of(1)
        job.apply_death(Segment(range(1), Mode.TRACED), end, 0)
        suspect = job.pending
        assert suspect is not None
        assert suspect.limit_ms == LONE_RUN_LIMITS_MS[0]
        job.apply_death(suspect, end, None)
        assert job.failures[0].error == error

    def test_starving_under_a_trace_is_no_evidence(self) -> None:
        job = job_of(1)
        job.apply_death(Segment(range(1), Mode.TRACED), STARVED, 0)
        assert job.pending is not None
        assert job.pending.deaths == 0

    def test_two_deaths_alone_reject_the_record(self) -> None:
        job = job_of(1)
        job.apply_death(alone(job), CRASH, None)
        job.apply_death(take(job), CRASH, None)
        assert job.failures[0].error == "SandboxCrash"
        assert "SIGTRAP" in job.failures[0].message
        assert shape(job) == []

    @pytest.mark.parametrize("accident", [STARVED, FOREIGN_KILL, ChildDeath(-signal.SIGTERM)])
    @pytest.mark.parametrize(("end", "error"), [(CRASH, "SandboxCrash"), (OVERDUE, "Timeout")])
    def test_an_accident_before_is_no_evidence(self, accident: ChildDeath, end: ChildDeath, error: str) -> None:
        job = job_of(1)
        job.apply_death(alone(job), accident, None)
        job.apply_death(take(job), end, None)
        assert not job.failures
        job.apply_death(take(job), end, None)
        assert job.failures[0].error == error

    def test_breaking_the_protocol_alone_rejects_the_record(self) -> None:
        job = job_of(1)
        job.apply_death(alone(job), VIOLATION, None)
        assert job.failures[0].error == "SandboxCrash"
        assert (
            "the sandbox ended the script's process (an error line has an unexpected form)" in job.failures[0].message
        )

    def test_the_third_external_kill_rejects_the_record(self) -> None:
        job = job_of(1)
        segment = alone(job)
        for _ in range(2):
            job.apply_death(segment, FOREIGN_KILL, None)
            assert not job.failures
            segment = take(job)
        job.apply_death(segment, FOREIGN_KILL, None)
        assert job.failures[0].error == "OutOfMemory"

    def test_a_requested_end_rejects_no_record(self) -> None:
        job = job_of(1)
        segment = alone(job)
        for _ in range(5):
            job.apply_death(segment, ChildDeath(-signal.SIGTERM), None)
            assert not job.failures
            segment = take(job)

    def test_an_uninterruptible_record_is_a_timeout(self) -> None:
        job = job_of(1)
        job.apply_death(alone(job), OVERDUE, None)
        job.apply_death(take(job), OVERDUE, None)
        assert job.failures[0].error == "Timeout"

    def test_a_child_without_cpu_rejects_no_record(self) -> None:
        job = job_of(1)
        segment = alone(job)
        for _ in range(5):
            job.apply_death(segment, STARVED, None)
            segment = take(job)
        assert not job.failures


class TestMaxOutputBytes:
    def test_rows_after_the_limit_do_not_run(self) -> None:
        job = ScriptBatch(batch(lines(*({"n": n} for n in range(6)))), 0, max_batch_output_bytes=100)
        first = take(job)
        job.apply_results(first, results([b'"%b"' % (b"x" * 60)] * 2), IDLE_S)
        assert job.pending is None
        assert [*job.outputs][:2] == [b'"%b"' % (b"x" * 60)] * 2
        assert job.failures == dict.fromkeys(range(2, 6), NOT_RUN)

    def test_slow_rows_that_would_run_again_do_not_run_either(self) -> None:
        job = ScriptBatch(batch(lines({"n": 0}, {"n": 1})), 0, max_batch_output_bytes=100)
        job.apply_results(take(job), results([b'"%b"' % (b"x" * 200), b"1"], slow=[0]), IDLE_S)
        assert job.pending is None
        assert job.failures == {0: NOT_RUN}

    def test_a_smaller_batch_runs_completely(self) -> None:
        job = ScriptBatch(batch(lines({"n": 0}, {"n": 1})), 0, max_batch_output_bytes=100)
        job.apply_results(take(job), results([b"1"]), IDLE_S)
        job.apply_results(take(job), results([b"2"]), IDLE_S)
        assert ([*job.outputs], job.failures) == ([b"1", b"2"], {})
