"""JSON pointers of pydantic's errors."""

from typing import Any

import pytest

from headwater.api.faults import faults_of


@pytest.mark.parametrize(
    ("loc", "is_union_body", "pointer"),
    [
        (("body", "v8", "script"), True, "/script"),
        (("body", "v8", "script"), False, "/v8/script"),
        (("body", "pipeline_config", "transforms", 0, "v8", "script"), False, "/pipeline_config/transforms/0/script"),
        (("body", 1, "kafka", "name"), False, "/1/name"),
        (("query", "limit"), False, "/limit"),
    ],
)
def test_tags_of_unions_are_left_out(loc: tuple[str | int, ...], is_union_body: bool, pointer: str) -> None:
    """A member of a body may have the name of a type of transforms."""
    error: dict[str, Any] = {"loc": loc, "type": "missing", "msg": "Field required"}
    assert [fault.pointer for fault in faults_of([error], is_union_body=is_union_body)] == [pointer]
