"""The reading plans of a slot after out-of-memory history.

tests/unit/engine/test_partition_isolation.py tests the workers.
"""

from headwater.model.reading_plan import READ_ALL, IsolationStatus, PartitionPosition, ReadingPlan
from headwater.orchestrators.oom_history import REPEATED_WITHIN_S, OomHistory

BAD = PartitionPosition(1, 7)


def reading_alone(position: PartitionPosition) -> IsolationStatus:
    return IsolationStatus(isolated=position)


def test_two_consecutive_deaths_and_a_single_one() -> None:
    history = OomHistory()
    assert not history.record_kill("a", None, 0.0)
    assert history.reading_plan("a") == READ_ALL
    assert not history.record_kill("a", None, 5.0)
    assert history.reading_plan("a") == ReadingPlan(isolates_partitions=True)
    assert not history.record_kill("a", reading_alone(BAD), 9.0)
    assert history.reading_plan("a") == ReadingPlan(isolates_partitions=True, quarantined=(BAD,))
    history.on_isolation_status("a", IsolationStatus(is_over=True, quarantined=[BAD]))
    assert history.reading_plan("a") == ReadingPlan(quarantined=(BAD,))
    history.on_isolation_status("a", IsolationStatus(is_over=True))
    assert history.reading_plan("a") == READ_ALL


def test_a_death_long_after_the_last_one_counts_as_the_first() -> None:
    history = OomHistory()
    history.record_kill("a", None, 0.0)
    history.record_kill("a", None, REPEATED_WITHIN_S)
    assert history.reading_plan("a") == READ_ALL


def test_another_spec_dies_from_its_predecessors_excluded_partition() -> None:
    history = OomHistory()
    history.record_kill("a", reading_alone(BAD), 0.0)
    assert history.reading_plan("b") == ReadingPlan(isolates_partitions=True)
    assert history.record_kill("b", reading_alone(BAD), 1.0)
    assert history.reading_plan("b") == ReadingPlan(isolates_partitions=True, quarantined=(BAD,))
    assert not history.record_kill("b", reading_alone(PartitionPosition(1, 8)), 2.0)


def test_another_spec_dies_from_another_slots_excluded_partition() -> None:
    history = OomHistory()
    history.set_quarantined_in_any_slot([BAD])
    assert history.reading_plan("b") == ReadingPlan(isolates_partitions=True)
    assert history.record_kill("b", reading_alone(BAD), 1.0)
