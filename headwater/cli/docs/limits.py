"""The page of all limits, with the values of the constants that enforce them."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from headwater.brokers.base import OUTPUT_TOPIC_CONFIG
from headwater.cli.docs.markdown import document, table
from headwater.model import (
    dead_letter,
    flow,
    idempotency,
    metric,
    outputs,
    redrive,
    sink,
    stream,
    transforms,
    trial,
    value_sets,
)
from headwater.model.parallelism import MAX_PARALLELISM
from headwater.model.transforms.redis_set_filter import MAX_EXPRESSION_CHARS
from headwater.model.transforms.v8 import MAX_SCRIPT_BYTES
from headwater.recipes.pools import MAX_POOLS
from headwater.sandbox import deno_command, results, script_batch
from headwater.services import (
    dead_letters,
    keys,
    live_tail,
    prices,
    records,
    tail_connections,
    trial_results,
    trials,
)
from headwater.stores.protocols.deployments import MAX_LOG_LINES
from headwater.transforms.bloblang.json_values import WORK_BUDGET_BYTES
from headwater.transforms.bloblang.parser import MAX_NESTING
from headwater.transforms.expression import MAX_LOOKUP_VALUES

HEAD = ("What", "Limit")
SINK_LIMITS = sink.SinkLimits()
LIVE_TAILS = tail_connections.TailLimits()
HARNESS = Path(deno_command.__file__).with_name("harness") / "records.js"


def page() -> str:
    """Return the page: one table per group of limits."""
    return document(
        "Limits",
        "A request that exceeds a limit is rejected as a whole, and the error names the limit. A record that",
        "exceeds a limit becomes a dead letter. Where a limit has another effect, its row says so.",
        *(line for title, rows in _groups() for line in ("", f"## {title}", "", *table(HEAD, rows))),
    )


def _groups() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    from headwater.api import deployments, guarded_routes, owner_limiter
    from headwater.api.dead_letters import DEFAULT_LETTERS

    yield (
        "Requests",
        [
            ("request body without `values`", _bytes(guarded_routes.MAX_BODY_BYTES)),
            ("faults that one error lists", f"{value_sets.MAX_REPORTED_FAULTS}"),
            (
                "concurrent configuration checks per process; further ones wait",
                f"{owner_limiter.MAX_CONCURRENT_COMPILES}",
            ),
            ("of these, per owner", f"{owner_limiter.MAX_CONCURRENT_COMPILES_PER_OWNER}"),
            (
                "concurrent uploads of `values` per process; further ones wait",
                f"{owner_limiter.MAX_CONCURRENT_UPLOADS}",
            ),
            ("of these, per owner", f"{owner_limiter.MAX_CONCURRENT_UPLOADS_PER_OWNER}"),
            ("characters of an owner's name", f"1 to {keys.MAX_OWNER_CHARS}"),
            ("characters of an `Idempotency-Key`, visible ASCII", f"1 to {idempotency.MAX_KEY_CHARS}"),
            (
                "how long the response of an `Idempotency-Key` is stored",
                f"{idempotency.RESPONSE_TTL // timedelta(hours=1)} hours",
            ),
            ("`limit` of lines of `deploy/logs`", f"1 to {MAX_LOG_LINES:,}, default {deployments.DEFAULT_LOG_LINES}"),
            (
                "`limit` of records of a stream or of outputs",
                f"1 to {records.MAX_RECORDS:,}, default {records.DEFAULT_RECORDS}",
            ),
            ("bytes of records in a response; further ones are left out", f"{records.MAX_BYTES:,}"),
            ("open live tails of all owners together", f"{LIVE_TAILS.total}, a setting"),
            ("of these, per owner", f"{LIVE_TAILS.per_owner}, a setting"),
            ("live tails in one connection", f"1 to {tail_connections.MAX_TAILS_PER_CONNECTION}"),
            ("records that a live tail shows per second; further ones are counted", f"{live_tail.MAX_RECORDS_PER_S}"),
            ("how long a connection with live tails stays open without a record", _minutes(LIVE_TAILS.idle_s)),
            ("tokens per price request", f"1 to {prices.MAX_TOKENS}"),
        ],
    )
    yield (
        "Configurations",
        [
            ("characters of a name", f"1 to {flow.MAX_NAME_CHARS}"),
            ("transforms", f"0 to {transforms.MAX_TRANSFORMS}; `PUT …/transforms` takes at least 1"),
            ("bytes of a script", _bytes(MAX_SCRIPT_BYTES)),
            ("characters of a filter expression", f"{MAX_EXPRESSION_CHARS:,}"),
            ("brackets of a filter expression", f"{MAX_NESTING} deep"),
            ("pools in the script of a price recipe", f"{MAX_POOLS:,}"),
            ("sinks", f"1 to {sink.MAX_SINKS}"),
            ("name of a sink", f"`{sink.SINK_NAME_PATTERN}`, not `{sink.DEAD_LETTER_NAME}`"),
            ("partitions of a sink's topic", f"1 to {SINK_LIMITS.partitions}, a setting"),
            ("`retention_ms` of a sink", f"1 ms to {SINK_LIMITS.retention_days} days, a setting"),
            (
                "`retention_bytes` of a sink, per partition",
                f"1 byte to {SINK_LIMITS.retention_bytes >> 30} GiB, a setting",
            ),
            ("workers (`parallelism`, or its `min` and `max`)", f"1 to {MAX_PARALLELISM}"),
        ],
    )
    yield (
        "Trials (`POST …/validate`)",
        [
            ("`records`", f"{trial.MAX_SAMPLES}"),
            ("bytes of all `records`", _bytes(trial.MAX_SAMPLE_BYTES)),
            ("records of a `sample`", f"1 to {trial.MAX_STREAM_SAMPLES:,}"),
            ("bytes of all records of a `sample`; further ones are left out", f"{trial.MAX_STREAM_SAMPLE_BYTES:,}"),
            (
                "bytes of the outputs that are shown; of a `sample`, further records are not shown at all",
                _bytes(trial_results.MAX_RESPONSE_BYTES),
            ),
            (
                "time limit of a trial of up to 200 records; later records are unfinished",
                f"{trials.TIME_LIMIT_S:.0f} s",
            ),
            (
                "time limit of a trial of more records; later records are not processed (see `sample.done`)",
                f"{trials.LONG_TIME_LIMIT_S:.0f} s",
            ),
        ],
    )
    yield (
        "Dead letters",
        [
            ("`limit` of a page", f"1 to {dead_letter.MAX_LETTERS_PER_PAGE:,}, default {DEFAULT_LETTERS}"),
            ("bytes of the records on a page; the next page has further ones", _bytes(dead_letters.MAX_PAGE_BYTES)),
            (
                "letters that are searched for one page with `error` or `transform`; the next page continues there",
                f"{dead_letters.MAX_SCANNED:,}",
            ),
            (
                "kinds of errors that a summary lists separately; it counts the others together",
                f"{metric.MAX_LETTER_TOTALS:,}",
            ),
            ("`ids` of a redrive", f"1 to {dead_letter.MAX_REDRIVEN_IDS:,}"),
            ("redrives of a pipeline that are running or waiting", f"{redrive.MAX_OPEN_REDRIVES}"),
            ("redrives of an owner that are running or waiting", f"{redrive.MAX_OPEN_REDRIVES_OF_OWNER}"),
            ("redrives of a pipeline whose state is kept", f"the last {redrive.MAX_KEPT_REDRIVES}"),
        ],
    )
    yield (
        "Filter values and datasets",
        [
            ("values of one set", "no limit; 10 million are tested"),
            ("characters of a value, trimmed", f"1 to {value_sets.MAX_VALUE_CHARS:,}"),
            (
                "values of a request",
                f"1 to {value_sets.MAX_VALUES_PER_REQUEST:,}; PUT of filter values: no limit",
            ),
            (
                "`count` of a page of filter values",
                f"1 to {value_sets.MAX_VALUES_PER_PAGE:,}, default {value_sets.DEFAULT_VALUES_PER_PAGE}",
            ),
            (
                "`limit` of a page of dataset entries",
                (
                    f"1 to {value_sets.MAX_DATASET_VALUES_PER_PAGE:,}, "
                    f"default {value_sets.DEFAULT_DATASET_VALUES_PER_PAGE:,}"
                ),
            ),
            ("`cursor`", f"0 to {value_sets.MAX_CURSOR:,}"),
            ("characters of a dataset's name", f"1 to {value_sets.MAX_DATASET_NAME_CHARS}"),
        ],
    )
    yield (
        "Records",
        [
            ("CPU time of a script for one record", f"{script_batch.CPU_LIMIT_S * 1000:.0f} ms"),
            ("heap of a script", f"{deno_command.HEAP_MB} MB"),
            ("values of one call of `flow.contains`", f"{_harness_constant('MAX_VALUES'):,}"),
            (
                "strings that a filter expression selects per record; with more, the record does not match",
                f"{MAX_LOOKUP_VALUES:,}",
            ),
            (
                "size of the JSON that a filter expression evaluates per record; with more, the record does not match",
                f"{_bytes(WORK_BUDGET_BYTES)} plus four times the size of the record",
            ),
            ("outputs of one record", f"0 to {outputs.MAX_OUTPUTS_PER_RECORD:,}"),
            ("bytes of one output", f"{outputs.MAX_OUTPUT_BYTES:,}"),
            ("bytes of all outputs of one record", f"{outputs.MAX_TOTAL_OUTPUT_BYTES:,}"),
            (
                "bytes of the message in a dead letter's header; a longer one is shortened",
                f"{results.MAX_ERROR_MESSAGE_BYTES:,}",
            ),
            ("partitions of a stream", f"{stream.STREAM_PARTITIONS}"),
            ("retention of outputs, unless their sink says otherwise, and dead letters, per partition", _retention()),
        ],
    )


def _harness_constant(name: str) -> int:
    """Return a constant of the JavaScript that runs scripts."""
    [number] = re.findall(rf"\b{name} = (\d+)\b", HARNESS.read_text("utf-8"))
    return int(number)


def _bytes(count: int) -> str:
    return f"{count >> 20} MiB"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} minutes, a setting"


def _retention() -> str:
    days = int(OUTPUT_TOPIC_CONFIG["retention.ms"]) // (24 * 3600 * 1000)
    return f"{days} days or {int(OUTPUT_TOPIC_CONFIG['retention.bytes']) >> 30} GiB, whichever is reached first"
