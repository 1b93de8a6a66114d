"""Stored pipelines that this version can and cannot read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.flow import PipelineConfig
from headwater.model.stored_config import UnreadablePipelineConfig, read_pipeline_config, write_pipeline_config
from headwater.model.transforms import MAX_TRANSFORMS
from headwater.model.transforms.base import TransformIdentity
from headwater.model.transforms.v8 import MAX_SCRIPT_BYTES

SCRIPT = {"uid": "s", "type": "v8", "script": "x"}
FILTER = {"uid": "f", "type": "redis_set_filter", "filter_expr": "root = this.a", "name": "n"}
STORED: dict[str, Any] = {
    "source": {"type": "kafka", "chain": "base", "entity": "log"},
    "transforms": [SCRIPT, FILTER],
    "sinks": [{"uid": "k", "type": "kafka", "name": "out"}],
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*STORED, *FILTER, "x"]), inner),
    max_leaves=12,
)


def unreadable(**fields: Any) -> UnreadablePipelineConfig:
    config = read_pipeline_config(json.dumps(STORED | fields))
    assert isinstance(config, UnreadablePipelineConfig)
    return config


def test_what_can_be_read_is_the_plain_model() -> None:
    config = read_pipeline_config(json.dumps(STORED))
    assert type(config) is PipelineConfig
    assert config.unreadable_reason == ""
    assert read_pipeline_config(write_pipeline_config(config)) == config


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"parallelism": 65}, "/pipeline_config/parallelism: input should be less than or equal to 64"),
        (
            {"parallelism": {"min": 1, "max": 65}},
            "/pipeline_config/parallelism/max: input should be less than or equal to 64",
        ),
        ({"transforms": [SCRIPT] * (MAX_TRANSFORMS + 1)}, "/pipeline_config/transforms: list should have at most 50"),
        (
            {"transforms": [SCRIPT | {"script": "x" * (MAX_SCRIPT_BYTES + 1)}]},
            "/pipeline_config/transforms/0/script: must be at most 1048576 bytes",
        ),
        ({"transforms": [{"uid": "w", "type": "wasm"}]}, "/pipeline_config/transforms/0: input tag 'wasm'"),
        ({"newer": 1}, "/pipeline_config/newer: extra inputs are not permitted"),
        ({"sinks": []}, "/pipeline_config/sinks: list should have at least 1 item"),
    ],
)
def test_the_error_says_what_is_wrong_and_what_to_do(fields: dict[str, Any], why: str) -> None:
    message = unreadable(**fields).unreadable_reason
    assert why in message
    assert message.endswith("Save it again with PUT, or delete it.")
    assert len(message) < 300


def test_parts_that_can_be_read_are_known() -> None:
    config = unreadable(
        transforms=[{"uid": "w", "type": "wasm"}, SCRIPT, FILTER, 5, {"type": "v8"}],
        sinks=[{"uid": "k", "type": "s3", "name": "new"}, {"uid": "l", "type": "kafka", "name": "out"}],
        parallelism=1000,
    )
    assert [sink.name for sink in config.sinks] == ["out"]
    assert config.source.chain == "base"
    assert config.transform_identities == (
        TransformIdentity("w", "wasm", None, ""),
        TransformIdentity("s", "v8", None, "x"),
        TransformIdentity("f", "redis_set_filter", "n", "root = this.a"),
    )
    assert config.filter_uids == {"f"}


def test_all_uids_in_truncated_text_may_be_filters() -> None:
    config = read_pipeline_config(json.dumps(STORED)[:-4])
    assert config.filter_uids >= {"s", "f"}


def test_too_deeply_nested_text_is_an_error() -> None:
    text = "[" * 100_000
    config = read_pipeline_config(text)
    assert isinstance(config, UnreadablePipelineConfig)
    assert config.document == text
    assert config.transform_identities == ()


@given(value=JSON | st.fixed_dictionaries(dict.fromkeys(STORED, JSON)))
def test_any_stored_text_is_read(value: Any) -> None:
    """The text is also written back unchanged."""
    text = json.dumps(value)
    config = read_pipeline_config(text)
    assert write_pipeline_config(config) == text or type(config) is PipelineConfig
    if isinstance(config, UnreadablePipelineConfig):
        assert config.document == json.loads(text)
        assert config.unreadable_reason
        assert len(config.transform_identities) >= len(config.filter_uids)
        assert isinstance(config.sinks, list)
