"""Runs v8 transforms in a real sandbox, with sets in memory."""

from collections.abc import Sequence

from headwater.errors import RedisUnavailable
from headwater.model.record import Failure
from headwater.model.transforms.v8 import V8Transform
from headwater.model.value_sets import SetId, dataset_set_id, normalise
from headwater.sandbox import Sandbox
from headwater.transforms.base import TransformContext
from headwater.transforms.v8 import V8Script, build
from tests.support.memory.sets import MemoryDatasetNames, MemorySetStore
from tests.support.sandbox import batch


class Stores(MemorySetStore):
    """Sets that can be unavailable.

    Attributes:
        away: Whether lookups fail.
        asked: The number of distinct values of each bulk lookup.
    """

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.asked: list[int] = []

    def contains_many(self, set_id: SetId, values: Sequence[str]) -> list[bool]:
        if self.away:
            raise RedisUnavailable("away")
        self.asked.append(len(set(values)))
        return super().contains_many(set_id, values)


class Bench:
    """A sandbox with datasets.

    The owner "ann" has `wallets` and `tokens`, and "bob" has `secret`.
    """

    def __init__(self) -> None:
        self.sandbox = Sandbox(spare=False)
        self.sets, self.names = Stores(), MemoryDatasetNames()
        for owner, name in (("ann", "wallets"), ("ann", "tokens"), ("bob", "secret")):
            self.names.put(owner, name, f"{owner}-{name}")
        self._scripts: dict[str, V8Script] = {}

    def fill(self, name: str, values: Sequence[str]) -> None:
        self.sets.replace(dataset_set_id(f"ann-{name}"), map(normalise, values))

    def transform(self, script: str) -> V8Script:
        """Return the transform of a script, which is cached by script."""
        if script not in self._scripts:
            config = V8Transform(uid="u1", type="v8", script=script)
            resources = TransformContext("c1", "ann", self.sets, self.names, sandbox=self.sandbox)
            self._scripts[script] = build(config, resources)
        return self._scripts[script]

    def run(self, script: str, values: Sequence[bytes | None]) -> tuple[list[bytes | None], list[Failure]]:
        outcome = self.transform(script).start(batch(values)).result()
        return [*outcome.output.values], outcome.failures
