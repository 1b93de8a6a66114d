"""Removes what configurations leave behind: the sets of their filters, and then the rows that name them.

Cut off anywhere, the next call finishes the work.
"""

from collections.abc import Iterable
from datetime import datetime

from headwater.model.dataset import filter_set
from headwater.stores.base import DraftSets, FlowStore, RevisionStore, SetStore


def purge(flow_id: str, flows: FlowStore, revisions: RevisionStore, sets: SetStore) -> None:
    """Remove a deleted configuration that has no deployment any more, with the values of all its filters."""
    _drop(sets, flow_id, frozenset().union(*revisions.filters(flow_id).values()))
    flows.purge(flow_id)


def remove_superseded(revisions: RevisionStore, sets: SetStore, before: datetime) -> None:
    """Remove the revisions that nobody needs since `before`, and the values of the filters that only they had."""
    for flow_id, superseded in revisions.superseded(before).items():
        filters = revisions.filters(flow_id)
        gone = {uid for revision in superseded for uid in filters.get(revision, ())}
        kept = {uid for revision in filters.keys() - set(superseded) for uid in filters[revision]}
        _drop(sets, flow_id, gone - kept)
        revisions.remove(flow_id, superseded)


def remove_drafts(drafts: DraftSets, revisions: RevisionStore, sets: SetStore, before: datetime) -> None:
    """Drop the sets that were written before `before` for a save that never came."""
    for target in drafts.begun_before(before):
        flow_id, _, uid = target.id.partition(".")
        if all(uid not in filters for filters in revisions.filters(flow_id).values()):
            sets.drop(target)
        drafts.end([target])


def _drop(sets: SetStore, flow_id: str, uids: Iterable[str]) -> None:
    for uid in uids:
        sets.drop(filter_set(flow_id, uid))
