"""Protocol of a transform: what turns one batch into another."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from headwater.model.record import Outcome, RecordBatch
from headwater.sandbox.sandbox import Sandbox
from headwater.stores.protocols.sets import DatasetNames, SetLookup


@dataclass(frozen=True, slots=True)
class TransformContext:
    """What a worker gives its transforms to be built with. log takes lines of `console.log`.

    sandbox: the worker's one sandbox, shared by its v8 transforms; not needed by others.
    output_to_script: a script follows this transform further down the chain.
    """

    config_id: str
    owner: str
    sets: SetLookup
    names: DatasetNames
    jit: bool
    log: Callable[[str], None]
    sandbox: Sandbox | None = None
    output_to_script: bool = False


class Pending(Protocol):
    """A batch in work. The engine keeps some batches in flight, so that the V8 child and Python work side by side."""

    def done(self) -> bool:
        """True when `result` will not block. Moves the work on as far as it goes without waiting."""

    def wait(self, timeout_s: float) -> None:
        """Return when it is done, or after about `timeout_s`."""

    def result(self) -> Outcome:
        """Wait for the outcome, at most some seconds.

        Raises SetStoreUnavailable when sets can't be read: the batch is kept, call `result` again later.
        Raises SandboxFailed when the V8 child can't be brought back. Record errors are in the outcome.
        """


class Transform(Protocol):
    """One step of a pipeline; implementations are in transforms/, one file per `type`. Used by the engine's thread."""

    @property
    def uid(self) -> str:
        """The transform's uid, named in dead letters."""

    def start(self, batch: RecordBatch) -> Pending:
        """Take a batch into work. Batches end in the order in which they were started. The batch is not changed."""

    def close(self) -> None:
        """Free what the transform holds."""
