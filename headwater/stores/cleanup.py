"""Removes what configurations leave behind: the sets of their filters, and then the rows that name them.

Cut off anywhere, the next call finishes the work.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from headwater.model.dataset import filter_set
from headwater.stores.base import FlowStore, RevisionStore, SetStore, UnsavedSets


def purge(flow_id: str, flows: FlowStore, revisions: RevisionStore, sets: SetStore) -> None:
    """Remove a deleted configuration that has no deployment any more, with the values of all its filters."""
    removed = frozenset(removed.uid for removed in revisions.removed_filters(flow_id=flow_id))
    _drop(sets, flow_id, removed.union(*revisions.filters(flow_id).values()))
    flows.purge(flow_id)


def remove_superseded(revisions: RevisionStore, before: datetime, now: datetime) -> None:
    """Remove the revisions that nobody needs since `before`. The values of filters that only they had are kept."""
    for flow_id, superseded in revisions.superseded(before).items():
        revisions.remove(flow_id, superseded, now)


def remove_expired_filters(revisions: RevisionStore, sets: SetStore, before: datetime) -> None:
    """Drop the values of filters that were removed before `before`, unless a revision has them again."""
    expired: dict[str, list[str]] = defaultdict(list)
    for removed in revisions.removed_filters(before=before):
        expired[removed.flow_id].append(removed.uid)
    for flow_id, uids in expired.items():
        _drop(sets, flow_id, frozenset(uids).difference(*revisions.filters(flow_id).values()))
        revisions.delete_removed_filters(flow_id, uids)


def remove_unsaved_sets(drafts: UnsavedSets, revisions: RevisionStore, sets: SetStore, before: datetime) -> None:
    """Drop the sets that were written before `before` for a save that never came."""
    for target in drafts.begun_before(before):
        flow_id, _, uid = target.id.partition(".")
        kept = {removed.uid for removed in revisions.removed_filters(flow_id=flow_id)}
        if uid not in kept.union(*revisions.filters(flow_id).values()):
            sets.drop(target)
        drafts.end([target])


def _drop(sets: SetStore, flow_id: str, uids: Iterable[str]) -> None:
    for uid in uids:
        sets.drop(filter_set(flow_id, uid))
