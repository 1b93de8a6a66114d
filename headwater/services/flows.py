"""Creates, reads, changes and deletes configurations."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from headwater.errors import (
    ConcurrentUpdate,
    DatabaseUnavailable,
    Fault,
    NotFound,
    PreconditionFailed,
    RedisUnavailable,
    StoredDataUnreadable,
)
from headwater.model.flow import Flow, NewFlow, PipelineConfig
from headwater.model.pagination import ListPosition, split_by_size
from headwater.model.transforms import NewTransform
from headwater.model.transforms.base import TransformIdentity
from headwater.model.value_sets import SetId, filter_set_id
from headwater.services.ids import NewId, Now
from headwater.services.pipeline_checker import UNREADABLE_REVISION, CheckedPipeline, PipelineChecker
from headwater.stores import cleanup
from headwater.stores.protocols.configurations import FlowStore, RevisionStore
from headwater.stores.protocols.sets import PendingSets, SetStore

PAGE_SIZE = 500

IfMatch = frozenset[int] | None
"""The revisions in the If-Match header, one of which must be the newest. None is no condition."""

_retry_on_conflict = Retrying(
    retry=retry_if_exception_type(ConcurrentUpdate),
    stop=stop_after_attempt(50),
    wait=wait_random(0, 0.05),
    reraise=True,
)


@dataclass(frozen=True, slots=True)
class SavedFlow:
    """A configuration at its new revision, and warnings about the save."""

    flow: Flow
    warnings: list[Fault]


@dataclass(frozen=True, slots=True)
class FlowList:
    """Configurations that are read in parts while they are iterated.

    Attributes:
        next_position: The position after which the next page begins; None on the last page.
    """

    parts: Iterator[Sequence[Flow]]
    next_position: ListPosition | None


@dataclass(frozen=True, slots=True)
class FlowStores:
    """The stores that hold configurations and the values of their filters.

    Attributes:
        pending_sets: Lists the filter sets whose values are written before their revision is saved.
    """

    flows: FlowStore
    revisions: RevisionStore
    sets: SetStore
    pending_sets: PendingSets


class Flows:
    """Creates, reads, changes and deletes configurations.

    All methods may block on the stores and raise DatabaseUnavailable or RedisUnavailable. Methods that save also wait
    for the sandbox and raise InvalidInput and SandboxFailed.

    The values of new filters are written before the revision, so that a visible revision always has its values. When
    the save fails, the values are removed. When another request has saved a revision meanwhile, the save is repeated.
    """

    def __init__(self, stores: FlowStores, checker: PipelineChecker, now: Now, new_id: NewId) -> None:
        self._store = stores.flows
        self._revisions = stores.revisions
        self._sets = stores.sets
        self._pending_sets = stores.pending_sets
        self._checker = checker
        self._now = now
        self._new_id = new_id

    def create(self, owner: str, sent: NewFlow) -> SavedFlow:
        """Store a new configuration.

        Raises Conflict when the owner has a configuration with this external_id.
        """
        checked = self._checker.with_compile_cache().check_new(sent.pipeline_config)
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

    def replace(self, owner: str, config_id: str, sent: NewFlow, if_match: IfMatch = None) -> SavedFlow:
        """Replace a whole configuration.

        This also repairs a configuration that this version can't read. Raises NotFound and PreconditionFailed, and
        Conflict when another configuration has the external_id.
        """
        checker = self._checker.with_compile_cache()

        def change(stored: Flow) -> tuple[Flow, CheckedPipeline]:
            checked = checker.check_replacement(sent.pipeline_config, stored.pipeline_config)
            external_id = sent.external_id if "external_id" in sent.model_fields_set else stored.external_id
            changed = replace(
                stored,
                name=sent.name,
                description=sent.description,
                tags=tuple(sent.tags),
                external_id=external_id,
                tags_error="",
                decryption_error="",
            )
            return changed, checked

        return self._change(owner, config_id, if_match, change)

    def restore(self, owner: str, config_id: str, revision: Flow, if_match: IfMatch = None) -> SavedFlow:
        """Save an earlier revision of a configuration as the newest one.

        The newest revision itself is not saved again. The filters of the revision come back with their uids and the
        values that are kept; a filter whose values have been dropped is empty, and gets a warning. The configuration
        keeps its present external_id when the revision has none, as in a PUT. Raises NotFound, PreconditionFailed and
        StoredDataUnreadable, and Conflict when another configuration has the external_id of the revision.
        """
        if revision.unreadable_reason:
            raise StoredDataUnreadable(UNREADABLE_REVISION)
        newest = self._get_matching(owner, config_id, if_match)
        if newest.revision == revision.revision:
            return SavedFlow(newest, [])
        checker = self._checker.with_compile_cache()

        def change(stored: Flow) -> tuple[Flow, CheckedPipeline]:
            checked = checker.check_restored(revision.pipeline_config, stored.pipeline_config)
            changed = replace(
                stored,
                name=revision.name,
                description=revision.description,
                tags=revision.tags,
                external_id=revision.external_id or stored.external_id,
                tags_error="",
                decryption_error="",
            )
            return changed, checked

        return self._change(owner, config_id, if_match, change, revision.revision)

    def replace_transforms(
        self, owner: str, config_id: str, sent: Sequence[NewTransform], if_match: IfMatch = None
    ) -> SavedFlow:
        """Replace the list of transforms. Raises NotFound, PreconditionFailed."""
        checker = self._checker.with_compile_cache()
        return self._change_transforms(
            owner, config_id, if_match, lambda stored: checker.check_transforms(sent, stored)
        )

    def replace_transform(
        self, owner: str, config_id: str, uid: str, sent: NewTransform, if_match: IfMatch = None
    ) -> SavedFlow:
        """Replace one transform. Raises NotFound, also for an unknown uid, and PreconditionFailed."""
        checker = self._checker.with_compile_cache()
        return self._change_transforms(
            owner, config_id, if_match, lambda stored: checker.check_transform(uid, sent, stored)
        )

    def _change_transforms(
        self, owner: str, config_id: str, if_match: IfMatch, check: Callable[[PipelineConfig], CheckedPipeline]
    ) -> SavedFlow:
        def change(stored: Flow) -> tuple[Flow, CheckedPipeline]:
            stored.require_readable()
            return stored, check(stored.pipeline_config)

        return self._change(owner, config_id, if_match, change)

    def _change(
        self,
        owner: str,
        config_id: str,
        if_match: IfMatch,
        change: Callable[[Flow], tuple[Flow, CheckedPipeline]],
        restored_revision: int | None = None,
    ) -> SavedFlow:
        """Change the newest revision and save the result.

        When another request has saved a revision meanwhile, the save raises ConcurrentUpdate, and both steps are
        repeated.

        Args:
            change: Returns the changed configuration, still with its old pipeline, and the checked pipeline that
                replaces the old one when both are stored.
            restored_revision: The number of the earlier revision that is saved again; None for all other changes.
        """
        save = partial(self._store.save, restored_revision=restored_revision)

        def attempt() -> SavedFlow:
            stored = self._get_matching(owner, config_id, if_match)
            flow, checked = change(stored)
            new = replace(flow, pipeline_config=checked.config, revision=stored.revision + 1, updated_at=self._now())
            return self._save(save, new, checked)

        return _retry_on_conflict(attempt)

    def _get_matching(self, owner: str, config_id: str, if_match: IfMatch) -> Flow:
        """Return the newest revision. Raises PreconditionFailed when If-Match does not name it."""
        stored = self._store.get(owner, config_id)
        if if_match is not None and stored.revision not in if_match:
            raise PreconditionFailed(
                f'If-Match names another revision than the newest one, which is "{stored.revision}". Read the '
                "configuration again, and send your change with the new ETag."
            )
        return stored

    def _save(self, save: Callable[[Flow], frozenset[str] | None], flow: Flow, checked: CheckedPipeline) -> SavedFlow:
        """Write the values of new filters, and then the revision.

        Args:
            save: Stores the revision, and returns the uids of the restored filters whose values are gone.
        """
        sets = {filter_set_id(flow.id, uid): values for uid, values in checked.initial_values.items()}
        self._pending_sets.add(sets, self._now())
        try:
            for set_id, values in sets.items():
                self._sets.add(set_id, values)
            without_values = save(flow) or frozenset()
        except DatabaseUnavailable:
            # Whether the revision was saved is unknown. If it was not, the sweeper removes the values later.
            raise
        except Exception:
            self._drop(sets)
            self._remove_from_pending(sets)
            raise
        self._remove_from_pending(sets)
        warnings = (self._removed_filter_warnings(flow, checked), _dropped_value_warnings(flow, without_values))
        return SavedFlow(flow, [*checked.warnings, *chain.from_iterable(warnings)])

    def _removed_filter_warnings(self, flow: Flow, checked: CheckedPipeline) -> Iterator[Fault]:
        """Yield a warning for each new filter when the same save removes filters.

        The user may have meant to change a filter.
        """
        if not checked.new_filter_pointers or not checked.removed_filters:
            return
        removed = "; ".join(
            f"{transform.uid} ({transform.content}) {self._value_count_text(flow, transform)}"
            for transform in checked.removed_filters
        )
        for pointer in checked.new_filter_pointers:
            yield Fault(
                pointer,
                f"is a new filter, and this revision removes these filters: {removed}. The new filter does not get "
                "their values. To change a filter and keep its values, send it with its uid or its name.",
            )

    def _value_count_text(self, flow: Flow, removed: TransformIdentity) -> str:
        try:
            return f"with {self._sets.count(filter_set_id(flow.id, removed.uid)).size} values"
        except RedisUnavailable as error:
            return f"with its values ({error.detail})"

    def _remove_from_pending(self, sets: Iterable[SetId]) -> None:
        with suppress(RedisUnavailable):  # the sweeper repeats a removal that fails
            self._pending_sets.remove(sets)

    def _drop(self, sets: Iterable[SetId]) -> None:
        for set_id in sets:
            self._sets.drop(set_id)

    def get(self, owner: str, config_id: str) -> Flow:
        """Return the newest revision. Raises NotFound."""
        return self._store.get(owner, config_id)

    def list(self, owner: str, after: ListPosition | None = None, limit: int | None = None) -> FlowList:
        """Return the configurations of an owner, newest first.

        Args:
            after: The position after which this page begins; None for the first page.
            limit: The number of configurations on a page; None for all configurations.
        """
        if limit is None:
            return FlowList(self._read_all(owner, after), None)
        positions = self._store.list_positions(owner, after, limit + 1)
        next_position = positions[limit - 1] if len(positions) > limit else None
        return FlowList(self._read(owner, positions[:limit]), next_position)

    def _read_all(self, owner: str, after: ListPosition | None) -> Iterator[Sequence[Flow]]:
        while positions := self._store.list_positions(owner, after, PAGE_SIZE):
            yield from self._read(owner, positions)
            after = positions[-1]

    def _read(self, owner: str, positions: Sequence[ListPosition]) -> Iterator[Sequence[Flow]]:
        parts = split_by_size(positions, lambda position: position.size)
        return (self._store.get_many(owner, [position.id for position in part]) for part in parts)

    def with_external_id(self, owner: str, external_id: str) -> Sequence[Flow]:
        """Return the owner's configurations with this external_id: one or none."""
        return self._store.with_external_id(owner, external_id)

    def delete(self, owner: str, config_id: str, if_match: IfMatch = None) -> None:
        """Mark a configuration as deleted and request the teardown of its deployment.

        `purge` removes the configuration afterwards. Until then, a repeat of the deletion is no error. Raises NotFound,
        PreconditionFailed.
        """

        def attempt() -> None:
            revision = None if if_match is None else self._get_matching(owner, config_id, if_match).revision
            self._store.delete(owner, config_id, revision)

        try:
            _retry_on_conflict(attempt)
        except NotFound:
            is_deleted = any((flow.id, flow.owner) == (config_id, owner) for flow in self._store.deleted())
            if not is_deleted:
                raise

    def purge(self, config_id: str) -> None:
        """Remove a deleted configuration and its filter values. Idempotent.

        The configuration must have no deployment any more.
        """
        cleanup.purge_configuration(config_id, self._store, self._revisions, self._sets)


def _dropped_value_warnings(flow: Flow, uids: Collection[str]) -> Iterator[Fault]:
    """Yield a warning for each restored filter whose values have been dropped."""
    for i, transform in enumerate(flow.pipeline_config.transforms):
        if transform.uid in uids:
            yield Fault(
                f"/pipeline_config/transforms/{i}",
                "is a filter that was removed earlier, and its values have been deleted since. It is empty: add values "
                f"with …/transforms/{transform.uid}/filter-values.",
            )
