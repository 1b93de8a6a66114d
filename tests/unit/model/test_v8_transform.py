"""A stored script, and the JavaScript that was generated from it."""

from headwater.model.flow import PipelineConfig
from headwater.model.stored_config import read_pipeline_config, write_pipeline_config
from headwater.model.transforms.v8 import V8Transform

BEFORE = (
    '{"source":{"type":"kafka","chain":"solana","entity":"transfers","is_zerolag":false,"start_at":"latest"},'
    '"transforms":[{"type":"v8","script":"function process(r) { return r }","uid":"t1"}],'
    '"sinks":[{"name":"out","uid":"s1","type":"kafka"}],"parallelism":1,"delivery":"at_least_once"}'
)


def script_of(config: PipelineConfig) -> V8Transform:
    transform = config.transforms[0]
    assert isinstance(transform, V8Transform)
    return transform


def test_scripts_that_were_stored_before_run_as_they_are() -> None:
    config = read_pipeline_config(BEFORE)
    assert script_of(config).javascript is None
    assert script_of(config).runnable_script == "function process(r) { return r }"
    assert write_pipeline_config(config) == BEFORE


def test_the_generated_script_is_stored_and_run() -> None:
    config = read_pipeline_config(BEFORE)
    changed = script_of(config).model_copy(update={"javascript": "made"})
    stored = read_pipeline_config(write_pipeline_config(config.model_copy(update={"transforms": [changed]})))
    assert script_of(stored).runnable_script == "made"
    assert script_of(stored).content == script_of(stored).script == "function process(r) { return r }"
    assert write_pipeline_config(stored.without_internal_fields()) == BEFORE
