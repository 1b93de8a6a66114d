"""The transforms of a pipeline."""

from headwater.engine.pipeline import feeds_script
from headwater.model.transforms import TransformConfig
from headwater.model.transforms.redis_set_filter import RedisSetFilterTransform
from headwater.model.transforms.v8 import V8Transform


def test_a_script_feeds_the_next_one_also_through_filters() -> None:
    script = V8Transform(uid="a", type="v8", script="")
    filter_ = RedisSetFilterTransform(uid="b", type="redis_set_filter", filter_expr="root = this.a")
    chain: list[TransformConfig] = [filter_, script, filter_, script, filter_]
    assert [feeds_script(chain, position) for position in range(5)] == [True, True, True, False, False]
