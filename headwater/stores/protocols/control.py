"""The protocols of the other stores of the control plane.

They hold leases, API keys, quotas, datasets, the audit log and requests.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from headwater.model.audit import AuditEntry, AuditQuery, Change
from headwater.model.idempotency import Claim, StoredResponse
from headwater.model.key import ApiKey
from headwater.model.lease import Candidate, Fence, Leader
from headwater.model.quota import Allowed, QuotaName, Reservation, Usage
from headwater.model.value_sets import Dataset, SetId


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A stored row that this version can't read.

    Attributes:
        kind: The kind of object, such as "deployment".
        id: The id of the object.
        owner: The owner of the object; empty if it has none.
        reason: What is wrong, and what to do.
    """

    kind: str
    id: str
    owner: str
    reason: str


class Leases(Protocol):
    """Leases, by which one of several controllers is the leader.

    Only the database's clock decides when one expires. Inside `model.lease.fenced_by`, a write of any store of the
    control plane raises LeaseLost and changes nothing when the lease has another fencing number. The check and the
    write are one transaction.
    """

    def acquire(self, name: str, candidate: Candidate, ttl_s: float) -> int | None:
        """Acquire a lease, or renew it, for `ttl_s` from now.

        Return None while another live process holds it. Return the fencing number, which rises with each change of the
        holder. A lease is free when it was released, when it has expired, or when the candidate holds the same host
        lock as the recorded holder, which proves that this holder has ended. A lease that would expire later than
        `ttl_s` from now is shortened to that, because it was written before the clock was set back.
        """

    def release(self, name: str, holder: str) -> None:
        """Release the lease. Do nothing when `holder` does not hold it."""

    def leader(self, name: str) -> Leader | None:
        """Return the present holder of the lease; None when nobody holds it."""

    def check(self, fence: Fence) -> None:
        """Raise LeaseLost when the lease has another fencing number than the fence."""


class KeyStore(Protocol):
    """API keys."""

    def create(self, key: ApiKey) -> None:
        """Store a new key."""

    def find(self, key_id: str) -> ApiKey | None:
        """Return the key with this id, also when it is revoked."""

    def list(self) -> Sequence[ApiKey]:
        """Return all keys, newest first."""

    def revoke(self, key_id: str, at: datetime) -> None:
        """Revoke a key. A key that is revoked twice keeps the first time. Raises NotFound."""

    def record_use(self, at: dict[str, datetime]) -> None:
        """Write when keys were last used, by key id."""


class QuotaStore(Protocol):
    """The limits and the usage of each owner's quotas.

    The other stores enforce the limits when they write.
    """

    @property
    def total(self) -> Mapping[QuotaName, int]:
        """Return the limits for all owners together."""

    def allowed(self, owner: str) -> Allowed:
        """Return the limits of an owner."""

    def usage(self, owner: str) -> Usage:
        """Return the usage of an owner, except `set_values`, which the set store counts."""

    def set_limits(self, owner: str, limits: Allowed, reset: Sequence[QuotaName]) -> None:
        """Set limits of an owner, and reset the limits in `reset` to those of the settings.

        None means unlimited.
        """

    def overrides(self) -> Mapping[str, Allowed]:
        """Return by owner the limits that differ from the settings because `set_limits` set them."""

    def sets(self, owner: str | None = None) -> Sequence[SetId]:
        """Return the sets of an owner, or of all owners: datasets, and filters of revisions.

        Each set is returned once. A removed filter is included while its values are kept.
        """


class DatasetStore(Protocol):
    """The rows of datasets.

    Their values are in the SetStore, and the names that scripts use are in DatasetNames.
    """

    def create(self, dataset: Dataset) -> None:
        """Store a dataset in the state "pending".

        Raises Conflict when the owner has another dataset of this name.
        """

    def set_state(self, dataset_id: str, state: Literal["live", "deleting"]) -> None:
        """Change the state of a dataset. Unknown ids are no error."""

    def get(self, owner: str, dataset_id: str) -> Dataset:
        """Return a live dataset. Raises NotFound."""

    def removable(self, owner: str, dataset_id: str) -> Dataset:
        """Return a dataset that is live, or whose removal was interrupted. Raises NotFound."""

    def list(self, owner: str, names: Sequence[str] = ()) -> Sequence[Dataset]:
        """Return the live datasets of an owner, newest first.

        If names are given, return only datasets with these.
        """

    def remove(self, dataset_id: str) -> None:
        """Remove the row of a dataset."""

    def incomplete(self) -> Sequence[Dataset]:
        """Return the datasets that an interrupted process left as "pending" or "deleting"."""


class AuditLog(Protocol):
    """The log of changes and their actors.

    The other stores write their changes here, in the same transaction. The actor of each entry is
    `model.audit.actor()`.
    """

    def begin(self, change: Change) -> int:
        """Write a pending entry before a change outside of the database.

        Returns the id of the entry.
        """

    def close(self, entry_id: int, state: Literal["done", "failed"], after: str = "") -> None:
        """Close a pending entry. Do nothing when it is closed already, or was purged."""

    def read(self, query: AuditQuery) -> Sequence[AuditEntry]:
        """Return the newest entries that match a query, newest first."""

    def purge(self, before: datetime) -> int:
        """Delete the entries from before a time; return how many."""


class IdempotencyStore(Protocol):
    """The state of requests with an Idempotency-Key.

    One process at a time claims a request, until a time. Only the process that holds the claim may change the record.
    Requests are named by `model.idempotency.call_id`.
    """

    def claim(self, request: str, holder: str, now: datetime, until: datetime) -> Claim:
        """Claim a request that is unclaimed and has no response, or whose record has expired.

        Exactly one of several concurrent callers succeeds.
        """

    def renew(self, request: str, holder: str, until: datetime) -> None:
        """Extend a claim.

        `renew`, `finish` and `release` do nothing when `holder` does not hold the claim.
        """

    def finish(self, request: str, holder: str, answered: StoredResponse, until: datetime) -> None:
        """Store the response of a request until a time, and end the claim."""

    def release(self, request: str, holder: str) -> None:
        """Delete the record of a request, so that the request can be made again."""

    def purge(self, now: datetime) -> int:
        """Delete the records that have expired; return how many."""


@dataclass(frozen=True, slots=True)
class TokenResult:
    """The result of taking a token from a bucket, and how many tokens are left."""

    taken: bool
    tokens: float


class TokenBuckets(Protocol):
    """Token buckets for rate limits, shared by all processes of the API.

    An unknown bucket is full.
    """

    def take(self, name: str, rate: float, size: int) -> TokenResult:
        """Take one token from a bucket that gains `rate` tokens a second and holds at most `size`.

        Raises RedisUnavailable.
        """


class Reservations(Protocol):
    """Quota reservations: how many values each write in progress may still add.

    All API processes share them.
    """

    def put(self, reservation: Reservation) -> None:
        """Write a reservation; it replaces an earlier one with the same id."""

    def all(self) -> Sequence[Reservation]:
        """Return all reservations, also expired ones."""

    def remove(self, ids: Collection[str]) -> None:
        """Remove reservations. Unknown ids are no error."""
