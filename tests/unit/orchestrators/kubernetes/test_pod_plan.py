"""Plans of the Kubernetes orchestrator, carried out on pretended Pods in every order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.worker_protocol import Heartbeat
from headwater.model.worker_report import WorkerReport
from headwater.orchestrators.kubernetes.manifests import pod_name
from headwater.orchestrators.kubernetes.observed_pod import ObservedPod
from headwater.orchestrators.kubernetes.pod_plan import (
    CreatePod,
    DeletePod,
    JoinGroup,
    PodAction,
    PromotePod,
    StopWorker,
    WantedSet,
    plan_rollout,
    plan_teardown,
)
from headwater.orchestrators.kubernetes.settings import PodSettings, PodTemplate

CREATED_AT = datetime(2026, 1, 1, tzinfo=UTC)
MAX_UPDATES = 2


class Cluster:
    """Pods whose workers do at once what they are asked to.

    Attributes:
        pods: The Pods by name.
        reports: The reports by uid.
        members: The slots of the workers that are in the consumer group.
        left: The slots whose workers have left the group for good.
        updating: The slots that the last plan updates.
    """

    def __init__(self) -> None:
        self.pods: dict[str, ObservedPod] = {}
        self.reports: dict[str, WorkerReport] = {}
        self.members: list[int] = []
        self.left: list[int] = []
        self.updating: frozenset[int] = frozenset()
        self._uids = 0

    def plan(self, wanted: WantedSet | None) -> list[PodAction]:
        pods = list(self.pods.values())
        if wanted is None:
            return list(plan_teardown(pods, self.reports))
        rollout = plan_rollout(wanted, pods, self.reports, max_updates=MAX_UPDATES)
        self.updating = rollout.updating
        return rollout.actions

    def carry_out(self, wanted: WantedSet | None, action: PodAction) -> None:
        match action:
            case CreatePod():
                assert wanted is not None
                self._create(wanted, action)
            case StopWorker(pod, leave_group):
                self._report(pod, has_ended=True)
                self.members.remove(pod.slot)
                if leave_group:
                    self.left.append(pod.slot)
            case DeletePod(pod):
                report = self.reports.pop(pod.uid, None)
                if report is not None and report.may_join and not report.has_ended:
                    self.members.remove(pod.slot)
                self.pods.pop(pod.name)
            case PromotePod(pod):
                self.pods[pod.name] = replace(pod, is_worker=True)
            case JoinGroup(pod):
                self._report(pod, may_join=True, state="ready")
                self.pods[pod.name] = replace(pod, is_ready=True)
                self.members.append(pod.slot)
        assert sorted(self.members) == sorted(set(self.members)), "two workers of one slot are members"

    def _create(self, wanted: WantedSet, action: CreatePod) -> None:
        name = pod_name(wanted.id, action.slot, wanted.spec_hash, wanted.template_hash)
        assert name not in self.pods
        self._uids += 1
        pod = ObservedPod(
            name=name,
            uid=str(self._uids),
            worker_set_id=wanted.id,
            slot=action.slot,
            spec_hash=wanted.spec_hash,
            template_hash=wanted.template_hash,
            is_worker=action.is_worker,
            is_running=True,
            created_at=CREATED_AT + timedelta(seconds=self._uids),
        )
        self.pods[name] = pod
        self._report(pod)

    def _report(
        self, pod: ObservedPod, *, state: str = "prepared", may_join: bool | None = None, has_ended: bool = False
    ) -> None:
        last = self.reports.get(pod.uid)
        joined = may_join if may_join is not None else last is not None and last.may_join
        self.reports[pod.uid] = WorkerReport(
            version=1,
            heartbeat=Heartbeat(state=state, spec_hash=pod.spec_hash),
            quiet_s=0,
            may_join=joined,
            has_ended=has_ended,
            lines=[],
            next_line=0,
        )

    def settle(self, wanted: WantedSet | None) -> None:
        """Carry out all actions until there are none."""
        for _ in range(200):
            actions = self.plan(wanted)
            if not actions:
                return
            for action in actions:
                if isinstance(action, CreatePod) or self.pods.get(action.pod.name) == action.pod:
                    self.carry_out(wanted, action)
        raise AssertionError("the plan does not come to an end")

    def running(self) -> dict[int, str]:
        """Return the spec of the member in each slot."""
        return {pod.slot: pod.spec_hash for pod in self._members()}

    def templates(self) -> dict[int, str]:
        """Return the template of the member in each slot."""
        return {pod.slot: pod.template_hash for pod in self._members()}

    def _members(self) -> list[ObservedPod]:
        joined = [pod for pod in self.pods.values() if self.reports[pod.uid].may_join]
        return [pod for pod in joined if pod.is_worker]


def wanted(spec_hash: str, slots: int = 2, template_hash: str = "t1") -> WantedSet:
    return WantedSet("d1", slots, spec_hash, template_hash)


def test_a_first_rollout_creates_workers_that_join() -> None:
    cluster = Cluster()
    assert cluster.plan(wanted("a")) == [CreatePod(0, is_worker=True), CreatePod(1, is_worker=True)]
    cluster.settle(wanted("a"))
    assert cluster.running() == {0: "a", 1: "a"}
    assert cluster.plan(wanted("a")) == []


def test_no_worker_stops_before_all_successors_are_prepared() -> None:
    cluster = Cluster()
    cluster.settle(wanted("a"))
    first, second = cluster.plan(wanted("b"))
    cluster.carry_out(wanted("b"), first)
    assert cluster.plan(wanted("b")) == [second]
    cluster.carry_out(wanted("b"), second)
    stops = cluster.plan(wanted("b"))
    assert [type(action) for action in stops] == [StopWorker, StopWorker]
    assert not any(action.leave_group for action in stops if isinstance(action, StopWorker))


def test_the_running_set_cancels_a_replacement() -> None:
    cluster = Cluster()
    cluster.settle(wanted("a"))
    for action in cluster.plan(wanted("b")):
        cluster.carry_out(wanted("b"), action)
    assert {type(action) for action in cluster.plan(wanted("a"))} == {DeletePod}
    cluster.settle(wanted("a"))
    assert cluster.running() == {0: "a", 1: "a"}
    assert cluster.members == [0, 1]


def test_surplus_workers_leave_the_group_last() -> None:
    cluster = Cluster()
    cluster.settle(wanted("a", 3))
    cluster.settle(wanted("b", 1))
    assert cluster.running() == {0: "b"}
    assert sorted(cluster.left) == [1, 2]


def test_a_change_of_size_alone_keeps_the_pods_that_stay() -> None:
    cluster = Cluster()
    cluster.settle(wanted("a", 2))
    before = dict(cluster.pods)
    cluster.settle(wanted("a", 4))
    assert cluster.running() == dict.fromkeys(range(4), "a")
    cluster.settle(wanted("a", 1))
    assert cluster.running() == {0: "a"}
    assert sorted(cluster.left) == [1, 2, 3]
    assert cluster.pods == {name: pod for name, pod in before.items() if pod.slot == 0}


def test_a_worker_that_does_not_answer_is_deleted() -> None:
    cluster = Cluster()
    cluster.settle(wanted("a", 1))
    (pod,) = cluster.pods.values()
    cluster.reports.clear()
    cluster.plan(None)
    assert cluster.plan(None) == [DeletePod(pod)]


def test_an_evicted_pod_is_replaced() -> None:
    cluster = Cluster()
    cluster.settle(wanted("a", 1))
    (pod,) = cluster.pods.values()
    cluster.pods[pod.name] = replace(pod, has_failed=True, is_running=False)
    assert [type(action) for action in cluster.plan(wanted("a", 1))] == [DeletePod]


def test_outdated_workers_are_updated_a_few_at_a_time() -> None:
    cluster = Cluster()
    cluster.settle(wanted("a", 5))
    updated = wanted("a", 5, "t2")
    assert cluster.plan(updated) == [CreatePod(0, is_worker=False), CreatePod(1, is_worker=False)]
    for _ in range(100):
        actions = cluster.plan(updated)
        assert len(cluster.updating) <= MAX_UPDATES
        if not actions:
            break
        for action in actions:
            if isinstance(action, StopWorker):
                (successor,) = [
                    pod for pod in cluster.pods.values() if pod.slot == action.pod.slot and pod != action.pod
                ]
                assert cluster.reports[successor.uid].heartbeat == Heartbeat(state="prepared", spec_hash="a")
        cluster.carry_out(updated, actions[-1])
    assert cluster.templates() == dict.fromkeys(range(5), "t2")
    assert cluster.left == []


def test_a_successor_that_does_not_become_prepared_stops_the_updates() -> None:
    cluster = Cluster()
    cluster.settle(wanted("a", 3))
    for action in cluster.plan(wanted("a", 3, "t2")):
        cluster.carry_out(wanted("a", 3, "t2"), action)
    cluster.reports = {pod.uid: cluster.reports[pod.uid] for pod in cluster.pods.values() if pod.is_worker}
    assert cluster.plan(wanted("a", 3, "t2")) == []
    cluster.settle(wanted("a", 3))
    assert (cluster.templates(), cluster.members) == (dict.fromkeys(range(3), "t1"), [0, 1, 2])


def test_a_worker_that_is_not_ready_after_its_update_stops_the_updates() -> None:
    cluster = Cluster()
    cluster.settle(wanted("a", 3))
    updated = wanted("a", 3, "t2")
    while "t2" not in cluster.templates().values():
        cluster.carry_out(updated, cluster.plan(updated)[-1])
    (name,) = [pod.name for pod in cluster.pods.values() if pod.is_ready and pod.template_hash == "t2"]
    cluster.pods[name] = replace(cluster.pods[name], is_ready=False)
    cluster.settle(updated)
    assert sorted(cluster.templates().values()) == ["t1", "t1", "t2"]


def test_a_lost_outdated_pod_is_replaced_by_a_worker_at_once() -> None:
    cluster = Cluster()
    cluster.settle(wanted("a", 4))
    (name,) = [pod.name for pod in cluster.pods.values() if pod.slot == 3]
    cluster.pods.pop(name)
    cluster.members.remove(3)
    assert (
        CreatePod(3, is_worker=True)
        in plan_rollout(wanted("a", 4, "t2"), list(cluster.pods.values()), cluster.reports, max_updates=0).actions
    )


def test_replaced_files_update_each_worker_once() -> None:
    old, new = (PodTemplate(PodSettings("headwater:1"), files_hash).hash for files_hash in ("old CA", "new CA"))
    cluster = Cluster()
    cluster.settle(wanted("a", 5, old))
    cluster.settle(wanted("a", 5, new))
    assert cluster.templates() == dict.fromkeys(range(5), new)
    assert cluster.left == []
    assert cluster.plan(wanted("a", 5, new)) == []


wanted_sets = st.none() | st.builds(wanted, st.sampled_from("abc"), st.integers(1, 3), st.sampled_from(["t1", "t2"]))
last_sets = st.builds(wanted, st.sampled_from("ad"), st.integers(1, 5), st.sampled_from(["t1", "t3"]))


@settings(deadline=None)
@given(data=st.data(), changes=st.lists(wanted_sets, min_size=1, max_size=5), last=last_sets)
def test_every_order_of_actions_and_changes_ends_with_the_wanted_workers(
    data: st.DataObject, changes: list[WantedSet | None], last: WantedSet
) -> None:
    cluster = Cluster()
    for goal in changes:
        for _ in range(data.draw(st.integers(0, 6))):
            actions = cluster.plan(goal)
            if actions:
                cluster.carry_out(goal, data.draw(st.sampled_from(actions)))
    cluster.settle(last)
    assert cluster.running() == dict.fromkeys(range(last.slots), last.spec_hash)
    assert cluster.templates() == dict.fromkeys(range(last.slots), last.template_hash)
    assert sorted(cluster.members) == list(range(last.slots))
    cluster.settle(None)
    assert cluster.pods == {}
    assert cluster.members == []
