"""Declares how transforms of a `type` are checked, prepared and built."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headwater.errors import Fault
from headwater.model.transforms import TransformConfig
from headwater.model.transforms.v8 import ValidatedScript
from headwater.transforms.base import Transform, TransformContext

ValidateScript = Callable[[str, str], ValidatedScript]
"""A function that compiles a script in the sandbox and runs it on an example record (JSON text).

Raises InvalidScript, whose detail names line and column where they are known, and SandboxFailed.
"""


class PrepareContext(NamedTuple):
    """The context in which transforms are prepared when a configuration is saved.

    Attributes:
        validate_script: Compiles a script and runs it on the example.
        example: An example record of the stream, as JSON text.
        stored: The transforms of the stored configuration, whose scripts have already run on this example; empty when
            the stored configuration reads another stream.
        fields: The fields of the records that reach the transform; None when a script before it makes other records.
    """

    validate_script: ValidateScript
    example: str
    stored: Sequence[TransformConfig] = ()
    fields: Collection[str] | None = None


class PreparedTransform(NamedTuple):
    """A transform as it will be stored, with the faults and warnings of its preparation.

    The JSON pointers of faults and warnings are relative to the transform.
    """

    config: TransformConfig
    faults: Sequence[Fault] = ()
    warnings: Sequence[Fault] = ()


def _no_faults(_: Any) -> Iterable[Fault]:
    return ()


def _unchanged(config: TransformConfig, _: PrepareContext) -> PreparedTransform:
    return PreparedTransform(config)


@dataclass(frozen=True, slots=True)
class TransformType:
    """The code of a `type` of transforms.

    The fields of its configuration, and their documentation, are in model/transforms/.

    Attributes:
        build: Builds the transform of a worker, or of a trial (see model/trial.py), from its stored configuration.
        find_faults: Yields the faults of a transform that the pydantic model can't express. The JSON pointers are
            relative to the transform.
        prepare: Does the slow work for a transform that is saved, such as the compilation of its script. It is called
            only when `find_faults` has found none.
        keeps_records: Whether the records that leave the transform are records that it has received, unchanged.
    """

    build: Callable[[Any, TransformContext], Transform]
    find_faults: Callable[[Any], Iterable[Fault]] = _no_faults
    prepare: Callable[[Any, PrepareContext], PreparedTransform] = _unchanged
    keeps_records: bool = False
