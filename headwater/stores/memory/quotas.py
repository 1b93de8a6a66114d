"""Quotas in memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from headwater.model.dataset import SetId
from headwater.model.quota import Allowed, QuotaDefaults, QuotaName, Usage, excess
from headwater.stores.sql import store_errors


class MemoryQuotas:
    """QuotaStore in memory. usage: what an owner has, or all together (None). sets: of an owner, or of all."""

    def __init__(
        self,
        defaults: QuotaDefaults,
        usage: Callable[[str | None], Usage],
        sets: Callable[[str | None], Sequence[SetId]],
    ) -> None:
        self._defaults = defaults
        self._usage = usage
        self._own: dict[str, dict[QuotaName, int | None]] = {}
        self.total = defaults.total
        self._sets = sets

    def limits(self, owner: str, names: Sequence[QuotaName]) -> bool:
        """Whether any of these quotas limits the owner or the installation: without one nothing has to be counted."""
        allowed = self.allowed(owner)
        return any(allowed[name] is not None or name in self.total for name in names)

    @contextmanager
    def enforced(self, owner: str, *names: QuotaName, undo: Callable[[], None]) -> Iterator[None]:
        """Compare what there is before and after the block; undo the block and raise QuotaExceeded."""
        before, all_before = self._of(names, owner), self._of(names, None)
        yield
        over = excess(before, self._of(names, owner), self.allowed(owner))
        over = over or excess(all_before, self._of(names, None), self.total, of_all=True)
        if over is not None:
            undo()
            raise store_errors.quota_exceeded(over)

    def _of(self, names: Sequence[QuotaName], owner: str | None) -> Usage:
        usage = self._usage(owner)
        return {name: usage[name] for name in names}

    def allowed(self, owner: str) -> Allowed:
        return self._defaults.allowed(self._own.get(owner, {}))

    def used(self, owner: str) -> Usage:
        return self._usage(owner)

    def change(self, owner: str, changes: Allowed, defaults: Sequence[QuotaName]) -> None:
        own = self._own.setdefault(owner, {})
        for name in defaults:
            own.pop(name, None)
        own.update(changes)
        if not own:
            del self._own[owner]

    def own(self) -> Mapping[str, Allowed]:
        return dict(sorted(self._own.items()))

    def sets(self, owner: str | None = None) -> Sequence[SetId]:
        return self._sets(owner)
