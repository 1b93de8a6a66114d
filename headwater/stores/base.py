"""Protocols of the stores. Each has a SQL or Redis implementation and a twin in memory; both pass one contract suite.

All methods are synchronous, thread-safe and may block on I/O. They raise StoreUnavailable (SQL) or
SetStoreUnavailable (Valkey or Redis) when the store does not answer; other errors are named per method.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from headwater.model.audit import AuditEntry, AuditQuery, Change
from headwater.model.dataset import Dataset, SetId
from headwater.model.deployment import Deployment, LogLine, Marker, Observed, Progress, WorkerStatus
from headwater.model.flow import Flow
from headwater.model.idempotency import Answered, Claim
from headwater.model.key import ApiKey
from headwater.model.lease import Candidate, Fence, Leader
from headwater.model.listing import Place
from headwater.model.metric import Interval, MetricsDelta, TimeRange
from headwater.model.quota import Allowed, QuotaName, Reservation, Usage

MAX_LOG_LINES = 1000


class FlowStore(Protocol):
    """Configurations and their revisions.

    A configuration that this version can't read is returned like any other: its `unreadable` says why.
    """

    def create(self, flow: Flow) -> None:
        """Store a new configuration at revision 1. Raises Conflict when the owner has one with this external_id."""

    def save(self, flow: Flow) -> None:
        """Store the next revision: `flow.revision` is that of the flow that was read, plus 1.

        Raises NotFound, SavedMeanwhile when another save came between, and Conflict when another configuration of the
        owner has this external_id. `created_at` and earlier revisions stay. A filter that had been removed and is in
        this revision is removed no longer. Where the passwords of the active deployment can't be opened, it is given
        new ones, and asked to run its revision with them.
        """

    def get(self, owner: str, flow_id: str) -> Flow:
        """The newest revision. Raises NotFound when unknown, another owner's, or being deleted."""

    def list(self, owner: str) -> Sequence[Flow]:
        """All configurations of an owner, newest first."""

    def list_positions(self, owner: str, after: Place | None, limit: int) -> Sequence[Place]:
        """The places of the next configurations of an owner, newest first; those behind `after`, where it is given."""

    def get_many(self, owner: str, flow_ids: Collection[str]) -> Sequence[Flow]:
        """Those of these configurations that the owner has, newest first."""

    def with_external_id(self, owner: str, external_id: str) -> Sequence[Flow]:
        """The owner's configuration with this external_id: a list of none or one."""

    def delete(self, owner: str, flow_id: str, revision: int | None = None) -> bool:
        """Mark as deleted: at once invisible, its external_id free. Raises SavedMeanwhile for another revision.

        An active deployment's desired state becomes ABSENT with delete_flow set, in the same transaction; the
        controller then removes the row by `purge`. Returns False when there was no active deployment: the row stays
        marked until `purge`. Raises NotFound.
        """

    def purge(self, flow_id: str) -> None:
        """Remove a deleted configuration and its revisions for good. Unknown ids are no error."""

    def deleted(self) -> Sequence[Flow]:
        """Configurations that are marked deleted and not purged yet (also after a crash)."""


@dataclass(frozen=True, slots=True)
class RemovedFilter:
    """A filter that no stored revision has any more, and whose values are kept for some time."""

    flow_id: str
    owner: str
    uid: str
    removed_at: datetime


class RevisionStore(Protocol):
    """The revisions of configurations that are still stored, and the filters that only removed ones had."""

    def filters(self, flow_id: str) -> Mapping[int, frozenset[str]]:
        """The uids of the filters in each stored revision, by revision; also of a deleted configuration."""

    def superseded(self, before: datetime) -> Mapping[str, Sequence[int]]:
        """By configuration, the revisions that nobody can need again, in order.

        They are not the newest, another one took their place before `before`, and no active deployment may run them
        or go back to them. Deleted configurations are left to `purge`.
        """

    def remove(self, flow_id: str, revisions: Collection[int], now: datetime) -> None:
        """Remove revisions that `superseded` named, and note the filters that only they had as removed at `now`.

        Unknown revisions are no error.
        """

    def removed_filters(
        self, *, owner: str | None = None, flow_id: str | None = None, before: datetime | None = None
    ) -> Sequence[RemovedFilter]:
        """Filters whose values are kept, oldest first: of an owner, of a configuration, or removed before a time.

        Those of a deleted configuration stay until `purge`.
        """

    def delete_removed_filters(self, flow_id: str, uids: Collection[str]) -> None:
        """Forget removed filters, whose values were dropped. Unknown ones are no error."""


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """Something stored that this version can't read. kind: what it is; id: whose it is; owner: empty where it has none.

    why: what is wrong, and what to do.
    """

    kind: str
    id: str
    owner: str
    why: str


class DeploymentStore(Protocol):
    """Desired and observed state of deployments. The API writes the desired, the controller the observed half.

    A deployment that this version can't read is returned like any other: its `unreadable` says why.
    """

    def request_deploy(self, owner: str, flow_id: str, new: Deployment | None) -> Deployment:
        """Ask for the flow's newest revision to run, and ring the doorbell.

        Without an active deployment, `new` (its config and desired_revision taken from the flow) is inserted; when it
        is None, nothing is, and NotFound raised. With
        one at another revision, or one whose last rollout failed, its desired revision and generation are raised. At
        the same revision: unchanged. Two calls at once never make two deployments. Raises NotFound, TeardownGoesOn, and
        Unreadable when the configuration can't be read.
        """

    def request_credential_rotation(self, owner: str, flow_id: str, reader_password: str) -> Deployment:
        """Give readers another password, and ring the doorbell.

        Raises NotFound, also when it is not deployed, and Unreadable when its other password can't be opened.
        """

    def request_teardown(self, flow_id: str) -> Deployment | None:
        """Ask for the active deployment to go. None when there is none."""

    def active(self, flow_id: str) -> Deployment | None:
        """The deployment that is not ABSENT in phase, or None."""

    def progress(self, flow_ids: Collection[str]) -> Mapping[str, Progress]:
        """How far the active deployments of these flows have come, by flow id; a flow without one is missing."""

    def unfinished(self, deployment_ids: Collection[str] | None = None) -> Sequence[Deployment]:
        """All deployments whose phase is not ABSENT, or those of these ids: the controller's work list."""

    def versions(self) -> Sequence[Marker]:
        """A marker of each deployment that `unfinished` returns, without reading its configuration."""

    def ended_among(self, deployment_ids: Collection[str]) -> Sequence[str]:
        """Those of these ids that are deployments in phase ABSENT, or were given up; unknown ids are not among them."""

    def undeployed_among(self, flow_ids: Collection[str]) -> Sequence[str]:
        """Those of these flows that had deployments or were given up, and have no deployment that is active."""

    def obsolete_topics(self, topics: Mapping[str, Collection[str]]) -> frozenset[str]:
        """The topics among these that ended deployments wrote, as far as their revisions are stored.

        topics: by the id of their configuration. Topics of a configuration that was given up are among them whatever
        their names are; topics of a configuration with an active deployment are not.
        """

    def delete_ended(self, before: datetime, kept: Collection[str]) -> int:
        """Remove the rows of deployments that ended before a time; returns how many.

        kept: the ids of deployments and configurations of which something is left outside of the database. Their rows
        stay, because they tell that it may be removed.
        """

    def record_as_ended(self, ids: Collection[str], at: datetime) -> None:
        """Record deployments and configurations as ended that this database does not know otherwise."""

    def observe(self, observed: Sequence[Observed]) -> None:
        """Write what the controller saw. Phase ABSENT ends the deployment; its secrets and log lines are erased."""

    def report_workers(self, workers: dict[str, Sequence[WorkerStatus]]) -> None:
        """Write the workers' states, by deployment id."""

    def write_logs(self, lines: Mapping[str, Sequence[LogLine]]) -> None:
        """Add lines, oldest first, by deployment id; MAX_LOG_LINES of a deployment are kept."""

    def read_logs(self, deployment_id: str, limit: int) -> Sequence[LogLine]:
        """The last lines, newest first."""


class QuotaStore(Protocol):
    """What owners may have, and what they have of it. The other stores check it when they write."""

    @property
    def total(self) -> Mapping[QuotaName, int]:
        """What all owners together may have."""

    def allowed(self, owner: str) -> Allowed:
        """What an owner may have."""

    def usage(self, owner: str) -> Usage:
        """What an owner has, of all quotas but `set_values`: those are in the set store."""

    def set_limits(self, owner: str, changes: Allowed, defaults: Sequence[QuotaName]) -> None:
        """Set some quotas of an owner (None: any number), and let some be what the settings say."""

    def overrides(self) -> Mapping[str, Allowed]:
        """The quotas of their own that owners have, by owner."""

    def sets(self, owner: str | None = None) -> Sequence[SetId]:
        """The sets of an owner, or of all: datasets, and the filters of all stored revisions. Each set is there once.

        The filters that ended are among them for as long as a stored revision has them.
        """


class Doorbell(Protocol):
    """Wakes the controller: a counter that every change of a desired state raises."""

    def value(self) -> int:
        """The counter now."""


class Leases(Protocol):
    """One leader among several controllers. The database's clock alone decides when a lease has expired.

    Inside `model.lease.fenced_by` every write of a control store raises LeaseLost, and changes nothing, once the lease
    has another fencing number. The check and the write are one transaction.
    """

    def acquire(self, name: str, candidate: Candidate, ttl_s: float) -> int | None:
        """Take a lease, or renew it for `ttl_s` from now. None while another live process holds it.

        Returns the fencing number, which each change of the holder raises. A lease is free when it was released, when
        it has expired, and when its holder gave the candidate's lock. One that would last longer than `ttl_s` is cut
        to that: the clock was set back.
        """

    def release(self, name: str, holder: str) -> None:
        """Give the lease up. No error when not held."""

    def leader(self, name: str) -> Leader | None:
        """The present holder of the lease; None when nobody holds it."""

    def check(self, fence: Fence) -> None:
        """Raise LeaseLost when the lease has another fencing number than the fence."""


class KeyStore(Protocol):
    """API keys."""

    def create(self, key: ApiKey) -> None:
        """Store a new key."""

    def find(self, key_id: str) -> ApiKey | None:
        """The key with this id, revoked or not."""

    def list(self) -> Sequence[ApiKey]:
        """All keys, newest first."""

    def revoke(self, key_id: str, at: datetime) -> None:
        """Revoke a key. Raises NotFound. Revoking twice keeps the first time."""

    def record_use(self, at: dict[str, datetime]) -> None:
        """Write the last use of several keys, by key id."""


class DatasetStore(Protocol):
    """Datasets' rows. The values are in the SetStore, the names that scripts use in DatasetNames."""

    def create(self, dataset: Dataset) -> None:
        """Store a dataset in the state "pending". Raises Conflict when the owner has one of this name."""

    def set_state(self, dataset_id: str, state: Literal["live", "deleting"]) -> None:
        """Move to another state. Unknown ids are no error."""

    def get(self, owner: str, dataset_id: str) -> Dataset:
        """A live dataset. Raises NotFound."""

    def removable(self, owner: str, dataset_id: str) -> Dataset:
        """A dataset that is live, or whose removal was cut off. Raises NotFound."""

    def list(self, owner: str, names: Sequence[str] = ()) -> Sequence[Dataset]:
        """Live datasets of an owner, newest first; only those of the given names, when some are given."""

    def remove(self, dataset_id: str) -> None:
        """Remove the row."""

    def incomplete(self) -> Sequence[Dataset]:
        """Datasets that a kill left "pending" or "deleting"."""


class AuditLog(Protocol):
    """Who changed what. The other control stores write their own changes here, in the transaction of the change.

    Who acts is `model.audit.actor()`.
    """

    def begin(self, change: Change) -> int:
        """Write a pending entry, before a change outside the database; returns its id."""

    def close(self, entry_id: int, state: Literal["done", "failed"], after: str = "") -> None:
        """Close a pending entry. No error when it is closed already, or purged."""

    def read(self, query: AuditQuery) -> Sequence[AuditEntry]:
        """The newest entries of a query, newest first."""

    def purge(self, before: datetime) -> int:
        """Remove the entries from before a time; returns how many."""


class IdempotencyStore(Protocol):
    """Calls that are made once. A call is held by one try at a time, until a time; that try alone may change it."""

    def claim(self, call: str, holder: str, now: datetime, until: datetime) -> Claim:
        """Hold a call that nobody holds and that has not ended, or whose time is over. Of many at once, one wins."""

    def renew(self, call: str, holder: str, until: datetime) -> None:
        """Hold it longer. No error when it is not held (any more), as in the next two."""

    def finish(self, call: str, holder: str, answered: Answered, until: datetime) -> None:
        """Remember its answer until a time."""

    def release(self, call: str, holder: str) -> None:
        """Forget it."""

    def purge(self, now: datetime) -> int:
        """Remove the calls whose time is over; returns how many."""


@dataclass(frozen=True, slots=True)
class TokenResult:
    """Whether a token was taken, and how many are left in the bucket."""

    taken: bool
    tokens: float


class TokenBuckets(Protocol):
    """Buckets that fill with time. All callers share them; a bucket that nobody knows is full."""

    def take(self, name: str, rate: float, size: int) -> TokenResult:
        """Take one token from a bucket that gets `rate` tokens a second and holds `size`.

        Raises SetStoreUnavailable.
        """


@dataclass(frozen=True, slots=True)
class SetWriteResult:
    """The result of a write: how many values changed, and the set's version and count after it."""

    changed: int
    version: int
    count: int


@dataclass(frozen=True, slots=True)
class ValuePage:
    """Values of one page; cursor is the position to go on from, None on the last page; total is the set's count."""

    values: list[str]
    cursor: int | None
    total: int


class SetLookup(Protocol):
    """What the workers need of sets. Values arrive normalised (model/dataset.py). An unknown set is an empty set."""

    def contains_many(self, target: SetId, values: Sequence[str]) -> list[bool]:
        """Membership of each value, from one version of the set: that of the call's beginning or a later one.

        Called by workers, once per batch. Values may repeat.
        """


class SetStore(SetLookup, Protocol):
    """Sets of strings, up to 100 million values each. Values arrive normalised (model/dataset.py).

    An unknown set is an empty set.
    """

    def add(self, target: SetId, values: Sequence[str]) -> SetWriteResult:
        """Add values. Seen by every read that starts afterwards. Idempotent."""

    def remove(self, target: SetId, values: Sequence[str]) -> SetWriteResult:
        """Remove values. Idempotent."""

    def replace(self, target: SetId, values: Iterable[str]) -> SetWriteResult:
        """Replace all values in one step: readers see all old or all new ones. changed = count = distinct values.

        An empty iterable clears the set and frees its memory. Reads `values` once, in bounded memory; when the
        iterable raises, nothing changes.
        """

    def page(self, target: SetId, cursor: int | None, count: int) -> ValuePage:
        """The first `count` values after `cursor` (0 … 2^53 − 1), in a fixed pseudo-random order.

        A value that is present during the whole listing is on exactly one page, whatever else is written meanwhile.
        """

    def count(self, target: SetId) -> tuple[int, int]:
        """Number of values and version."""

    def drop(self, target: SetId) -> None:
        """Remove the set and all its keys. Only when nobody writes to it any more."""

    def sweep(self) -> None:
        """Remove what replaces that were cut off an hour ago or more left behind. Called from time to time."""


class SetCounts(Protocol):
    """How many values sets hold."""

    def counts(self, targets: Sequence[SetId]) -> Sequence[int]:
        """The number of values of each set, in order."""


class Reservations(Protocol):
    """Numbers of values that writes under way may still add. All API processes share them."""

    def put(self, reservation: Reservation) -> None:
        """Write a reservation, in place of an earlier one of the same id."""

    def all(self) -> Sequence[Reservation]:
        """All reservations, also those whose time is over."""

    def remove(self, ids: Collection[str]) -> None:
        """Remove reservations; unknown ids are no error."""


class UnsavedSets(Protocol):
    """Filter sets that are written before the revision with the filter is saved: here a kill in between is found."""

    def begin(self, targets: Iterable[SetId], now: datetime) -> None:
        """Note sets before their first value is written."""

    def end(self, targets: Iterable[SetId]) -> None:
        """Forget sets that are dropped, or whose revision is saved. Unknown ones are no error."""

    def begun_before(self, time: datetime) -> Sequence[SetId]:
        """Sets that were noted before a time (to the second) and not forgotten."""


class DatasetNames(Protocol):
    """Dataset names as workers resolve them: per owner, name → dataset id."""

    def put(self, owner: str, name: str, dataset_id: str) -> None:
        """Make a name known."""

    def discard(self, owner: str, name: str, dataset_id: str) -> None:
        """Forget a name, unless it stands for another dataset by now."""

    def resolve(self, owner: str, names: Sequence[str]) -> list[str | None]:
        """The dataset id of each name, None when unknown."""


class MetricStore(Protocol):
    """What is delta of deployments. Workers write, the API reads.

    Exact per source position: for each partition of a source group the store knows who counts its records, and the
    mark: the position up to which they are counted. Data is removed by itself some time after its range has passed.
    """

    def acquire_partitions(
        self, deployment_id: str, group: str, owner: str, partitions: Collection[int]
    ) -> Mapping[int, int]:
        """Count these partitions from now on: writes of any earlier owner are refused. The marks there are."""

    def write(self, deployment_id: str, group: str, owner: str, delta: MetricsDelta) -> frozenset[int]:
        """Add what was delta and move the marks, in one step. The partitions whose counts were refused.

        Refused: those that another owner took. Counts up to a mark that is reached already are not added again, so a
        write whose answer was lost may be sent again as it was. Times are added when any counts are, or none were sent.
        """

    def read(self, deployment_id: str, time_range: TimeRange, now_s: float) -> Mapping[int, Interval]:
        """What was delta in a range, by the start of the interval; intervals without anything are left out."""

    def last_progress(self, deployment_id: str) -> float | None:
        """When a mark moved last, in seconds since the epoch; None when none has moved, or not for a week."""

    def drop(self, deployment_id: str) -> None:
        """Remove all of a deployment. Only when none of its workers runs."""
