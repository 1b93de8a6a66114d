"""The protocol of a transform, which maps one batch of records to another."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from headwater.model.record import RecordBatch, TransformResult
from headwater.sandbox.sandbox import Sandbox
from headwater.stores.protocols.datasets import DatasetNames
from headwater.stores.protocols.sets import SetLookup


@dataclass(frozen=True, slots=True)
class TransformContext:
    """The context of the functions that build the transforms of a pipeline.

    Attributes:
        config_id: The id of the configuration.
        owner: The owner of the configuration.
        sets: Looks up values in sets.
        names: Resolves the names of datasets.
        sandbox: The sandbox that the v8 transforms of the worker share; None if there are none.
        feeds_script: Whether a later transform of the pipeline is a script.
        max_batch_output_bytes: When a script's outputs of one batch exceed this size, the script is not called for the
            remaining records of the batch (see ScriptBatch). None is no limit.
    """

    config_id: str
    owner: str
    sets: SetLookup
    names: DatasetNames
    sandbox: Sandbox | None = None
    feeds_script: bool = False
    max_batch_output_bytes: int | None = None


class PendingBatch(Protocol):
    """A batch that a transform is processing, like a future.

    The engine keeps several batches in flight, so that Python and the child process with V8 work in parallel.
    """

    def done(self) -> bool:
        """Return whether `result` will not wait for another thread or the process with V8.

        Also advances the work as far as possible without blocking.
        """

    def wait(self, timeout_s: float) -> None:
        """Wait until the batch is done, or for about `timeout_s`."""

    def result(self) -> TransformResult:
        """Wait for the result, and return it.

        Unless `done` is true, the wait for a script may take minutes. Errors of single records are in the result.
        Raises RedisUnavailable when sets can't be read. The batch is kept then, and `result` can be called again.
        Raises SandboxFailed when the child process with V8 can't be restarted.
        """


class DeferredBatch:
    """A PendingBatch whose `result` computes on the caller's thread.

    `result` may wait for Valkey.

    Args:
        compute: Computes the result of the transform. It is called by each call of `result`, because it may raise
            RedisUnavailable.
    """

    def __init__(self, compute: Callable[[], TransformResult]) -> None:
        self._compute = compute

    def done(self) -> bool:
        """Return True always."""
        return True

    def wait(self, timeout_s: float) -> None:
        """Return at once."""

    def result(self) -> TransformResult:
        """See PendingBatch."""
        return self._compute()


class Transform(Protocol):
    """One step of a pipeline.

    Each `type` has an implementation in transforms/. Only the engine's thread uses it.
    """

    @property
    def uid(self) -> str:
        """The uid of the transform, which dead letters contain."""

    def start(self, batch: RecordBatch) -> PendingBatch:
        """Start to process a batch, which is not modified.

        Batches complete in the order in which they are started.
        """

    def close(self) -> None:
        """Free the resources of the transform."""
