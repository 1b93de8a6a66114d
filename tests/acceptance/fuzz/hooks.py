"""What a schema can't say: texts in two languages, names that differ, and answers that only look wrong."""

import itertools
import re
from typing import Any

import schemathesis
from schemathesis import Case, HookContext, Response
from schemathesis.core.failures import Failure
from schemathesis.core.parameters import ParameterLocation
from schemathesis.openapi.checks import EnsureResourceAvailability, UseAfterFree

SCRIPT = "const process = (record) => record;"
EXPRESSION = "root = this."
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}
MAX_TRANSFORMS = 3
"""Each script is compiled in a sandbox of its own; 50 of them are tested in conformance/."""
MAX_WORKERS = 2
"""64 workers are more than a test machine can start."""
PARTITIONS = 2
"""The operator's settings limit the number, and a sink never gets fewer than it had."""
MAX_RETENTION = 1_000_000
"""In ms and in bytes: below the operator's limits."""

_numbers = itertools.count()


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Keep valid requests valid, where a rule spans several members or requests, and configurations small."""
    if case.meta is None:
        return
    _tame_headers(case.headers)
    if case.meta.is_negative_at(ParameterLocation.BODY):
        return
    body: Any = case.body
    if isinstance(body, dict) and "pipeline_config" in body:
        _tame(body["pipeline_config"])
        if body.get("external_id"):
            body["external_id"] = f"{next(_numbers)}"  # unique among the owner's
    elif isinstance(body, dict) and "type" in body:
        _tame_transform(body)
    elif isinstance(body, list) and case.operation.path.endswith("/transforms"):
        _tame_transforms(body)


def _tame_headers(headers: Any) -> None:
    """Each request is a new one, and meant for whatever revision there is. A key that is not valid stays."""
    if re.fullmatch("[!-~]{1,255}", headers.get("Idempotency-Key", "")):
        headers["Idempotency-Key"] = f"{next(_numbers)}"
    if "If-Match" in headers:
        headers["If-Match"] = "*"


def _tame(config: dict[str, Any]) -> None:
    config["source"]["is_zerolag"] = False  # this installation has no such feed
    config["transforms"] = [dict(FILTER), *(config.get("transforms") or [])]  # links lead to the first one's values
    _tame_transforms(config["transforms"])
    config["parallelism"] = min(config.get("parallelism") or 1, MAX_WORKERS)
    for number, sink in enumerate(config["sinks"]):
        sink["name"] = f"{sink['name'][:-1]}{number}"
        _tame_topic(sink)


def _tame_topic(sink: dict[str, Any]) -> None:
    if sink.get("partitions"):
        sink["partitions"] = PARTITIONS
    for member in ("retention_ms", "retention_bytes"):
        if sink.get(member):
            sink[member] = min(sink[member], MAX_RETENTION)


def _tame_transforms(transforms: list[dict[str, Any]]) -> None:
    del transforms[MAX_TRANSFORMS:]
    for number, transform in enumerate(transforms):
        _tame_transform(transform)
        if transform.get("name"):
            transform["name"] = f"t{number}"  # unique in the configuration


def _tame_transform(transform: dict[str, Any]) -> None:
    transform.pop("uid", None)  # must be one that the configuration has
    transform.pop("set_values", None)  # only for a filter that is new
    if transform["type"] == "v8":
        transform["script"] = SCRIPT
    else:
        transform["filter_expr"] = EXPRESSION.ljust(max(len(transform["filter_expr"]), len(EXPRESSION) + 1), "a")


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Case[Any], response: Response) -> bool:
    """False for what is no fault.

    - DELETE of entries or filter values takes values from a set; the set is still there afterwards.
    - A configuration that was just created has no deployment to read.
    """
    if isinstance(failure, UseAfterFree):
        return not failure.free.endswith(("/entries", "/filter-values"))
    if isinstance(failure, EnsureResourceAvailability):
        return "/deploy" not in failure.not_available_with
    return True
