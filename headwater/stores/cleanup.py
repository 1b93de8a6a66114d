"""Removes data in both stores.

The sets of filters in Redis are removed first, and then the rows in SQL that name the sets. So after an interruption,
the next call completes the work. The API and the controller remove data, and this is the lowest package that knows both
stores.
"""

from collections.abc import Iterable
from datetime import datetime

from headwater.model.value_sets import filter_set_id, parse_filter_set_id
from headwater.stores.protocols.configurations import FlowStore, RevisionStore
from headwater.stores.protocols.sets import PendingSets, SetStore


def purge_configuration(config_id: str, flows: FlowStore, revisions: RevisionStore, sets: SetStore) -> None:
    """Remove a deleted configuration and the values of its filters.

    The configuration must have no active deployment.
    """
    _drop(sets, config_id, _removed_uids(revisions, config_id) | _stored_uids(revisions, config_id))
    flows.purge(config_id)


def remove_superseded(revisions: RevisionStore, before: datetime, kept: int, now: datetime) -> None:
    """Remove the revisions that were superseded before `before`, except the newest ones.

    Filters that are no longer used are recorded as removed. The values of removed filters are kept until
    `remove_expired_filters`.

    Args:
        kept: The number of newest revisions of each configuration that are kept.
        now: The time at which filters are recorded as removed.
    """
    revisions.record_removed_filters(now)
    for config_id, numbers in revisions.superseded(before, kept).items():
        revisions.remove(config_id, numbers, now)


def remove_expired_filters(revisions: RevisionStore, sets: SetStore, before: datetime) -> None:
    """Drop the values of filters that were removed before `before`.

    A filter that a revision contains again is kept. After an interruption, the next call completes the work.
    """
    for config_id, uids in revisions.begin_drop(before).items():
        _drop(sets, config_id, uids)
        revisions.finish_drop(config_id, uids)


def remove_abandoned_sets(
    pending_sets: PendingSets, revisions: RevisionStore, sets: SetStore, before: datetime
) -> None:
    """Drop pending sets that were added before `before` and whose revision was not saved."""
    for set_id in pending_sets.added_before(before):
        config_id, uid = parse_filter_set_id(set_id)
        if uid not in _removed_uids(revisions, config_id) | _stored_uids(revisions, config_id):
            sets.drop(set_id)
        pending_sets.remove([set_id])


def _stored_uids(revisions: RevisionStore, config_id: str) -> frozenset[str]:
    """Return the uids of the filters in all stored revisions of a configuration."""
    return frozenset[str]().union(*revisions.filters(config_id).values())


def _removed_uids(revisions: RevisionStore, config_id: str) -> frozenset[str]:
    return frozenset(removed.uid for removed in revisions.removed_filters(config_id))


def _drop(sets: SetStore, config_id: str, uids: Iterable[str]) -> None:
    for uid in uids:
        sets.drop(filter_set_id(config_id, uid))
