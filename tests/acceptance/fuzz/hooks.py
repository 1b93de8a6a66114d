"""Hooks for rules that a schema cannot express.

Such rules are valid scripts and expressions, unique names, and false positives of checks.
"""

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
"""Every script is compiled in its own sandbox. The limit of 50 transforms is tested in conformance/."""
MAX_WORKERS = 2
"""A test machine cannot start the allowed 64 workers."""
PARTITIONS = 2
"""The operator's settings limit the number of partitions, and a sink's partitions cannot be reduced."""
MAX_RETENTION = 1_000_000
"""This value, in ms and in bytes, is below the operator's limits."""

_numbers = itertools.count()


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Keep valid requests valid where a rule spans several members or requests.

    Configurations stay small.
    """
    if case.meta is None:
        return
    _tame_headers(case.headers)
    _tame_query(case)
    if case.meta.is_negative_at(ParameterLocation.BODY):
        return
    body: Any = case.body
    if isinstance(body, dict) and "pipeline_config" in body:
        _tame(body["pipeline_config"])
        _tame_trial(body)
        if body.get("external_id"):
            body["external_id"] = f"{next(_numbers)}"  # unique among the owner's
    elif isinstance(body, dict) and "type" in body:
        _tame_transform(body)
    elif isinstance(body, list) and case.operation.path.endswith("/transforms"):
        _tame_transforms(body)
    elif isinstance(body, dict) and case.operation.path.endswith("/redrive"):
        case.body = {"all": True, "dry_run": bool(body.get("dry_run"))}  # a request selects letters in one way
    elif isinstance(body, dict) and isinstance(body.get("to"), dict):
        body["to"] = {"0": 0}  # partitions and offsets must exist
    elif isinstance(body, dict) and isinstance(body.get("to"), str) and body["to"] not in ("earliest", "latest"):
        body["to"] = "2026-01-02T03:04:05Z"  # a time must not be in the future


def _tame_query(case: Case[Any]) -> None:
    """Remove what makes valid parameters wait or fail.

    No request waits for an applied version, or names a transform, which must exist. Keep invalid parameters.
    """
    if case.query and case.meta is not None and not case.meta.is_negative_at(ParameterLocation.QUERY):
        case.query.update({"wait": 0} if "wait" in case.query else {})
        case.query.pop("transform", None)


def _tame_headers(headers: Any) -> None:
    """Make idempotency keys unique, and let If-Match match any revision.

    Keep invalid idempotency keys.
    """
    if re.fullmatch("[!-~]{1,255}", headers.get("Idempotency-Key", "")):
        headers["Idempotency-Key"] = f"{next(_numbers)}"
    if "If-Match" in headers:
        headers["If-Match"] = "*"


def _tame(config: dict[str, Any]) -> None:
    config["source"]["is_zerolag"] = False  # this installation has no zero-lag streams
    config["transforms"] = [
        dict(FILTER),
        *(config.get("transforms") or []),
    ]  # links refer to the values of the first transform
    _tame_transforms(config["transforms"])
    _tame_parallelism(config)
    for number, sink in enumerate(config["sinks"]):
        sink["name"] = f"{sink['name'][:-1]}{number}"
        _tame_topic(sink)


def _tame_parallelism(config: dict[str, Any]) -> None:
    """Limit the number of workers, and order its bounds."""
    parallelism = config.get("parallelism") or 1
    if isinstance(parallelism, dict):
        config["parallelism"] = {"min": 1, "max": min(parallelism["max"], MAX_WORKERS)}
    else:
        config["parallelism"] = min(parallelism, MAX_WORKERS)


def _tame_trial(body: dict[str, Any]) -> None:
    """Make the members of a validation fit each other."""
    if body.get("sample"):
        body.pop("records", None)
        if body["sample"].get("positions"):
            body["sample"]["positions"] = ["0/0"]  # partitions must exist
    if body.get("against") is not None:
        body["id"] = "0" * 26  # it is unknown, so the response is 404


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
    transform.pop("uid", None)  # a uid must exist in the configuration
    transform.pop("set_values", None)  # allowed only for a new filter
    if transform["type"] == "v8":
        transform["script"] = SCRIPT
    else:
        transform["filter_expr"] = EXPRESSION.ljust(max(len(transform["filter_expr"]), len(EXPRESSION) + 1), "a")


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Case[Any], response: Response) -> bool:
    """Return False for false positives.

    - DELETE of entries or filter values removes values from a set, and the set still exists afterwards.
    - A new configuration has no deployment.
    """
    if isinstance(failure, UseAfterFree):
        return not failure.free.endswith(("/entries", "/filter-values"))
    if isinstance(failure, EnsureResourceAvailability):
        return "/deploy" not in failure.not_available_with
    return True
