"""The plan of a reconciliation for each state, and that rounds converge from any state."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.controller.actions import (
    Action,
    ChangeReaderPassword,
    ChangeTopicSettings,
    EnsureWorkers,
    PrepareRevision,
    RemoveAll,
    RemovePrevious,
    RestorePositions,
    RewindPositions,
    SavePositions,
    StopWorkers,
    StoreObservation,
    SyncTopics,
    TopicSync,
)
from headwater.controller.deployment_resources import WorkerSettings, worker_set
from headwater.controller.plan import (
    MAX_DEATHS_BEFORE_READY,
    MAX_DEATHS_ON_PROBATION,
    READY_WITHIN_S,
    STABLE_AFTER_S,
    DesiredState,
    ObservedState,
    Plan,
    RevisionWorkers,
    WorkerProgress,
    fallback_of,
    plan,
    predecessor_of,
    roll_back_or_fail,
    target_of,
)
from headwater.model.access import KafkaAccess
from headwater.model.binding import KafkaTopic
from headwater.model.deployment import (
    Condition,
    DeployedRevision,
    Deployment,
    DesiredPhase,
    ObservedWorker,
    ObservedWorkerStatus,
    Phase,
)
from headwater.model.positions import GroupPositions, Rewind, StoredPositions
from headwater.model.rollout import apply_observation
from headwater.model.worker_spec import WorkerSet
from tests.unit.controller.world import TOPIC, deployment

NOW = 1_000.0
T0 = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = WorkerSettings(KafkaAccess(bootstrap_servers="b"), "redis", jit=False)
FIRST = replace(deployment(), observed_revision=None)
REVISION_1 = FIRST.desired_revision_record
RUNNING = replace(
    FIRST,
    phase=Phase.RUNNING,
    observed_revision=1,
    observed_generation=1,
    condition=Condition.STABLE,
    rollback_revision=1,
)
ROLLING = replace(
    RUNNING,
    desired_revision=2,
    generation=2,
    condition=Condition.ROLLING_OUT,
    previous_revisions=(REVISION_1,),
)
ON_PROBATION = replace(ROLLING, observed_revision=2, observed_generation=2)
STABLE_2 = replace(ON_PROBATION, condition=Condition.STABLE, rollback_revision=2)
ROLLED_BACK = replace(ROLLING, observed_generation=2, condition=Condition.ROLLED_BACK)
STORED = StoredPositions(groups={1: GroupPositions(topic=TOPIC, topic_id="id", offsets={0: 5})})
PAUSING = replace(RUNNING, desired=DesiredPhase.PAUSED, generation=2)
PAUSED = replace(PAUSING, phase=Phase.PAUSED, observed_generation=2, positions=STORED)
RESUMING = replace(ROLLING, generation=3, observed_generation=2, phase=Phase.PAUSED, positions=STORED)
RESTORED = replace(RESUMING, phase=Phase.PENDING, positions=StoredPositions())


def rewinding(of: Deployment) -> Deployment:
    """Return a deployment after a request to rewind."""
    generation = of.generation + 1
    return replace(of, generation=generation, rewind=Rewind(generation=generation, to="earliest", requested_at=T0))


def workers_of(of: Deployment, revision: DeployedRevision) -> WorkerSet:
    return worker_set(of, revision, KafkaTopic(TOPIC), SETTINGS)


def candidate(of: Deployment, revision: DeployedRevision | None) -> RevisionWorkers | None:
    return None if revision is None else RevisionWorkers(revision, workers_of(of, revision))


def desired(of: Deployment) -> DesiredState:
    target = candidate(of, target_of(of))
    assert target is not None
    return DesiredState(of, target, candidate(of, fallback_of(of)), candidate(of, predecessor_of(of)))


def status(of: WorkerSet, *, ready: bool = True, deaths: int = 0, waits: bool = False) -> ObservedWorker:
    return ObservedWorker(
        name="w",
        status=ObservedWorkerStatus.RUNNING,
        is_ready=ready,
        start_time=datetime(2026, 1, 1, tzinfo=UTC),
        spec_hash=of.spec_hash,
        deaths=deaths,
        waits=waits,
        reason="it broke" if deaths else "",
    )


def remembered(of: Deployment, **fields: float | None) -> WorkerProgress:
    values = {"not_ready_since": NOW, "has_synced_topics": True} | fields
    return WorkerProgress(generation=of.generation, revision=target_of(of).number, **values)  # type: ignore[arg-type]


def kinds(planned: Plan) -> list[type[Action]]:
    return [type(action) for action in planned.actions]


def recorded(planned: Plan) -> tuple[object, ...]:
    action = planned.actions[-1]
    assert isinstance(action, StoreObservation)
    return action.observed.phase, action.observed.observed_revision, action.observed.condition


OLD, NEW = workers_of(ROLLING, REVISION_1), workers_of(ROLLING, ROLLING.desired_revision_record)


@pytest.mark.parametrize(
    ("of", "observed", "expected"),
    [
        pytest.param(FIRST, ObservedState(NOW), [PrepareRevision, EnsureWorkers], id="a first deploy begins"),
        pytest.param(RUNNING, ObservedState(NOW), [EnsureWorkers], id="after a restart what ran is asked for"),
        pytest.param(
            ROLLING,
            ObservedState(NOW),
            [PrepareRevision, EnsureWorkers, EnsureWorkers],
            id="the predecessor comes back",
        ),
        pytest.param(
            ROLLING,
            ObservedState(NOW, workers=[status(OLD)]),
            [PrepareRevision, EnsureWorkers],
            id="the predecessor runs already",
        ),
        pytest.param(
            ROLLING,
            ObservedState(NOW, workers=[status(OLD)], progress=remembered(ROLLING)),
            [EnsureWorkers],
            id="the successors are asked for",
        ),
        pytest.param(
            ROLLING,
            ObservedState(
                NOW,
                workers=[status(OLD)],
                successors=[status(NEW, ready=False)],
                progress=remembered(ROLLING),
                is_second_plan=True,
            ),
            [],
            id="successors that prepare are waited for",
        ),
        pytest.param(
            ROLLING,
            ObservedState(NOW, workers=[status(NEW)], progress=remembered(ROLLING)),
            [ChangeTopicSettings, StoreObservation],
            id="ready workers are recorded",
        ),
        pytest.param(
            RUNNING,
            ObservedState(NOW, workers=[status(workers_of(RUNNING, REVISION_1))], progress=remembered(RUNNING)),
            [],
            id="a stable deployment is left alone",
        ),
        pytest.param(
            RUNNING,
            ObservedState(
                NOW,
                workers=[status(workers_of(RUNNING, REVISION_1))],
                progress=remembered(RUNNING),
                due_sync=TopicSync.SETTINGS,
            ),
            [SyncTopics],
            id="the topics of a stable deployment are synced when a comparison has found it necessary",
        ),
        pytest.param(
            RUNNING,
            ObservedState(
                NOW,
                workers=[status(workers_of(RUNNING, REVISION_1))],
                progress=remembered(RUNNING, has_synced_topics=False),
            ),
            [SyncTopics],
            id="the topics are synced when the generation is reconciled",
        ),
        pytest.param(
            ROLLING,
            ObservedState(
                NOW,
                workers=[status(NEW, ready=False)],
                progress=remembered(ROLLING, has_synced_topics=False),
                is_second_plan=True,
                due_sync=TopicSync.PARTITIONS_AND_SETTINGS,
            ),
            [],
            id="the topics are not synced during a rollout",
        ),
        pytest.param(
            ON_PROBATION,
            ObservedState(
                NOW, workers=[status(NEW)], progress=remembered(ON_PROBATION, ready_since=NOW - 1.0, startup_deaths=0)
            ),
            [],
            id="probation goes on",
        ),
        pytest.param(
            STABLE_2,
            ObservedState(NOW, workers=[status(NEW)], progress=remembered(STABLE_2, startup_deaths=0)),
            [RemovePrevious, StoreObservation],
            id="what only previous revisions had goes",
        ),
        pytest.param(
            replace(RUNNING, credentials_version=2),
            ObservedState(NOW),
            [ChangeReaderPassword, StoreObservation],
            id="new password",
        ),
        pytest.param(
            replace(RUNNING, phase=Phase.FAILED), ObservedState(NOW), [], id="what failed waits for another deploy"
        ),
        pytest.param(
            replace(RUNNING, desired=DesiredPhase.ABSENT),
            ObservedState(NOW, workers=[status(OLD)]),
            [StopWorkers, RemoveAll, StoreObservation],
            id="a teardown removes all in order",
        ),
        pytest.param(
            replace(ROLLING, unreadable_reason="why", credentials_version=2),
            ObservedState(NOW, workers=[status(OLD)]),
            [],
            id="what can't be read is left alone, its workers too",
        ),
        pytest.param(
            replace(RUNNING, unreadable_reason="why", desired=DesiredPhase.ABSENT),
            ObservedState(NOW, workers=[status(OLD)]),
            [StopWorkers, RemoveAll, StoreObservation],
            id="what can't be read is torn down all the same",
        ),
        pytest.param(
            PAUSING,
            ObservedState(NOW, workers=[status(OLD)]),
            [StopWorkers, SavePositions],
            id="a pause saves positions",
        ),
        pytest.param(
            replace(ROLLING, desired=DesiredPhase.PAUSED, generation=3),
            ObservedState(
                NOW, workers=[status(OLD)], successors=[status(NEW, ready=False)], progress=remembered(ROLLING)
            ),
            [StopWorkers, SavePositions],
            id="a pause ends a rollout",
        ),
        pytest.param(
            replace(ROLLED_BACK, desired=DesiredPhase.PAUSED, generation=3),
            ObservedState(NOW, workers=[status(OLD)]),
            [StopWorkers, SavePositions],
            id="a pause ends a rollback",
        ),
        pytest.param(
            replace(FIRST, desired=DesiredPhase.PAUSED, generation=2),
            ObservedState(NOW),
            [StopWorkers, SavePositions],
            id="a pause ends a first deploy",
        ),
        pytest.param(PAUSED, ObservedState(NOW), [], id="a paused deployment is left alone"),
        pytest.param(
            replace(PAUSED, credentials_version=2),
            ObservedState(NOW),
            [ChangeReaderPassword, StoreObservation],
            id="its readers get a new password",
        ),
        pytest.param(
            replace(PAUSED, desired=DesiredPhase.ABSENT, generation=3),
            ObservedState(NOW),
            [StopWorkers, RemoveAll, StoreObservation],
            id="it is torn down",
        ),
        pytest.param(
            rewinding(PAUSED), ObservedState(NOW), [StopWorkers, RewindPositions], id="it is rewound and stays paused"
        ),
        pytest.param(
            RESUMING, ObservedState(NOW), [StopWorkers, RestorePositions], id="a resume restores positions first"
        ),
        pytest.param(
            RESTORED,
            ObservedState(NOW),
            [PrepareRevision, EnsureWorkers],
            id="then it rolls out, without the revision that was paused",
        ),
        pytest.param(
            rewinding(RUNNING),
            ObservedState(NOW, workers=[status(OLD)]),
            [StopWorkers, RewindPositions],
            id="a rewind stops the workers",
        ),
        pytest.param(
            replace(rewinding(RUNNING), rewind=None, positions=STORED, phase=Phase.PENDING),
            ObservedState(NOW),
            [StopWorkers, RestorePositions],
            id="then it restores the moved positions",
        ),
        pytest.param(
            replace(rewinding(RUNNING), rewind=None, phase=Phase.PENDING),
            ObservedState(NOW),
            [EnsureWorkers],
            id="and starts the workers without a rollout",
        ),
        pytest.param(
            replace(PAUSING, desired=DesiredPhase.RUNNING, generation=3, condition=Condition.ROLLING_OUT),
            ObservedState(NOW, workers=[status(OLD)]),
            [PrepareRevision, EnsureWorkers],
            id="a deploy while pausing is a rollout",
        ),
        pytest.param(
            replace(RESUMING, phase=Phase.FAILED, condition=Condition.FAILED, observed_generation=3),
            ObservedState(NOW),
            [],
            id="positions that can't be restored wait for another request",
        ),
    ],
)
def test_table(of: Deployment, observed: ObservedState, expected: Sequence[type[Action]]) -> None:
    assert kinds(plan(desired(of), observed)) == expected


class TestRecorded:
    def test_a_revision_becomes_stable(self) -> None:
        progress = remembered(ON_PROBATION, ready_since=NOW - STABLE_AFTER_S, startup_deaths=0)
        planned = plan(desired(ON_PROBATION), ObservedState(NOW, workers=[status(NEW)], progress=progress))
        assert recorded(planned) == (Phase.RUNNING, 2, Condition.STABLE)

    def test_a_death_between_two_rounds_begins_probation_anew(self) -> None:
        progress = remembered(ON_PROBATION, ready_since=NOW - STABLE_AFTER_S, startup_deaths=0)
        planned = plan(desired(ON_PROBATION), ObservedState(NOW, workers=[status(NEW, deaths=1)], progress=progress))
        assert planned.actions == ()
        assert planned.progress is not None
        assert planned.progress.ready_since == NOW

    def test_late_workers_of_a_rollout_are_rolled_back(self) -> None:
        progress = remembered(ROLLING, not_ready_since=NOW - READY_WITHIN_S - 1)
        late = ObservedState(
            NOW,
            workers=[status(OLD)],
            successors=[status(NEW, ready=False)],
            progress=progress,
            is_second_plan=True,
        )
        planned = plan(desired(ROLLING), late)
        assert planned.actions[0] == EnsureWorkers(OLD)
        assert recorded(planned) == (Phase.RUNNING, 1, Condition.ROLLED_BACK)
        waiting = replace(late, successors=[status(NEW, ready=False, waits=True)])
        assert plan(desired(ROLLING), waiting).actions == ()

    @pytest.mark.parametrize(("slots", "allowed_s"), [(1, 50), (64, 239)])
    def test_many_workers_may_start_longer(self, slots: int, allowed_s: float) -> None:
        wanted = desired(FIRST)
        workers = replace(workers_of(FIRST, REVISION_1), slots=slots)
        wanted = replace(wanted, target=replace(wanted.target, worker_set=workers))
        for since, is_late in ((NOW - allowed_s, False), (NOW - allowed_s - 1, True)):
            seen = ObservedState(
                NOW,
                workers=[status(workers, ready=False)] * slots,
                progress=remembered(FIRST, not_ready_since=since),
                is_second_plan=True,
            )
            assert bool(plan(wanted, seen).actions) == is_late

    def test_late_workers_of_a_first_deploy_fail_it(self) -> None:
        progress = remembered(FIRST, not_ready_since=NOW - READY_WITHIN_S - 1)
        seen = ObservedState(
            NOW,
            workers=[status(workers_of(FIRST, REVISION_1), ready=False)],
            progress=progress,
            is_second_plan=True,
        )
        planned = plan(desired(FIRST), seen)
        assert kinds(planned) == [StopWorkers, StoreObservation]
        assert recorded(planned) == (Phase.FAILED, None, Condition.FAILED)

    @pytest.mark.parametrize(
        ("of", "limit"), [(ROLLING, MAX_DEATHS_BEFORE_READY), (ON_PROBATION, MAX_DEATHS_ON_PROBATION)]
    )
    def test_workers_that_keep_dying(self, of: Deployment, limit: int) -> None:
        for deaths in (limit - 1, limit):
            seen = ObservedState(
                NOW,
                workers=[status(NEW, ready=False, deaths=deaths)],
                progress=remembered(of),
                is_second_plan=True,
            )
            planned = plan(desired(of), seen)
            assert bool(planned.actions) == (deaths == limit)
        assert recorded(planned)[2] is Condition.ROLLED_BACK

    def test_a_revision_that_can_not_run_and_neither_can_the_stable_one(self) -> None:
        state = desired(ROLLING)
        broken = replace(state, target=RevisionWorkers(ROLLING.desired_revision_record, None, "No binding."))
        assert recorded(plan(broken, ObservedState(NOW)))[2] is Condition.ROLLED_BACK
        neither = replace(broken, fallback=RevisionWorkers(REVISION_1, None, "No binding either."))
        planned = plan(neither, ObservedState(NOW))
        assert recorded(planned)[2] is Condition.FAILED
        assert isinstance(planned.actions[-1], StoreObservation)
        assert planned.actions[-1].observed.reason.endswith("Revision 1 can't run either: No binding either.")

    def test_a_rolled_back_revision_runs_on(self) -> None:
        seen = ObservedState(NOW, workers=[status(OLD)], progress=remembered(ROLLED_BACK))
        assert plan(desired(ROLLED_BACK), seen).actions == ()


class TestPositions:
    def test_a_pause_keeps_the_revision_and_the_condition(self) -> None:
        action = plan(desired(PAUSING), ObservedState(NOW)).actions[-1]
        assert isinstance(action, SavePositions)
        seen = action.observed
        assert (seen.phase, seen.observed_generation) == (Phase.PAUSED, PAUSING.generation)
        assert (seen.observed_revision, seen.condition) == (1, Condition.STABLE)

    @pytest.mark.parametrize("of", [RESUMING, rewinding(RUNNING)])
    def test_the_request_is_not_done_before_the_workers_are_ready(self, of: Deployment) -> None:
        action = plan(desired(of), ObservedState(NOW)).actions[-1]
        assert isinstance(action, RestorePositions | RewindPositions)
        assert action.observed.observed_generation == of.observed_generation < of.generation
        assert action.observed.phase is Phase.PENDING

    def test_a_rewind_moves_the_group_of_the_revision_that_runs(self) -> None:
        action = plan(desired(rewinding(ROLLED_BACK)), ObservedState(NOW)).actions[-1]
        assert isinstance(action, RewindPositions)
        assert action.target == REVISION_1

    @pytest.mark.parametrize("of", [RUNNING, ROLLED_BACK, STABLE_2])
    def test_after_a_rewind_the_condition_stays(self, of: Deployment) -> None:
        rewound = replace(of, generation=3, phase=Phase.PENDING)
        wanted = workers_of(rewound, target_of(rewound))
        ready = ObservedState(NOW, workers=[status(wanted)], progress=remembered(rewound), is_second_plan=True)
        assert recorded(plan(desired(rewound), ready)) == (Phase.RUNNING, target_of(rewound).number, of.condition)

    def test_after_a_rewind_workers_that_keep_dying_are_restarted(self) -> None:
        rewound = replace(RUNNING, generation=3, phase=Phase.PENDING)
        dying = status(workers_of(rewound, REVISION_1), ready=False, deaths=100)
        progress = remembered(rewound, not_ready_since=NOW - READY_WITHIN_S - 1)
        seen = ObservedState(NOW, workers=[dying], progress=progress, is_second_plan=True)
        assert plan(desired(rewound), seen).actions == ()

    def test_no_revision_runs_while_positions_are_stored(self) -> None:
        planned = roll_back_or_fail(desired(RESUMING), "The topic was created again.")
        assert kinds(planned) == [StopWorkers, StoreObservation]
        assert recorded(planned) == (Phase.FAILED, 1, Condition.FAILED)
        assert kinds(roll_back_or_fail(desired(RESTORED), "It broke."))[0] is EnsureWorkers


class Cluster:
    """Simulated workers, and a simulated database that applies the recorded changes."""

    def __init__(self, of: Deployment, running: WorkerSet | None, progress: WorkerProgress | None) -> None:
        self.deployment, self.running, self.progress = of, running, progress
        self.successor: WorkerSet | None = None
        self.now = NOW

    def round(self, *, is_second_plan: bool = False) -> bool:
        """Do one reconciliation round. Return False if there was nothing to do."""
        seen = ObservedState(
            self.now,
            workers=[] if self.running is None else [status(self.running)],
            successors=[] if self.successor is None else [status(self.successor)],
            progress=self.progress,
            is_second_plan=is_second_plan,
        )
        planned = plan(desired(self.deployment), seen)
        for action in planned.actions:
            self._do(action)
        self.progress = planned.progress
        if planned.actions and not is_second_plan and self.deployment.phase is not Phase.ABSENT:
            self.round(is_second_plan=True)
        return bool(planned.actions)

    def _do(self, action: Action) -> None:
        match action:
            case EnsureWorkers(workers):
                self.running = workers
            case StopWorkers():
                self.running = None
            case StoreObservation(observed):
                self.deployment = apply_observation(self.deployment, observed)
            case SavePositions(observed):
                stored = self.deployment.positions or StoredPositions(groups={1: self._committed()})
                self.deployment = apply_observation(self.deployment, replace(observed, positions=stored))
            case RewindPositions(_, observed):
                assert self.deployment.rewind is not None
                done = self.deployment.rewind.model_copy(update={"state": "done"})
                moved = replace(observed, positions=STORED, rewind=done)
                self.deployment = apply_observation(self.deployment, moved)
            case RestorePositions(_, observed):
                assert self.running is None, "positions are restored only while no worker runs"
                self.deployment = apply_observation(self.deployment, replace(observed, positions=StoredPositions()))
        assert self.running is None or not self.deployment.positions, "no worker runs while positions are stored"

    @staticmethod
    def _committed() -> GroupPositions:
        return GroupPositions(topic=TOPIC, topic_id="id", offsets={0: 1})


STATES = [FIRST, RUNNING, ROLLING, ON_PROBATION, STABLE_2, ROLLED_BACK, PAUSED, RESUMING, RESTORED]


@given(
    of=st.sampled_from(STATES),
    changed=st.sampled_from(
        [
            {},
            {"desired": DesiredPhase.ABSENT, "generation": 4},
            {"desired": DesiredPhase.PAUSED, "generation": 4},
            {"rewind": Rewind(generation=4, to="latest", requested_at=T0), "generation": 4},
            {
                "desired": DesiredPhase.PAUSED,
                "rewind": Rewind(generation=4, to={0: 1}, requested_at=T0),
                "generation": 4,
            },
            {"credentials_version": 2},
            {"generation": 4},
        ]
    ),
    running=st.sampled_from([None, OLD, NEW]),
    remembers=st.booleans(),
)
def test_rounds_lead_from_any_state_to_a_quiet_one(
    of: Deployment, changed: dict[str, object], running: WorkerSet | None, remembers: bool
) -> None:
    start = replace(of, **changed)  # type: ignore[arg-type]
    cluster = Cluster(start, None if start.positions else running, remembered(start) if remembers else None)
    for _ in range(30):
        cluster.now += STABLE_AFTER_S + 1
        if cluster.deployment.phase is Phase.ABSENT:
            break
        cluster.round()
    end = cluster.deployment
    if start.desired is DesiredPhase.ABSENT:
        assert (end.phase, cluster.running) == (Phase.ABSENT, None)
        return
    assert end.is_reconciled
    assert end.observed_credentials_version == end.credentials_version
    assert end.rewind is None or not end.rewind.is_pending
    if start.desired is DesiredPhase.PAUSED:
        assert (end.phase, cluster.running) == (Phase.PAUSED, None)
        return
    assert not end.positions
    assert cluster.running == workers_of(end, target_of(end))
    assert (end.phase, end.observed_revision) == (Phase.RUNNING, target_of(end).number)
    assert end.condition is Condition.ROLLED_BACK or (end.condition, end.previous_revisions) == (Condition.STABLE, ())
    progress = cluster.progress
    assert progress is not None
    assert not cluster.round()
