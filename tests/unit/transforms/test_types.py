"""Every type of transforms has models and code, and its example can be saved and run."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from headwater.model.flow import PipelineConfig
from headwater.model.stored_config import read_pipeline_config, write_pipeline_config
from headwater.model.stream import CATALOG
from headwater.model.transforms import TRANSFORM_MODELS, NewTransform, TransformConfig
from headwater.model.transforms.v8 import ValidatedScript
from headwater.services.findings import Findings
from headwater.services.transform_checker import TransformChecker
from headwater.transforms import TRANSFORMS

ENTITY = next(entity for chain in CATALOG for entity in chain.entities if entity.name == "erc20_token_transfer")
COMPILED = ValidatedScript(["a warning"], "compiled")
REQUEST = TypeAdapter[Any](NewTransform)


def pipeline(transform: TransformConfig) -> PipelineConfig:
    source = {"type": "pubsub", "chain": "base", "entity": "log"}
    sinks = [{"uid": "s1", "type": "kafka", "name": "out"}]
    return PipelineConfig.model_validate({"source": source, "transforms": [transform], "sinks": sinks})


def saved(type_: str) -> TransformConfig:
    """Check and prepare the example of a type, as a save does."""
    checker = TransformChecker(TRANSFORMS, lambda _script, _example: COMPILED, lambda: "t1")
    findings, at = Findings(), "/{}".format
    sent = REQUEST.validate_python(TRANSFORM_MODELS[type_].example)
    checked = checker.check([sent], [None], at, findings)
    assert findings.faults == []
    [prepared] = checker.prepare(checked, ENTITY, [], at, findings)
    return prepared


def test_models_and_code_are_of_the_same_types() -> None:
    assert TRANSFORMS.keys() == TRANSFORM_MODELS.keys()


@pytest.mark.parametrize("type_", TRANSFORM_MODELS)
class TestEachType:
    def test_its_example_is_stored_and_read_again(self, type_: str) -> None:
        config = pipeline(saved(type_))
        assert read_pipeline_config(write_pipeline_config(config)) == config

    def test_users_see_what_they_have_sent(self, type_: str) -> None:
        visible = saved(type_).without_internal_fields().model_dump()
        assert visible == {"uid": "t1", **TRANSFORM_MODELS[type_].example}

    def test_its_content_is_one_of_its_members(self, type_: str) -> None:
        transform = saved(type_)
        assert transform.content == str(TRANSFORM_MODELS[type_].example[transform.content_field])


def test_faults_and_warnings_point_into_the_request() -> None:
    findings = Findings()
    checker = TransformChecker(TRANSFORMS, lambda _script, _example: COMPILED, lambda: "t1")
    sent = [{"type": "redis_set_filter", "filter_expr": "root ="}, TRANSFORM_MODELS["v8"].example]
    requests = [REQUEST.validate_python(one) for one in sent]
    checked = checker.check(requests, [None, None], "/transforms/{}".format, findings)
    assert [fault.pointer for fault in findings.faults] == ["/transforms/0/filter_expr"]
    findings.faults.clear()
    checker.prepare(checked[1:], ENTITY, [], "/transforms/{}".format, findings)
    assert [(warning.pointer, warning.detail) for warning in findings.warnings] == [
        ("/transforms/0/script", "a warning")
    ]


def test_fields_that_the_stream_does_not_have() -> None:
    """A script makes records with any fields, so the filters after it get no warning."""
    findings = Findings()
    checker = TransformChecker(TRANSFORMS, lambda _script, _example: ValidatedScript([], "compiled"), lambda: "t1")
    sent: list[Any] = [
        {"type": "redis_set_filter", "filter_expr": "root = this.token_adress"},
        {"type": "redis_set_filter", "filter_expr": "root = [this.to_address, this.wallet.of | this.from_address]"},
        TRANSFORM_MODELS["v8"].example,
        {"type": "redis_set_filter", "filter_expr": "root = this.anything"},
    ]
    requests = [REQUEST.validate_python(one) for one in sent]
    checked = checker.check(requests, [None] * len(sent), "/{}".format, findings)
    checker.prepare(checked, ENTITY, [], "/{}".format, findings)
    assert [(warning.pointer, warning.detail) for warning in findings.warnings] == [
        (
            "/0/filter_expr",
            "reads `token_adress`, which is no field of the stream's records; did you mean `token_address`?",
        ),
        (
            "/1/filter_expr",
            "reads `wallet`, which is no field of the stream's records; GET /api/v1/flow/streams lists the fields",
        ),
    ]
