"""The registry of transforms, which has the code of each `type`.

model/transforms/ has the configurations of the same types.
"""

from headwater.transforms import redis_set_filter, v8
from headwater.transforms.transform_type import TransformType

TRANSFORMS: dict[str, TransformType] = {
    "redis_set_filter": redis_set_filter.TYPE,
    "v8": v8.TYPE,
}
