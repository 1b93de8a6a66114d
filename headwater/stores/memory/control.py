"""The control stores in memory: configurations, deployments and the doorbell here, the others beside it."""

import threading
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice, pairwise

from headwater.model import rollout
from headwater.model.dataset import SetId, filter_set
from headwater.model.deployment import (
    Deployment,
    LogLine,
    Marker,
    Observed,
    Phase,
    Progress,
    WorkerStatus,
    dead_letter_topic,
    output_topics,
)
from headwater.model.flow import Flow
from headwater.model.listing import Place
from headwater.model.quota import NO_QUOTAS, Content, QuotaDefaults, QuotaName, Usage, content_of, quotas_of_save
from headwater.model.rollout import Rollout
from headwater.model.stored import write_config
from headwater.stores.base import MAX_LOG_LINES, RemovedFilter
from headwater.stores.memory.audit import MemoryAudit
from headwater.stores.memory.datasets import MemoryDatasets
from headwater.stores.memory.idempotency import MemoryCalls
from headwater.stores.memory.keys import MemoryKeys
from headwater.stores.memory.leases import MemoryLeases
from headwater.stores.memory.order import newest_first
from headwater.stores.memory.quotas import MemoryQuotas
from headwater.stores.sql import changes, store_errors


@dataclass(slots=True)
class _Tables:
    """What the stores share; `lock` makes each of their methods one transaction."""

    audit: MemoryAudit
    leases: MemoryLeases
    datasets: MemoryDatasets
    quotas: MemoryQuotas = field(init=False)
    lock: threading.RLock = field(default_factory=threading.RLock)
    flows: dict[str, Flow] = field(default_factory=dict)
    revisions: dict[str, dict[int, Flow]] = field(default_factory=lambda: defaultdict(dict))
    removed: dict[tuple[str, str], datetime] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    deployments: dict[str, Deployment] = field(default_factory=dict)
    rollouts: dict[str, list[Rollout]] = field(default_factory=dict)
    logs: dict[str, deque[LogLine]] = field(default_factory=dict)
    tombstones: set[str] = field(default_factory=set)
    ended_at: dict[str, datetime] = field(default_factory=dict)
    rings: int = 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that changes something. Raises LeaseLost inside `model.lease.fenced_by`."""
        with self.lock, self.leases.fenced():
            yield

    def usage(self, owner: str | None) -> Usage:
        """What an owner has, or all together, of what is not in the set store."""
        mine = [flow for flow in self.flows.values() if owner in (None, flow.owner)]
        live = [flow for flow in mine if flow.id not in self.deleted]
        active = [d for d in self.deployments.values() if owner in (None, d.owner) and d.phase is not Phase.ABSENT]
        stored = [revision for flow in mine for revision in self.revisions[flow.id].values()]
        return {
            "configurations": len(live),
            "stored_bytes": sum(_content(flow).stored_bytes for flow in stored),
            "script_bytes": sum(_content(flow).script_bytes for flow in live),
            "deployments": len(active),
            "workers": sum(content_of(write_config(d.config)).workers for d in active),
            "datasets": self.datasets.number_of(owner),
        }

    def sets(self, owner: str | None = None) -> Sequence[SetId]:
        """The sets of an owner, or of all."""
        with self.lock:
            mine = [flow for flow in self.flows.values() if owner in (None, flow.owner)]
            uids = {
                filter_set(flow.id, uid)
                for flow in mine
                for revision in self.revisions[flow.id].values()
                for uid in revision.pipeline_config.filter_uids
            }
            owners = {flow.id for flow in mine}
            uids.update(filter_set(*removed) for removed in self.removed if removed[0] in owners)
        return [*uids, *self.datasets.sets(owner)]

    @contextmanager
    def within_quotas(self, owner: str, *names: QuotaName) -> Iterator[None]:
        """Make a change, unless a quota forbids it."""
        if not self.quotas.limits(owner, names):
            yield
            return
        flows, deployments, rings = dict(self.flows), dict(self.deployments), self.rings
        revisions = {flow_id: dict(stored) for flow_id, stored in self.revisions.items()}
        removed = dict(self.removed)

        def undo() -> None:
            self.removed = removed
            self.flows, self.deployments, self.rings = flows, deployments, rings
            self.revisions = defaultdict(dict, revisions)

        with self.quotas.enforced(owner, *names, undo=undo):
            yield

    def visible(self, owner: str, flow_id: str) -> Flow:
        flow = self.flows.get(flow_id)
        if flow is None or flow.owner != owner or flow_id in self.deleted:
            raise store_errors.no_flow(flow_id)
        return flow

    def store(self, flow: Flow) -> None:
        """Make a revision the newest one. Raises Conflict."""
        others = (f for f in self.flows.values() if f.id != flow.id and f.owner == flow.owner)
        if flow.external_id is not None and any(other.external_id == flow.external_id for other in others):
            raise store_errors.external_id_taken(flow.external_id)
        for uid in flow.pipeline_config.filter_uids:
            self.removed.pop((flow.id, uid), None)
        self.flows[flow.id] = self.revisions[flow.id][flow.revision] = flow

    def active(self, flow_id: str) -> Deployment | None:
        found = (d for d in self.deployments.values() if d.flow_id == flow_id and d.phase is not Phase.ABSENT)
        return next(found, None)

    def desire(self, deployment: Deployment) -> Deployment:
        """Store a changed desired state and ring."""
        history = self.rollouts.setdefault(deployment.id, [])
        if all(rollout.revision != deployment.desired_revision for rollout in history):
            stream = rollout.stream_of(deployment.config.source)
            history.append(Rollout(deployment.desired_revision, stream, deployment.source_epoch))
        self.deployments[deployment.id] = deployment
        self.rings += 1
        return deployment


def _content(flow: Flow) -> Content:
    return content_of(write_config(flow.pipeline_config), flow.name, flow.description, *flow.tags)


class MemoryFlows:
    """FlowStore in memory."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def create(self, flow: Flow) -> None:
        with self._tables.writing():
            with self._tables.within_quotas(flow.owner, "configurations", "stored_bytes", "script_bytes"):
                self._tables.store(replace(flow, revision=1))
            self._tables.audit.record(changes.created(flow))

    def save(self, flow: Flow) -> None:
        with self._tables.writing():
            stored = self._tables.visible(flow.owner, flow.id)
            if flow.revision != stored.revision + 1:
                raise store_errors.saved_meanwhile(flow.id)
            quotas = quotas_of_save(_content(flow), _content(stored).stored_bytes)
            with self._tables.within_quotas(flow.owner, *quotas):
                self._tables.store(replace(flow, created_at=stored.created_at))
            self._tables.audit.record(changes.saved(stored, flow))

    def get(self, owner: str, flow_id: str) -> Flow:
        with self._tables.lock:
            return self._tables.visible(owner, flow_id)

    def list(self, owner: str) -> Sequence[Flow]:
        with self._tables.lock:
            flows = self._tables.flows.values()
            return newest_first([f for f in flows if f.owner == owner and f.id not in self._tables.deleted])

    def places(self, owner: str, after: Place | None, limit: int) -> Sequence[Place]:
        places = [Place(flow.created_at, flow.id, _content(flow).stored_bytes) for flow in self.list(owner)]
        return [place for place in places if after is None or place.order < after.order][:limit]

    def many(self, owner: str, flow_ids: Collection[str]) -> Sequence[Flow]:
        return [flow for flow in self.list(owner) if flow.id in flow_ids]

    def with_external_id(self, owner: str, external_id: str) -> Sequence[Flow]:
        return [flow for flow in self.list(owner) if flow.external_id == external_id]

    def delete(self, owner: str, flow_id: str, revision: int | None = None) -> bool:
        with self._tables.writing():
            stored = self._tables.visible(owner, flow_id)
            if revision not in (None, stored.revision):
                raise store_errors.saved_meanwhile(flow_id)
            self._tables.deleted.add(flow_id)
            self._tables.flows[flow_id] = replace(stored, external_id=None)
            self._tables.audit.record(changes.deleted(stored))
            active = self._tables.active(flow_id)
            if active is None:
                self._tables.rings += 1
                return False
            self._tables.desire(rollout.tear_down(active, delete_flow=True))
            return True

    def purge(self, flow_id: str) -> None:
        with self._tables.writing():
            if flow_id in self._tables.deleted and self._tables.active(flow_id) is None:
                self._tables.deleted.remove(flow_id)
                del self._tables.flows[flow_id], self._tables.revisions[flow_id]
                for key in [key for key in self._tables.removed if key[0] == flow_id]:
                    del self._tables.removed[key]

    def deleted(self) -> Sequence[Flow]:
        with self._tables.lock:
            return newest_first([self._tables.flows[flow_id] for flow_id in self._tables.deleted])


class MemoryRevisions:
    """RevisionStore in memory."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def filters(self, flow_id: str) -> Mapping[int, frozenset[str]]:
        with self._tables.lock:
            stored = self._tables.revisions.get(flow_id, {})
            return {revision: flow.pipeline_config.filter_uids for revision, flow in stored.items()}

    def superseded(self, before: datetime) -> Mapping[str, Sequence[int]]:
        with self._tables.lock:
            found = {flow_id: self._superseded(flow_id, before) for flow_id in self._tables.flows}
            return {flow_id: revisions for flow_id, revisions in found.items() if revisions}

    def _superseded(self, flow_id: str, before: datetime) -> Sequence[int]:
        if flow_id in self._tables.deleted:
            return []
        stored = sorted(self._tables.revisions[flow_id].items())
        active = self._tables.active(flow_id)
        in_use = {revision.number for revision in active.revisions} if active else set()
        replaced = pairwise(stored)
        return [number for (number, _), (_, next_) in replaced if number not in in_use and next_.updated_at < before]

    def remove(self, flow_id: str, revisions: Collection[int], now: datetime) -> None:
        with self._tables.writing():
            gone = rollout.filters_only_in(revisions, self.filters(flow_id))
            self._tables.removed.update({(flow_id, uid): now for uid in gone})
            for revision in revisions:
                self._tables.revisions.get(flow_id, {}).pop(revision, None)

    def removed_filters(
        self, *, owner: str | None = None, flow_id: str | None = None, before: datetime | None = None
    ) -> Sequence[RemovedFilter]:
        with self._tables.lock:
            found = [
                RemovedFilter(of, self._tables.flows[of].owner, uid, at)
                for (of, uid), at in self._tables.removed.items()
            ]
        return sorted(
            (
                removed
                for removed in found
                if owner in (None, removed.owner)
                and flow_id in (None, removed.flow_id)
                and (before is None or removed.removed_at < before)
            ),
            key=lambda removed: (removed.removed_at, removed.flow_id, removed.uid),
        )

    def forget_filters(self, flow_id: str, uids: Collection[str]) -> None:
        with self._tables.writing():
            for uid in uids:
                self._tables.removed.pop((flow_id, uid), None)


class MemoryDeployments:
    """DeploymentStore in memory."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def desire_running(self, owner: str, flow_id: str, new: Deployment | None) -> Deployment:
        with self._tables.writing():
            flow = self._tables.visible(owner, flow_id)
            flow.require_readable()
            current = self._tables.active(flow_id)
            if current is None:
                if new is None:
                    raise rollout.not_deployed()
                changed = rollout.first_rollout(new, flow)
            elif rollout.needs_rollout(current, flow):
                changed = rollout.roll_out(current, flow, self._tables.rollouts[current.id])
            else:
                return current
            with self._tables.within_quotas(owner, "deployments", "workers"):
                desired = self._tables.desire(changed)
            self._tables.audit.record(changes.deployed(current, changed))
            return desired

    def desire_credentials(self, owner: str, flow_id: str, reader_password: str) -> Deployment:
        with self._tables.writing():
            self._tables.visible(owner, flow_id)
            current = self._tables.active(flow_id)
            if current is None:
                raise rollout.not_deployed()
            changed = rollout.new_credentials(current, reader_password)
            self._tables.audit.record(changes.rotated(changed))
            return self._tables.desire(changed)

    def desire_absent(self, flow_id: str) -> Deployment | None:
        with self._tables.writing():
            current = self._tables.active(flow_id)
            if current is None:
                return None
            changed = rollout.tear_down(current)
            if changed != current:
                self._tables.audit.record(changes.torn_down(current))
            return self._tables.desire(changed)

    def active(self, flow_id: str) -> Deployment | None:
        with self._tables.lock:
            return self._tables.active(flow_id)

    def progress(self, flow_ids: Collection[str]) -> Mapping[str, Progress]:
        return {d.flow_id: Progress.of(d) for d in self.unfinished() if d.flow_id in flow_ids}

    def unfinished(self, deployment_ids: Collection[str] | None = None) -> Sequence[Deployment]:
        with self._tables.lock:
            active = newest_first([d for d in self._tables.deployments.values() if d.phase is not Phase.ABSENT])
        return [d for d in active if deployment_ids is None or d.id in deployment_ids]

    def markers(self) -> Sequence[Marker]:
        return [Marker.of(deployment) for deployment in self.unfinished()]

    def undeployed(self, flow_ids: Collection[str]) -> Sequence[str]:
        with self._tables.lock:
            had = {d.flow_id for d in self._tables.deployments.values()} | self._tables.tombstones
        return sorted(had.intersection(flow_ids) - {d.flow_id for d in self.unfinished()})

    def torn_down(self, topics: Mapping[str, Collection[str]]) -> frozenset[str]:
        with self._tables.lock:
            active, given_up = {d.flow_id for d in self.unfinished()}, self._tables.tombstones
            ended = {flow_id: set(names) for flow_id, names in topics.items() if flow_id not in active}
            written = {topic for d in self._tables.deployments.values() for topic in self._written(d)}
        found = (names if flow_id in given_up else names & written for flow_id, names in ended.items())
        return frozenset().union(*found)

    def _written(self, deployment: Deployment) -> Iterator[str]:
        """The topics that a deployment was asked to write, as far as its revisions are stored."""
        yield dead_letter_topic(deployment.flow_id)
        stored = self._tables.revisions.get(deployment.flow_id, {})
        for asked in self._tables.rollouts[deployment.id]:
            if asked.revision in stored:
                yield from output_topics(deployment.flow_id, stored[asked.revision].pipeline_config)

    def ended(self, deployment_ids: Collection[str]) -> Sequence[str]:
        with self._tables.lock:
            had = self._tables.deployments.keys() | self._tables.tombstones
        return sorted(had.intersection(deployment_ids) - {d.id for d in self.unfinished()})

    def forget_ended(self, before: datetime, kept: Collection[str]) -> int:
        with self._tables.writing():
            ended = [d for d in self._tables.deployments.values() if d.phase is Phase.ABSENT]
            old = [d.id for d in ended if self._tables.ended_at[d.id] < before and not {d.id, d.flow_id} & set(kept)]
            for deployment_id in old:
                del self._tables.deployments[deployment_id]
                self._tables.rollouts.pop(deployment_id, None)
            return len(old)

    def give_up(self, ids: Collection[str], at: datetime) -> None:  # noqa: ARG002  # nobody reads the time here
        with self._tables.writing():
            for each in sorted(set(ids) - self._tables.tombstones):
                self._tables.tombstones.add(each)
                self._tables.audit.record(changes.given_up(each))

    def observe(self, observed: Sequence[Observed]) -> None:
        with self._tables.writing():
            for seen in observed:
                current = self._tables.deployments.get(seen.deployment_id)
                if current is not None:
                    self._tables.deployments[current.id] = rollout.apply_observation(current, seen)
                if seen.phase is Phase.ABSENT:
                    self._tables.logs.pop(seen.deployment_id, None)
                    self._tables.ended_at[seen.deployment_id] = datetime.now(UTC)

    def report_workers(self, workers: dict[str, Sequence[WorkerStatus]]) -> None:
        with self._tables.writing():
            for deployment_id, states in workers.items():
                current = self._tables.deployments.get(deployment_id)
                if current is not None and current.phase is not Phase.ABSENT:
                    self._tables.deployments[deployment_id] = replace(current, workers=tuple(states))

    def write_logs(self, lines: Mapping[str, Sequence[LogLine]]) -> None:
        with self._tables.writing():
            for deployment in self.unfinished():
                kept = self._tables.logs.setdefault(deployment.id, deque(maxlen=MAX_LOG_LINES))
                kept.extend(lines.get(deployment.id, ()))

    def read_logs(self, deployment_id: str, limit: int) -> Sequence[LogLine]:
        with self._tables.lock:
            return list(islice(reversed(self._tables.logs.get(deployment_id, ())), limit))


class MemoryDoorbell:
    """Doorbell in memory."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def value(self) -> int:
        with self._tables.lock:
            return self._tables.rings


class MemoryDatabase:
    """All control stores, as `stores.sql.database.Database` has them."""

    def __init__(self, defaults: QuotaDefaults = NO_QUOTAS) -> None:
        self.audit = MemoryAudit()
        self.calls = MemoryCalls()
        self.leases = MemoryLeases()
        self.datasets = MemoryDatasets(self.audit, self.leases)
        tables = _Tables(self.audit, self.leases, self.datasets)
        self.quotas = tables.quotas = MemoryQuotas(defaults, tables.usage, tables.sets)
        self.datasets.quotas = self.quotas
        self.flows = MemoryFlows(tables)
        self.revisions = MemoryRevisions(tables)
        self.deployments = MemoryDeployments(tables)
        self.doorbell = MemoryDoorbell(tables)
        self.keys = MemoryKeys(self.audit)

    def close(self) -> None:
        """Nothing to close."""
