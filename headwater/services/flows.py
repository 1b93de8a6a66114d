"""Configurations: create, read, change, delete."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from headwater.errors import (
    NotFound,
    PreconditionFailed,
    Fault,
    SavedMeanwhile,
    SetStoreUnavailable,
    StoreUnavailable,
)
from headwater.model.dataset import SetId, filter_set
from headwater.model.flow import Flow, NewFlow, PipelineConfig
from headwater.model.listing import Place, parts_of
from headwater.model.transform import KnownTransform, NewTransform
from headwater.services.pipeline_checker import CheckedPipeline, PipelineChecker
from headwater.services.ids import Clock, NewId
from headwater.stores import cleanup
from headwater.stores.base import UnsavedSets, FlowStore, RevisionStore, SetStore

PAGE_SIZE = 500

IfMatch = frozenset[int] | None
"""The revisions that a caller is ready to change; None for whichever is the newest."""

_on_conflict = Retrying(
    retry=retry_if_exception_type(SavedMeanwhile), stop=stop_after_attempt(50), wait=wait_random(0, 0.05), reraise=True
)


@dataclass(frozen=True, slots=True)
class SavedFlow:
    """A configuration at its new revision, and what its owner should know of the save."""

    flow: Flow
    warnings: list[Fault]


@dataclass(frozen=True, slots=True)
class FlowList:
    """Configurations, read part by part while they are taken. following: the place where the next page begins."""

    parts: Iterator[Sequence[Flow]]
    following: Place | None


@dataclass(frozen=True, slots=True)
class FlowStores:
    """What configurations are kept in."""

    flows: FlowStore
    revisions: RevisionStore
    sets: SetStore
    drafts: UnsavedSets


class Flows:
    """All methods may block on the stores and raise StoreUnavailable or SetStoreUnavailable.

    Those that save block while the sandbox compiles scripts, and raise InvalidInput, SandboxFailed. Values of new
    filters are written first: a revision that can be seen has its values, and one that is not saved leaves none.
    Saves at once come one after the other; none is lost half-way.
    """

    def __init__(self, stores: FlowStores, checker: PipelineChecker, now: Clock, new_id: NewId) -> None:
        self._store = stores.flows
        self._revisions = stores.revisions
        self._sets = stores.sets
        self._drafts = stores.drafts
        self._checker = checker
        self._now = now
        self._new_id = new_id

    def create(self, owner: str, sent: NewFlow) -> SavedFlow:
        """Store a new configuration. Raises Conflict when the owner has one with this external_id."""
        checked = self._checker.with_compile_cache().create(sent.pipeline_config)
        now = self._now()
        flow = Flow(
            id=self._new_id(),
            owner=owner,
            name=sent.name,
            description=sent.description,
            tags=tuple(sent.tags),
            pipeline_config=checked.config,
            revision=1,
            created_at=now,
            updated_at=now,
            external_id=sent.external_id,
        )
        return self._save(self._store.create, flow, checked)

    def replace(self, owner: str, flow_id: str, sent: NewFlow, if_match: IfMatch = None) -> SavedFlow:
        """Save a configuration as a whole; this mends one that can't be read.

        Raises NotFound, PreconditionFailed, and Conflict for an external_id.
        """
        checker = self._checker.with_compile_cache()

        def changed(stored: Flow) -> tuple[Flow, CheckedPipeline]:
            checked = checker.replace(sent.pipeline_config, stored.pipeline_config)
            external_id = sent.external_id if "external_id" in sent.model_fields_set else stored.external_id
            saved = replace(
                stored,
                name=sent.name,
                description=sent.description,
                tags=tuple(sent.tags),
                external_id=external_id,
                damage="",
            )
            return saved, checked

        return self._change(owner, flow_id, if_match, changed)

    def replace_transforms(
        self, owner: str, flow_id: str, sent: Sequence[NewTransform], if_match: IfMatch = None
    ) -> SavedFlow:
        """Save another list of transforms. Raises NotFound, PreconditionFailed."""
        checker = self._checker.with_compile_cache()
        return self._change_transforms(
            owner, flow_id, if_match, lambda stored: checker.replace_transforms(sent, stored)
        )

    def replace_transform(
        self, owner: str, flow_id: str, uid: str, sent: NewTransform, if_match: IfMatch = None
    ) -> SavedFlow:
        """Save another form of one transform. Raises NotFound, also for an unknown uid, PreconditionFailed."""
        checker = self._checker.with_compile_cache()
        return self._change_transforms(
            owner, flow_id, if_match, lambda stored: checker.replace_transform(uid, sent, stored)
        )

    def _change_transforms(
        self, owner: str, flow_id: str, if_match: IfMatch, check: Callable[[PipelineConfig], CheckedPipeline]
    ) -> SavedFlow:
        def changed(stored: Flow) -> tuple[Flow, CheckedPipeline]:
            stored.require_readable()
            return stored, check(stored.pipeline_config)

        return self._change(owner, flow_id, if_match, changed)

    def _change(
        self, owner: str, flow_id: str, if_match: IfMatch, changed: Callable[[Flow], tuple[Flow, CheckedPipeline]]
    ) -> SavedFlow:
        """Save what `changed` makes of the newest revision; once more when another save came between."""

        def attempt() -> SavedFlow:
            stored = self._expected(owner, flow_id, if_match)
            flow, checked = changed(stored)
            new = replace(flow, pipeline_config=checked.config, revision=stored.revision + 1, updated_at=self._now())
            return self._save(self._store.save, new, checked)

        return _on_conflict(attempt)

    def _expected(self, owner: str, flow_id: str, if_match: IfMatch) -> Flow:
        """The newest revision, which the store then holds fast: it refuses a change that was made from another."""
        stored = self._store.get(owner, flow_id)
        if if_match is not None and stored.revision not in if_match:
            raise PreconditionFailed(
                f'If-Match names another revision than the newest one, which is "{stored.revision}". Read the '
                "configuration again, and send your change with the ETag that you get."
            )
        return stored

    def _save(self, save: Callable[[Flow], None], flow: Flow, checked: CheckedPipeline) -> SavedFlow:
        sets = {filter_set(flow.id, uid): first for uid, first in checked.values.items()}
        self._drafts.begin(sets, self._now())
        try:
            for target, first in sets.items():
                self._sets.add(target, first)
            save(flow)
        except StoreUnavailable:  # it may be saved: the sweeper looks
            raise
        except Exception:
            self._drop(sets)
            self._end(sets)
            raise
        self._end(sets)
        return SavedFlow(flow, [*checked.warnings, *self._ended(flow, checked)])

    def _ended(self, flow: Flow, checked: CheckedPipeline) -> Iterator[Fault]:
        """What becomes of the values of filters that end while new filters begin: it may be a mistake."""
        if not checked.new_filters or not checked.ended_filters:
            return
        told = "; ".join(f"{old.uid} ({old.content}) {self._values_of(flow, old)}" for old in checked.ended_filters)
        for pointer in checked.new_filters:
            yield Fault(
                pointer,
                f"is a new filter, and these filters end with this revision: {told}. The new filter has none of their "
                "values. To change a filter and keep its values, send it with its uid or its name.",
            )

    def _values_of(self, flow: Flow, ended: KnownTransform) -> str:
        try:
            return f"with {self._sets.count(filter_set(flow.id, ended.uid))[0]} values"
        except SetStoreUnavailable as error:
            return f"with its values ({error.detail})"

    def _end(self, sets: Iterable[SetId]) -> None:
        with suppress(SetStoreUnavailable):  # the sweeper looks then
            self._drafts.end(sets)

    def _drop(self, sets: Iterable[SetId]) -> None:
        for target in sets:
            self._sets.drop(target)

    def get(self, owner: str, flow_id: str) -> Flow:
        """The newest revision. Raises NotFound."""
        return self._store.get(owner, flow_id)

    def list(self, owner: str, after: Place | None = None, limit: int | None = None) -> FlowList:
        """The configurations of an owner behind a place, newest first; all of them without a limit."""
        if limit is None:
            return FlowList(self._all(owner, after), None)
        places = self._store.list_positions(owner, after, limit + 1)
        return FlowList(self._read(owner, places[:limit]), places[limit - 1] if len(places) > limit else None)

    def _all(self, owner: str, after: Place | None) -> Iterator[Sequence[Flow]]:
        while places := self._store.list_positions(owner, after, PAGE_SIZE):
            yield from self._read(owner, places)
            after = places[-1]

    def _read(self, owner: str, places: Sequence[Place]) -> Iterator[Sequence[Flow]]:
        return (self._store.get_many(owner, [place.id for place in part]) for part in parts_of(places))

    def with_external_id(self, owner: str, external_id: str) -> Sequence[Flow]:
        """The owner's configuration with this external_id: a list of none or one."""
        return self._store.with_external_id(owner, external_id)

    def delete(self, owner: str, flow_id: str, if_match: IfMatch = None) -> None:
        """Make a configuration invisible and ask for its deployment to go. `forget` ends it; until then it is no error
        to ask again.

        Raises NotFound, PreconditionFailed.
        """

        def attempt() -> None:
            expected = None if if_match is None else self._expected(owner, flow_id, if_match).revision
            self._store.delete(owner, flow_id, expected)

        try:
            _on_conflict(attempt)
        except NotFound:
            if all((flow.id, flow.owner) != (flow_id, owner) for flow in self._store.deleted()):
                raise

    def forget(self, flow_id: str) -> None:
        """Remove a deleted configuration that has no deployment any more, with its filter values. Idempotent."""
        cleanup.purge(flow_id, self._store, self._revisions, self._sets)
