"""Removes the data of deleted configurations: the sets of their filters, then the rows.

After an interruption, the next call completes the work, because the rows name the sets that are left.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from headwater.model.value_sets import filter_set_id, parse_filter_set_id
from headwater.stores.protocols.configurations import FlowStore, RevisionStore
from headwater.stores.protocols.sets import SetStore, UnsavedSets


def purge_configuration(config_id: str, flows: FlowStore, revisions: RevisionStore, sets: SetStore) -> None:
    """Remove a deleted configuration without a deployment, and the values of its filters."""
    removed = frozenset(removed.uid for removed in revisions.removed_filters(config_id=config_id))
    _drop(sets, config_id, removed.union(*revisions.filters(config_id).values()))
    flows.purge(config_id)


def remove_superseded(revisions: RevisionStore, before: datetime, now: datetime) -> None:
    """Remove the revisions that were superseded before `before`.

    The values of filters that only these revisions contained are kept until `remove_expired_filters`.
    """
    for config_id, superseded in revisions.superseded(before).items():
        revisions.remove(config_id, superseded, now)


def remove_expired_filters(revisions: RevisionStore, sets: SetStore, before: datetime) -> None:
    """Drop the values of filters that were removed before `before`.

    A filter that a revision contains again is kept.
    """
    expired: dict[str, list[str]] = defaultdict(list)
    for removed in revisions.removed_filters(before=before):
        expired[removed.config_id].append(removed.uid)
    for config_id, uids in expired.items():
        _drop(sets, config_id, frozenset(uids).difference(*revisions.filters(config_id).values()))
        revisions.delete_removed_filters(config_id, uids)


def remove_unsaved_sets(unsaved: UnsavedSets, revisions: RevisionStore, sets: SetStore, before: datetime) -> None:
    """Drop filter sets that were first written before `before` and whose revision is unsaved."""
    for target in unsaved.added_before(before):
        config_id, uid = parse_filter_set_id(target)
        kept = {removed.uid for removed in revisions.removed_filters(config_id=config_id)}
        if uid not in kept.union(*revisions.filters(config_id).values()):
            sets.drop(target)
        unsaved.end([target])


def _drop(sets: SetStore, config_id: str, uids: Iterable[str]) -> None:
    for uid in uids:
        sets.drop(filter_set_id(config_id, uid))
