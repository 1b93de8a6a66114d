"""Records the spans of rollouts: actions, starts of workers, hand-overs and outcomes."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from headwater.model.deployment import Condition, Deployment, DesiredPhase, Observation, ObservedWorker, Phase
from headwater.model.worker_spec import WorkerSet
from headwater.tracing.spans import NoSpanExporter, Span, SpanContext, SpanExporter, deploy_context, new_context

NS_PER_S = 1_000_000_000


@dataclass(slots=True, kw_only=True)
class _Rollout:
    """The facts about a rollout that its spans need.

    A new leader begins with none of them, so its first span begins when it has taken over.

    Attributes:
        root: The root span of the trace, which is exported at the end.
        ready: The names and start times of the workers that have been ready.
        last_seen_without_target_ns: The last time at which no worker had the target's spec yet. The hand-over starts
            there. None before such an observation, and after the hand-over.
        ready_ns: When the workers of the revision were ready; None until then.
        has_ended: Whether the root span was exported.
    """

    deployment: Deployment
    root: SpanContext
    start_ns: int
    ready: set[tuple[str, float]] = field(default_factory=set)
    last_seen_without_target_ns: int | None = None
    ready_ns: int | None = None
    has_ended: bool = False


class RolloutTraces:
    """Records the spans of rollouts, each in the trace of its deploy.

    Thread-safe for different deployments. Without an OTLP endpoint, each method returns at once.

    Args:
        now_ns: Returns nanoseconds since 1970.
    """

    def __init__(self, span_exporter: SpanExporter | None = None, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._span_exporter = span_exporter or NoSpanExporter()
        self._now_ns = now_ns
        self._rollouts: dict[str, _Rollout] = {}

    def observe(
        self,
        deployment: Deployment,
        target: WorkerSet | None,
        workers: Sequence[ObservedWorker],
        successors: Sequence[ObservedWorker],
    ) -> None:
        """Record the starts of workers and the hand-over that these observations complete."""
        if not self._span_exporter.is_enabled:
            return
        rollout = self._update(deployment)
        if rollout is None or target is None:
            return
        for worker in (*workers, *successors):
            key = (worker.name, worker.start_time.timestamp())
            if worker.spec_hash == target.spec_hash and worker.is_ready and key not in rollout.ready:
                rollout.ready.add(key)
                details: dict[str, str | int] = {"headwater.worker": worker.name}
                start_ns = int(worker.start_time.timestamp() * NS_PER_S)
                self._record(rollout, "start of a worker", start_ns, attributes=details)
        if workers and all(worker.spec_hash != target.spec_hash for worker in workers):
            rollout.last_seen_without_target_ns = self._now_ns()
        elif (
            rollout.last_seen_without_target_ns is not None
            and len(workers) == target.slots
            and not successors
            and all(worker.spec_hash == target.spec_hash for worker in workers)
        ):
            self._record(rollout, "hand-over", rollout.last_seen_without_target_ns)
            rollout.last_seen_without_target_ns = None

    @contextmanager
    def action(self, deployment: Deployment, name: str) -> Iterator[None]:
        """Record an action, with its error when it raises one."""
        rollout = self._rollouts.get(deployment.id)
        if rollout is None or rollout.has_ended:
            yield
            return
        start_ns = self._now_ns()
        error: str | None = None
        try:
            yield
        except Exception as failure:
            error = str(getattr(failure, "detail", type(failure).__name__))
            raise
        finally:
            self._record(rollout, name, start_ns, error=error)

    def record_observation(self, observation: Observation) -> None:
        """Record that a rollout has become ready or has ended, if the observed state says so."""
        rollout = self._rollouts.get(observation.deployment_id)
        if rollout is None or observation.observed_generation < rollout.deployment.generation:
            return
        if observation.condition is not Condition.ROLLING_OUT:
            self._end(rollout, str(observation.condition), observation.reason)
        elif observation.phase is Phase.RUNNING and rollout.ready_ns is None:
            rollout.ready_ns = self._now_ns()

    def discard(self, deployment_id: str) -> None:
        """Forget a deployment that has ended."""
        rollout = self._rollouts.pop(deployment_id, None)
        if rollout is not None:
            self._end(rollout, "Superseded")

    def _update(self, deployment: Deployment) -> _Rollout | None:
        """Return the rollout in progress; None when there is none.

        A rollout whose generation is not current any more has ended.
        """
        rollout = self._rollouts.get(deployment.id)
        if rollout is not None and rollout.deployment.generation != deployment.generation:
            self._end(rollout, "Superseded")
            rollout = None
        is_rolling_out = deployment.condition is Condition.ROLLING_OUT and deployment.desired is DesiredPhase.RUNNING
        if rollout is None and is_rolling_out:
            root = deploy_context(deployment.id, deployment.generation)
            rollout = _Rollout(deployment=deployment, root=root, start_ns=self._now_ns())
            self._rollouts[deployment.id] = rollout
        return None if rollout is None or rollout.has_ended else rollout

    def _end(self, rollout: _Rollout, outcome: str, reason: str = "") -> None:
        if rollout.has_ended:
            return
        rollout.has_ended = True
        deployment = rollout.deployment
        failed = outcome in (Condition.FAILED, Condition.ROLLED_BACK)
        self._span_exporter.export(
            Span(
                name="deploy",
                context=rollout.root,
                parent=None,
                start_ns=rollout.start_ns,
                end_ns=self._now_ns(),
                attributes={
                    "headwater.config_id": deployment.config_id,
                    "headwater.deployment_id": deployment.id,
                    "headwater.revision": deployment.desired_revision,
                    "headwater.outcome": outcome,
                },
                events={} if rollout.ready_ns is None else {"ready": rollout.ready_ns},
                error=reason if failed else None,
            )
        )

    def _record(
        self,
        rollout: _Rollout,
        name: str,
        start_ns: int,
        *,
        attributes: dict[str, str | int] | None = None,
        error: str | None = None,
    ) -> None:
        self._span_exporter.export(
            Span(
                name=name,
                context=new_context(rollout.root.trace_id),
                parent=rollout.root,
                start_ns=start_ns,
                end_ns=self._now_ns(),
                attributes=attributes or {},
                error=error,
            )
        )
