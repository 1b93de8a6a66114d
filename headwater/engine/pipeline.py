"""Builds the transforms of a pipeline."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.model.transforms import TransformConfig
from headwater.transforms.base import Transform, TransformContext
from headwater.transforms.transform_type import TransformType


def build_transforms(
    configs: Sequence[TransformConfig],
    types: Mapping[str, TransformType],
    context: TransformContext,
) -> list[Transform]:
    """Return the transforms of a worker spec.

    Raises InvalidScript, InvalidExpression, SandboxFailed.
    """
    return [
        types[config.type].build(config, replace(context, feeds_script=feeds_script(configs, index)))
        for index, config in enumerate(configs)
    ]


def feeds_script(configs: Sequence[TransformConfig], position: int) -> bool:
    """Return whether any transform after the one at this position is a script."""
    return any(config.is_script for config in configs[position + 1 :])
