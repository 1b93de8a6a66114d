"""Workers with random faults lose nothing, keep the order, and commit correctly.

Repeats occur only after failures.

With exactly-once delivery nothing is repeated: at any time the outputs match the committed offsets.

Records that were deleted before they were read are missing only if a worker has reported it.

Each record is counted at most once, and is not counted only if a worker ended while the metric store was unavailable.
"""

import contextlib
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.engine.partition_isolation import RETRY_AFTER_S
from headwater.model.reading_plan import PartitionPosition, ReadingPlan
from tests.examples import examples
from tests.unit.engine.faults import Killed
from tests.unit.engine.world import COPIES, DEAD, OUTPUTS, SOURCE, Member, World, origin, without_repeats, word

PARTITIONS = 3
partitions = st.integers(0, PARTITIONS - 1)
kinds = st.lists(st.sampled_from(sorted(COPIES)), min_size=1, max_size=12)


class WorkerStory(RuleBasedStateMachine):
    """One or two workers of a group.

    With each fault, `allowed` grows by the number of records that it may repeat.
    """

    exactly_once = False

    @initialize(max_queued=st.sampled_from([3, 1 << 30]), calm=st.booleans(), slowness=st.integers(0, 4))
    def begin(self, max_queued: int, calm: bool, slowness: int) -> None:
        self.calm = calm
        self.world = World(PARTITIONS, max_queued, exactly_once=self.exactly_once)
        self.faults = self.world.faults
        self.faults.on_rejection = self.fault
        self.faults.slowness = slowness
        self.members: list[Member] = [self.world.member()]
        self.allowed = 0
        self.bounded = True
        self.moved = self.metrics_were_away = False

    def uncommitted(self) -> int:
        """Return how many records have arrived, are queued or in flight, and are not committed."""
        committed = self.world.group.committed
        records = [record for name in (*OUTPUTS, DEAD) for record in self.world.arrived(name)]
        arrived = sum(int(origin(record).split("/")[2]) >= committed[record.partition] for record in records)
        queued = sum(len(producer.queue) for member in self.members for producer in member.producers)
        in_flight = sum(len(batch.input) for member in self.members for batch in member.worker._batches)
        return arrived + queued + in_flight * 2 * len(OUTPUTS)

    def fault(self) -> None:
        self.allowed += self.uncommitted()

    def rebalance(self) -> None:
        """A rebalance repeats nothing unless it times out."""
        self.moved = True
        self.bounded &= self.faults.store_up and self.faults.acks_per_flush > 100 and not self.faults.rejections

    def step(self, member: Member, data: Any) -> Member:
        """Make a step. Return the member, or its successor if the step has killed it."""
        try:
            member.worker.run_once()
        except Killed:
            return self.kill(member, data)
        return member

    def kill(self, member: Member, data: Any) -> Member:
        """Kill a worker: some of its queued records still arrive.

        Start its successor, perhaps with a ReadingPlan.
        """
        self.fault()
        self.rebalance()
        survivors = {p: data.draw(st.integers(0, 20)) for p in range(PARTITIONS)}
        member.producers[-1].die(survivors)
        self.world.group.remove(member.source)
        successor = self.world.member(slot=member.slot, reading_plan=self.reading_plan(data))
        self.members[self.members.index(member)] = successor
        return successor

    def reading_plan(self, data: Any) -> ReadingPlan:
        """Generate a plan: all partitions, or each alone first, possibly with quarantined ones."""
        quarantined = data.draw(st.sets(partitions)) if data.draw(st.booleans()) else ()
        positions = tuple(PartitionPosition(p, self.world.group.committed[p]) for p in quarantined)
        return ReadingPlan(data.draw(st.booleans()), positions)

    @rule(partition=partitions, kinds=kinds)
    def append(self, partition: int, kinds: list[str]) -> None:
        self.world.append(partition, *kinds)

    @rule(data=st.data(), steps=st.integers(1, 8), pace=st.sampled_from([0.0, 0.2, 1.1]))
    def work(self, data: Any, steps: int, pace: float) -> None:
        member = data.draw(st.sampled_from(self.members))
        for _ in range(steps):
            member = self.step(member, data)
            self.faults.clock.sleep(pace)

    @rule(data=st.data(), batches=st.lists(kinds, min_size=1, max_size=4), pace=st.sampled_from([0.0, 0.2, 1.1]))
    def traffic(self, data: Any, batches: list[list[str]], pace: float) -> None:
        member = data.draw(st.sampled_from(self.members))
        for batch in batches:
            self.world.append(data.draw(partitions), *batch)
            member = self.step(member, data)
            self.faults.clock.sleep(pace)

    @precondition(lambda self: not self.calm)
    @rule(partition=partitions, kept=st.integers(0, 6))
    def retention(self, partition: int, kept: int) -> None:
        """Delete all but the last records of a partition."""
        self.world.source.delete_records(partition, self.world.source.ends[partition] - kept)

    @precondition(lambda self: not self.calm)
    @rule(data=st.data())
    def crash(self, data: Any) -> None:
        self.kill(data.draw(st.sampled_from(self.members)), data)

    @precondition(lambda self: not self.calm)
    @rule()
    def crash_between_metrics_and_commit(self) -> None:
        self.faults.killed_at_commit = True

    @precondition(lambda self: not self.calm)
    @rule(steps=st.integers(1, 8), pace=st.sampled_from([0.0, 0.2, 1.1]))
    def suspended_while_it_writes_metrics(self, steps: int, pace: float) -> None:
        """End the session of the worker.

        Another worker takes over before the write arrives.
        """
        killed_at_commit = self.faults.killed_at_commit

        def taken_over() -> None:
            self.fault()
            self.rebalance()
            for member in self.members:
                self.world.group.remove(member.source)
            successor = self.world.member(slot=1 + max(member.slot for member in self.members))
            self.members.append(successor)
            self.faults.killed_at_commit = False
            for _ in range(steps):
                successor.worker.run_once()
                self.faults.clock.sleep(pace)
            self.faults.killed_at_commit = killed_at_commit

        self.faults.at_write = taken_over

    @precondition(lambda self: not self.calm)
    @rule(data=st.data())
    def session_ends(self, data: Any) -> None:
        """End a worker's session: its partitions move to other workers before the worker knows."""
        self.fault()
        self.rebalance()
        self.world.group.remove(data.draw(st.sampled_from(self.members)).source)

    @precondition(lambda self: len(self.members) == 1)
    @rule()
    def second_worker_joins(self) -> None:
        self.rebalance()
        self.members.append(self.world.member(slot=1 + self.members[0].slot))

    @precondition(lambda self: len(self.members) >= 2)
    @rule(data=st.data())
    def one_worker_leaves(self, data: Any) -> None:
        self.rebalance()
        member = data.draw(st.sampled_from(self.members))
        member.worker.stop()
        try:
            self.bounded &= member.worker.finish()
        except Killed:
            self.kill(member, data)
        else:
            self.members.remove(member)
            member.worker.close()

    @precondition(lambda self: not self.calm)
    @rule()
    def reject(self) -> None:
        self.faults.rejections = 1

    @precondition(lambda self: not self.calm)
    @rule(up=st.booleans())
    def set_store(self, up: bool) -> None:
        self.faults.store_up = up

    @rule(up=st.sampled_from([True, False, None]))
    def metric_store(self, up: bool | None) -> None:
        self.faults.metrics_up = up
        self.metrics_were_away |= not up

    @precondition(lambda self: not self.calm)
    @rule(acks=st.sampled_from([0, 2, 1 << 30]))
    def acknowledgements(self, acks: int) -> None:
        self.faults.acks_per_flush = acks or 1
        self.bounded &= acks > 100

    @invariant()
    def commits_pass_only_records_that_have_arrived(self) -> None:
        if not hasattr(self, "world"):
            return
        arrived = {name: set(map(origin, self.world.arrived(name))) for name in (*OUTPUTS, DEAD)}
        for partition, position in self.world.group.committed.items():
            for name, owed in self.world.expected(partition, position).items():
                assert set(self.world.owed(owed)) <= arrived[name], "a commit passed a record that has not arrived"

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.faults.store_up, self.faults.acks_per_flush, self.faults.rejections = True, 1 << 30, 0
        self.faults.metrics_up, self.faults.at_write, self.faults.killed_at_commit = True, None, False
        for turn in range(2000):
            if turn % 200 == 100:
                self.faults.clock.sleep(RETRY_AFTER_S)
            if self.world.group.committed == dict(enumerate(self.world.source.ends)) and self.all_written():
                break
            for member in self.members:
                member.worker.run_once()
        self.check_everything_arrived()
        self.check_repeats()
        self.check_counts()

    def all_written(self) -> bool:
        writers = [member.worker.metrics._writer for member in self.members]
        return not any(writer._pending or writer._unanswered for writer in writers)

    def check_counts(self) -> None:
        most, least = (self.counts(missing) for missing in (set(), self.world.may_be_missing()))
        counted = self.world.counted()
        assert counted <= most, "a record was counted twice"
        if not (self.moved and self.metrics_were_away):
            assert counted >= least

    def counts(self, missing: set[str]) -> Counter[str]:
        """Return the expected counts of all records but these."""
        rows = [(p, record) for p, records in enumerate(self.world.appended) for record in records]
        kinds = [word(record.value) for p, record in rows if f"{SOURCE}/{p}/{record.offset}" not in missing]
        return Counter(
            {
                "messages_received": len(kinds),
                "messages_sent": sum(COPIES[kind] for kind in kinds) * len(OUTPUTS),
                "processor_error": kinds.count("bad"),
            }
        )

    def check_everything_arrived(self) -> None:
        assert self.world.group.committed == dict(enumerate(self.world.source.ends))
        for partition in range(PARTITIONS):
            for name, owed in self.world.expected(partition, 1 << 60).items():
                got = without_repeats(r for r in self.world.arrived(name) if r.partition == partition)
                due = set(self.world.owed(owed))
                in_order = [each for each in owed if each in due | set(got)]
                assert sorted(got) == sorted(in_order)
                if name != DEAD:
                    self.check_order(got, in_order, due)

    def check_order(self, got: list[str], in_order: list[str], due: set[str]) -> None:
        """Check the order of the outputs of one partition.

        A worker that has lost a partition without noticing may still send records of it. If these records were deleted
        from the source, the next worker does not read them, so they may follow later records.
        """
        assert [each for each in got if each in due] == [each for each in in_order if each in due]
        assert [each for each in got if each not in due] == [each for each in in_order if each not in due]

    def check_repeats(self) -> None:
        repeats = sum(
            len(self.world.arrived(name)) - len(set(map(origin, self.world.arrived(name)))) for name in (*OUTPUTS, DEAD)
        )
        if self.bounded:
            assert repeats <= self.allowed


class ExactlyOnceStory(WorkerStory):
    """There are the same faults, and faults of transactions. No repeats are allowed."""

    exactly_once = True

    def check_order(self, got: list[str], in_order: list[str], due: set[str]) -> None:
        """Kafka fences a worker that has lost a partition."""
        assert got == in_order

    @precondition(lambda self: not self.calm)
    @rule()
    def lost_response(self) -> None:
        """Commit a transaction, but return an error to its producer."""
        self.faults.lost_responses = 1

    @precondition(lambda self: not self.calm)
    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0]))
    def slow_transactions(self, seconds: float) -> None:
        self.faults.transaction_s = seconds

    @rule(polls=st.integers(0, 6))
    def commits_that_take_some_steps(self, polls: int) -> None:
        self.faults.commit_polls = polls

    @precondition(lambda self: not self.calm)
    @rule(up=st.booleans())
    def coordinator(self, up: bool) -> None:
        self.faults.coordinator_up = up
        if not up:
            self.faults.clock.at(self.faults.clock.now + 20, lambda: self.coordinator(True))

    @precondition(lambda self: not self.calm)
    @rule(data=st.data(), steps=st.integers(0, 6), pace=st.sampled_from([0.0, 0.2, 1.1]))
    def zombie(self, data: Any, steps: int, pace: float) -> None:
        """Start a successor of a worker that still runs, as if it were dead."""
        self.rebalance()
        zombie = data.draw(st.sampled_from(self.members))
        self.world.group.remove(zombie.source)
        self.members[self.members.index(zombie)] = self.world.member(slot=zombie.slot)
        with contextlib.suppress(Killed):
            for _ in range(steps):
                zombie.worker.run_once()
                self.faults.clock.sleep(pace)
        zombie.producers[-1].die({})
        self.world.group.remove(zombie.source)

    @invariant()
    def outputs_are_those_of_the_committed_positions(self) -> None:
        if not hasattr(self, "world"):
            return
        for partition, position in self.world.group.committed.items():
            for name, owed in self.world.expected(partition, position).items():
                got = [origin(r) for r in self.world.arrived(name) if r.partition == partition]
                due = self.world.owed(owed)
                got_due = self.world.owed(got)
                assert got_due == due if name != DEAD else sorted(got_due) == sorted(due)

    def check_repeats(self) -> None:
        arrived = [(r.topic, origin(r)) for name in (*OUTPUTS, DEAD) for r in self.world.arrived(name)]
        assert len(arrived) == len(set(arrived))

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.faults.lost_responses, self.faults.transaction_s, self.faults.coordinator_up = 0, 0.0, True
        super().teardown()


SETTINGS = settings(
    max_examples=examples(100),
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)
TestWorkerStory = WorkerStory.TestCase
TestWorkerStory.settings = SETTINGS
TestExactlyOnceStory = ExactlyOnceStory.TestCase
TestExactlyOnceStory.settings = SETTINGS
