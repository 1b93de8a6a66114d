"""Reads and changes the values of redis_set_filter transforms."""

from collections.abc import Iterable
from itertools import chain

from headwater.errors import Conflict, NotFound
from headwater.model.transforms import SET_TYPES
from headwater.model.transforms.base import TransformIdentity
from headwater.model.value_sets import SetId, filter_set_id, normalise_all
from headwater.services.identities import find, transform_not_found
from headwater.services.set_values import Values, normalise_one, normalised_parts
from headwater.stores.protocols.configurations import FlowStore
from headwater.stores.protocols.deployments import DeploymentStore
from headwater.stores.protocols.sets import SetCount, SetStore, SetWriteResult, ValuePage


class Filters:
    """Reads and changes the values of filters.

    All methods may block and raise DatabaseUnavailable and RedisUnavailable, and the errors of `target`.
    """

    def __init__(self, flows: FlowStore, deployments: DeploymentStore, sets: SetStore) -> None:
        self._flows = flows
        self._deployments = deployments
        self._sets = sets

    def target(self, owner: str, config_id: str, uid: str) -> SetId:
        """Return the id of the set of a filter in the saved or the running revision.

        Raises NotFound, and Conflict when the transform owns no set.
        """
        transform = self._find(owner, config_id, uid)
        if transform.type not in SET_TYPES:
            names = " or ".join(sorted(SET_TYPES))
            raise Conflict(f"This transform is a {transform.type}; only a {names} has filter values.")
        return filter_set_id(config_id, uid)

    def _find(self, owner: str, config_id: str, uid: str) -> TransformIdentity:
        saved = self._flows.get(owner, config_id).pipeline_config.transform_identities
        if found := find(saved, uid):
            return found
        deployment = self._deployments.active(config_id)
        for revision in deployment.revisions if deployment else ():
            if found := find(revision.config.transform_identities, uid):
                return found
        raise transform_not_found()

    def add(self, owner: str, config_id: str, uid: str, values: Values) -> SetWriteResult:
        """Add values. Idempotent."""
        target = self.target(owner, config_id, uid)
        stored = normalise_all(values)
        written = self._sets.add(target, stored)
        self._undo_if_deleted(owner, config_id, uid)
        return written

    def remove(self, owner: str, config_id: str, uid: str, values: Values) -> SetWriteResult:
        """Remove values. Idempotent."""
        return self._sets.remove(self.target(owner, config_id, uid), normalise_all(values))

    def replace(self, owner: str, config_id: str, uid: str, parts: Iterable[Values]) -> SetWriteResult:
        """Replace all values.

        When a value is invalid, or iterating the parts raises, nothing changes.
        """
        target = self.target(owner, config_id, uid)
        written = self._sets.replace(target, chain.from_iterable(normalised_parts(parts)))
        self._undo_if_deleted(owner, config_id, uid)
        return written

    def page(self, owner: str, config_id: str, uid: str, cursor: int | None, count: int) -> ValuePage:
        """One page of values."""
        return self._sets.page(self.target(owner, config_id, uid), cursor, count)

    def check(self, owner: str, config_id: str, uid: str, value: str) -> bool:
        """Whether the normalised value is in the filter. Raises InvalidInput."""
        target = self.target(owner, config_id, uid)
        return self._sets.contains_many(target, [normalise_one(value)])[0]

    def count(self, owner: str, config_id: str, uid: str) -> SetCount:
        """Return the number of values and the version of the set."""
        return self._sets.count(self.target(owner, config_id, uid))

    def _undo_if_deleted(self, owner: str, config_id: str, uid: str) -> None:
        """Drop the set again when the configuration was deleted during the write.

        The write may have re-created the set. The values of a filter that was only removed from its configuration are
        kept for some time.
        """
        try:
            self._flows.get(owner, config_id)
        except NotFound:
            self._sets.drop(filter_set_id(config_id, uid))
            raise
        self.target(owner, config_id, uid)
