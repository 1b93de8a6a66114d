"""Removes the data of deleted configurations: the sets of their filters, then the rows.

After an interruption, the next call completes the work, because the rows name the sets that are left.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from headwater.model.value_sets import filter_set
from headwater.stores.protocols.configurations import FlowStore, RevisionStore
from headwater.stores.protocols.sets import SetStore, UnsavedSets


def purge_configuration(flow_id: str, flows: FlowStore, revisions: RevisionStore, sets: SetStore) -> None:
    """Remove a deleted configuration without a deployment, and the values of its filters."""
    removed = frozenset(removed.uid for removed in revisions.removed_filters(flow_id=flow_id))
    _drop(sets, flow_id, removed.union(*revisions.filters(flow_id).values()))
    flows.purge(flow_id)


def remove_superseded(revisions: RevisionStore, before: datetime, now: datetime) -> None:
    """Remove the revisions that were superseded before `before`.

    The values of filters that only these revisions contained are kept until `remove_expired_filters`.
    """
    for flow_id, superseded in revisions.superseded(before).items():
        revisions.remove(flow_id, superseded, now)


def remove_expired_filters(revisions: RevisionStore, sets: SetStore, before: datetime) -> None:
    """Drop the values of filters that were removed before `before`.

    A filter that a revision contains again is kept.
    """
    expired: dict[str, list[str]] = defaultdict(list)
    for removed in revisions.removed_filters(before=before):
        expired[removed.flow_id].append(removed.uid)
    for flow_id, uids in expired.items():
        _drop(sets, flow_id, frozenset(uids).difference(*revisions.filters(flow_id).values()))
        revisions.delete_removed_filters(flow_id, uids)


def remove_unsaved_sets(unsaved: UnsavedSets, revisions: RevisionStore, sets: SetStore, before: datetime) -> None:
    """Drop filter sets that were first written before `before` and whose revision is unsaved."""
    for target in unsaved.begun_before(before):
        flow_id, _, uid = target.id.partition(".")
        kept = {removed.uid for removed in revisions.removed_filters(flow_id=flow_id)}
        if uid not in kept.union(*revisions.filters(flow_id).values()):
            sets.drop(target)
        unsaved.end([target])


def _drop(sets: SetStore, flow_id: str, uids: Iterable[str]) -> None:
    for uid in uids:
        sets.drop(filter_set(flow_id, uid))
