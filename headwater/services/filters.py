"""Reads and changes the values of redis_set_filter transforms."""

from collections.abc import Iterable
from itertools import chain

from headwater.errors import Conflict, NotFound
from headwater.model.transforms import SET_TYPES
from headwater.model.transforms.base import TransformIdentity
from headwater.model.value_sets import SetId, filter_set_id, normalise_all
from headwater.services.set_values import Values, normalise_one, normalised_parts
from headwater.services.transform_identities import find_by_uid, transform_not_found
from headwater.stores.protocols.configurations import FlowStore
from headwater.stores.protocols.deployments import DeploymentStore
from headwater.stores.protocols.sets import SetStore, SetSummary, SetWriteResult, ValuePage


class Filters:
    """Reads and changes the values of filters.

    All methods may block. They raise DatabaseUnavailable, RedisUnavailable, NotFound when the configuration or the
    transform does not exist, and Conflict when the transform owns no set.
    """

    def __init__(self, flows: FlowStore, deployments: DeploymentStore, sets: SetStore) -> None:
        self._flows = flows
        self._deployments = deployments
        self._sets = sets

    def require(self, owner: str, config_id: str, uid: str) -> None:
        """Raise NotFound or Conflict unless the filter exists."""
        self.set_id(owner, config_id, uid)

    def set_id(self, owner: str, config_id: str, uid: str) -> SetId:
        """Return the id of the set of a filter in the saved revision or in a deployed revision."""
        transform = self._find(owner, config_id, uid)
        if transform.type not in SET_TYPES:
            names = " or ".join(sorted(SET_TYPES))
            raise Conflict(f"This transform is a {transform.type}; only a {names} has filter values.")
        return filter_set_id(config_id, uid)

    def _find(self, owner: str, config_id: str, uid: str) -> TransformIdentity:
        saved_config = self._flows.get(owner, config_id).pipeline_config
        if transform := find_by_uid(saved_config.transform_identities, uid):
            return transform
        deployment = self._deployments.active(config_id)
        for revision in deployment.revisions if deployment else ():
            if transform := find_by_uid(revision.config.transform_identities, uid):
                return transform
        raise transform_not_found()

    def add(self, owner: str, config_id: str, uid: str, values: Values) -> SetWriteResult:
        """Add values. Idempotent."""
        written = self._sets.add(self.set_id(owner, config_id, uid), normalise_all(values))
        self._drop_if_deleted(owner, config_id, uid)
        return written

    def remove(self, owner: str, config_id: str, uid: str, values: Values) -> SetWriteResult:
        """Remove values. Idempotent."""
        return self._sets.remove(self.set_id(owner, config_id, uid), normalise_all(values))

    def replace(self, owner: str, config_id: str, uid: str, parts: Iterable[Values]) -> SetWriteResult:
        """Replace all values.

        When a value is invalid, or iterating the parts raises, nothing changes.
        """
        set_id = self.set_id(owner, config_id, uid)
        written = self._sets.replace(set_id, chain.from_iterable(normalised_parts(parts)))
        self._drop_if_deleted(owner, config_id, uid)
        return written

    def page(self, owner: str, config_id: str, uid: str, cursor: int | None, count: int) -> ValuePage:
        """Return one page of values."""
        return self._sets.page(self.set_id(owner, config_id, uid), cursor, count)

    def check(self, owner: str, config_id: str, uid: str, value: str) -> bool:
        """Whether the normalised value is in the filter. Raises InvalidInput."""
        set_id = self.set_id(owner, config_id, uid)
        return self._sets.contains_many(set_id, [normalise_one(value)])[0]

    def summary(self, owner: str, config_id: str, uid: str) -> SetSummary:
        """Return the number of values, the version and the digest of the set."""
        return self._sets.summary(self.set_id(owner, config_id, uid))

    def _drop_if_deleted(self, owner: str, config_id: str, uid: str) -> None:
        """Drop the set when the configuration was deleted during a write.

        The write may have re-created the set. When only the transform was removed from the configuration, the values
        are kept for some time. Raises NotFound in both cases.
        """
        try:
            self._flows.get(owner, config_id)
        except NotFound:
            self._sets.drop(filter_set_id(config_id, uid))
            raise
        self.require(owner, config_id, uid)
