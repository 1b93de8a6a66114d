"""The registry of transforms, by the `type` in a configuration.

A registered function builds the transform.
"""

from collections.abc import Callable
from typing import Any

from headwater.transforms import redis_set_filter, v8
from headwater.transforms.base import Transform, TransformContext

TRANSFORMS: dict[str, Callable[[Any, TransformContext], Transform]] = {
    "redis_set_filter": redis_set_filter.build,
    "v8": v8.build,
}
