"""Errors in the uids and names of a list of transforms."""

from typing import Any

from pydantic import TypeAdapter

from headwater.errors import Fault
from headwater.model.transforms import NewTransform
from headwater.model.transforms.base import TransformIdentity
from headwater.services.transform_identities import effective_name, name_faults, uid_faults
from headwater.services.transform_matching import match_transforms

_new = TypeAdapter[NewTransform](NewTransform)
STORED = [TransformIdentity("a", "v8", "first", ""), TransformIdentity("b", "redis_set_filter", None, "")]


def new(kind: str, **members: Any) -> NewTransform:
    content = {"script": ""} if kind == "v8" else {"filter_expr": ""}
    return _new.validate_python({"type": kind, **content, **members})


def pointers(problems: Any) -> list[str]:
    return [problem.pointer for problem in problems]


def refused(*sent: NewTransform) -> list[Fault]:
    return list(uid_faults(sent, match_transforms(sent, STORED, by_content=True), "/{}".format))


def test_unknown_repeated_and_of_another_type() -> None:
    assert pointers(refused(new("v8", uid="x"))) == ["/0/uid"]
    assert pointers(refused(new("v8", uid="a"), new("v8", uid="a"))) == ["/1/uid"]
    assert pointers(refused(new("redis_set_filter", uid="a"))) == ["/0/type"]
    assert refused(new("v8", uid="a"), new("redis_set_filter", uid="b")) == []


def test_an_omitted_name_is_kept_and_null_removes_it() -> None:
    assert effective_name(new("v8"), STORED[0]) == "first"
    assert effective_name(new("v8", name=None), STORED[0]) is None
    assert effective_name(new("v8", name="other"), STORED[0]) == "other"
    assert effective_name(new("v8"), None) is None


def test_duplicate_names() -> None:
    assert pointers(name_faults(["a", None, "a", None], (), "/{}".format)) == ["/2/name"]
    assert pointers(name_faults(["a"], ["b", "a"], lambda _: "")) == ["/name"]
