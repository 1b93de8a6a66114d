"""Workers on a queue with random faults lose nothing and keep the order per ordering key.

Repeats occur only after failures.
"""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.examples import examples
from tests.support.memory.message_queue import LEASE_S
from tests.unit.engine.world import COPIES, DEAD, OUTPUTS, Member, QueueWorld, origin, without_repeats

KEYS = ["", "a", "b", "c"]
kinds = st.lists(st.sampled_from(sorted(COPIES)), min_size=1, max_size=8)


class QueueStory(RuleBasedStateMachine):
    """One to three workers on one subscription."""

    @initialize(max_queued=st.sampled_from([3, 1 << 30]), calm=st.booleans(), slowness=st.integers(0, 3))
    def begin(self, max_queued: int, calm: bool, slowness: int) -> None:
        self.calm = calm
        self.world = QueueWorld(max_queued)
        self.faults = self.world.faults
        self.faults.slowness = slowness
        self.members: list[Member] = [self.world.member()]
        self.fault_count = 0
        self.started = 1

    @rule(key=st.sampled_from(KEYS), kinds=kinds)
    def publish(self, key: str, kinds: list[str]) -> None:
        self.world.publish(key, *kinds)

    @rule(data=st.data(), steps=st.integers(1, 8), pace=st.sampled_from([0.0, 0.2, 1.1]))
    def work(self, data: Any, steps: int, pace: float) -> None:
        member = data.draw(st.sampled_from(self.members))
        for _ in range(steps):
            for other in self.members if self.calm else [member]:
                other.worker.run_once()
            self.faults.clock.sleep(pace)

    @precondition(lambda self: len(self.members) < 3)
    @rule()
    def another_worker(self) -> None:
        self.members.append(self.world.member(slot=len(self.members)))
        self.started += 1

    @rule(data=st.data())
    def redeploy(self, data: Any) -> None:
        """Stop a worker, and start its successor."""
        at = data.draw(st.integers(0, len(self.members) - 1))
        member = self.members[at]
        self.fault_count += not member.worker.finish()
        member.worker.close()
        self.members[at] = self.world.member(slot=member.slot)
        self.started += 1

    @rule()
    def pubsub_repeats(self) -> None:
        """Redeliver a message.

        A worker that has delivered it drops the repeat; another worker does not.
        """
        self.world.queue.redeliver_last()
        self.fault_count += self.started > 1

    @precondition(lambda self: not self.calm)
    @rule(data=st.data())
    def kill(self, data: Any) -> None:
        at = data.draw(st.integers(0, len(self.members) - 1))
        survivors = {partition: data.draw(st.integers(0, 10)) for partition in range(4)}
        self.members[at].producers[-1].die(survivors)
        self.members[at] = self.world.member(slot=self.members[at].slot)
        self.fault_count += 1

    @precondition(lambda self: not self.calm)
    @rule()
    def stand_still(self) -> None:
        """Sleep for longer than a lease.

        The worker that polls next gets the messages of the other workers.
        """
        self.faults.clock.sleep(LEASE_S + 1)
        self.fault_count += 1

    @precondition(lambda self: not self.calm)
    @rule()
    def reject(self) -> None:
        self.faults.rejections += 1
        self.fault_count += 1

    @precondition(lambda self: not self.calm)
    @rule(up=st.booleans())
    def set_store(self, up: bool) -> None:
        self.faults.store_up = up

    def teardown(self) -> None:
        self.faults.store_up, self.faults.rejections = True, 0
        for _ in range(400):
            for member in self.members:
                member.worker.run_once()
            self.faults.clock.sleep(0.5)
            if not len(self.world.queue):
                break
        for member in self.members:
            assert member.worker.finish()
            member.worker.close()
        assert not len(self.world.queue), "messages were never acknowledged"
        for topic in (*OUTPUTS, DEAD):
            self.check(topic)

    def check(self, topic: str) -> None:
        arrived = without_repeats(self.world.arrived(topic))
        owed = {key: self.owed(key, topic) for key in self.world.published}
        assert sorted(arrived) == sorted(id_ for ids in owed.values() for id_ in ids), "lost, or too much"
        for key, ids in owed.items():
            if key:
                assert [id_ for id_ in arrived if id_ in set(ids)] == ids, "out of order"
        if not self.fault_count:
            assert [origin(record) for record in self.world.arrived(topic)] == arrived, "repeated without a failure"

    def owed(self, key: str, topic: str) -> list[str]:
        outputs = COPIES if topic != DEAD else {kind: int(kind == "bad") for kind in COPIES}
        return [f"{id_}/{n}" for id_, kind in self.world.published[key] for n in range(outputs[kind.decode()])]


TestQueueStory = QueueStory.TestCase
TestQueueStory.settings = settings(
    max_examples=examples(150), stateful_step_count=30, suppress_health_check=list(HealthCheck)
)
