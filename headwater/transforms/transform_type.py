"""Declares how transforms of a `type` are checked, compiled and built."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headwater.errors import Fault
from headwater.model.transforms import Transform as TransformConfig
from headwater.model.transforms.v8 import CheckedScript
from headwater.transforms.base import Transform, TransformContext

ValidateScript = Callable[[str, str], CheckedScript]
"""Compiles a script in the sandbox and runs it on an example record (JSON text).

Raises InvalidScript, whose detail names line and column where they are known, and SandboxFailed.
"""


class CompileContext(NamedTuple):
    """The context of the functions that compile transforms when a configuration is saved.

    Attributes:
        validate_script: Compiles a script.
        example: An example record of the stream, as JSON text.
        stored: The transforms of the stored configuration, if they were compiled with this example.
        fields: The fields of the records that reach the transform; None when a script before it makes other records.
    """

    validate_script: ValidateScript
    example: str
    stored: Sequence[TransformConfig] = ()
    fields: Collection[str] | None = None


class Compiled(NamedTuple):
    """A transform as it is stored.

    The JSON pointers of faults and warnings are relative to the transform.
    """

    config: TransformConfig
    faults: Sequence[Fault] = ()
    warnings: Sequence[Fault] = ()


def _no_faults(_: Any) -> Iterable[Fault]:
    return ()


def _unchanged(config: TransformConfig, _: CompileContext) -> Compiled:
    return Compiled(config)


@dataclass(frozen=True, slots=True)
class TransformType:
    """The code of a `type` of transforms.

    The fields of its configuration, and their documentation, are in model/transforms/.

    Attributes:
        build: Builds the transform of a worker, or of a trial, from its stored configuration.
        check: Yields the faults of a transform that the pydantic model can't express. The JSON pointers are relative
            to the transform.
        compile: Completes a transform that is saved. It may be slow, so it is called only when `check` has found no
            fault.
        keeps_records: Whether the records that leave the transform are records that it has received, unchanged.
    """

    build: Callable[[Any, TransformContext], Transform]
    check: Callable[[Any], Iterable[Fault]] = _no_faults
    compile: Callable[[Any, CompileContext], Compiled] = _unchanged
    keeps_records: bool = False
