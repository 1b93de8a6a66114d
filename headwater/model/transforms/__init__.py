"""The configurations of transforms, with a file for each `type`.

Each file has a stored model and a request model. The configurations are in this package, and not beside the code of the
transforms in headwater/transforms/, because stores and orchestrators read and write them.
"""

from typing import Annotated

from pydantic import Field

from headwater.model.fields import models_by_type
from headwater.model.transforms.redis_set_filter import NewRedisSetFilterTransform, RedisSetFilterTransform
from headwater.model.transforms.v8 import NewV8Transform, V8Transform

MAX_TRANSFORMS = 50

TransformConfig = Annotated[V8Transform | RedisSetFilterTransform, Field(discriminator="type")]
NewTransform = Annotated[NewV8Transform | NewRedisSetFilterTransform, Field(discriminator="type")]
NewTransforms = Annotated[list[NewTransform], Field(min_length=1, max_length=MAX_TRANSFORMS)]
"""The request body that replaces a configuration's transforms."""

TRANSFORM_MODELS: dict[str, type[TransformConfig]] = models_by_type(TransformConfig)
SCRIPT_TYPES = frozenset(name for name, model in TRANSFORM_MODELS.items() if model.is_script)
SET_TYPES = frozenset(name for name, model in TRANSFORM_MODELS.items() if model.owns_set)
