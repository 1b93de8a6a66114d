"""The examples of the OpenAPI description.

They belong to one fictitious installation that filters token transfers.
"""

import json
from typing import Any

from headwater.model.transforms.redis_set_filter import RedisSetFilterTransform
from headwater.model.transforms.v8 import V8Transform

CONTRACT = "0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1"
FILTER_DIGEST = "28526f407697bb9f3efc0b36ed243abe"
"""The digest of a filter that has the value CONTRACT alone."""
WALLET = "0x5c1a7f03d2b84e6990aa41c7d3f0b6e2918c4d57"
CONFIG_ID = "01ke0a2x8rv5c3m7qd9t4jw6hz"
DATASET_ID = "01ke0a4gt1n6b8y2kf5s7pm3xc"
FILTER_UID = "01ke0a2x8rv5c3m7qd9t4jw6j0"
SCRIPT_UID = "01ke0a2x8rv5c3m7qd9t4jw6j1"
SINK_UID = "01ke0a2x8rv5c3m7qd9t4jw6j2"
KEY_ID = "8Zk2mQ0vXcRt"
REQUEST_ID = "01ke0a5m2d7h1j4k8n6p9r3s5t"
CREATED_AT, STARTED_AT = "2026-01-02T03:04:05.678Z", "2026-01-02T03:05:01.234Z"
READER = "dep-01ke0a3c6w2z4x8v9b1n5m7q0k"

FILTER = RedisSetFilterTransform.example
SCRIPT = V8Transform.example
VALUES = {"values": [CONTRACT]}
TOKENS = [{"token_address": CONTRACT, "chain": "base"}, {"token_address": WALLET, "chain": "base"}]
ENTRIES = {"values": [WALLET]}

TRANSFORMS = [{**FILTER, "set_values": [CONTRACT]}, SCRIPT]
TOPIC = {"retention_ms": 259_200_000, "compression": "zstd"}

CREATE: dict[str, Any] = {
    "name": "Transfers of one token",
    "description": "Only the transfers of the tokens in the filter",
    "tags": ["example"],
    "pipeline_config": {
        "source": {"chain": "base", "entity": "erc20_token_transfer"},
        "transforms": TRANSFORMS,
        "sinks": [{"type": "kafka", "name": "transfers", **TOPIC}],
    },
}

UPDATE: dict[str, Any] = {
    **CREATE,
    "name": "Transfers of some tokens",
    "pipeline_config": {**CREATE["pipeline_config"], "transforms": [FILTER, SCRIPT], "parallelism": 2},
}

FLOW_CONFIG: dict[str, Any] = {
    "id": CONFIG_ID,
    **{name: CREATE[name] for name in ("name", "description", "tags")},
    "owner_org_team_user_id": "local",
    "created_at": CREATED_AT,
    "updated_at": CREATED_AT,
    "revision": 1,
    "pipeline_config": {
        "source": {
            "type": "pubsub",
            "chain": "base",
            "entity": "erc20_token_transfer",
            "is_zerolag": False,
            "start_at": "latest",
        },
        "transforms": [{"uid": FILTER_UID, **FILTER}, {"uid": SCRIPT_UID, **SCRIPT}],
        "sinks": [{"uid": SINK_UID, "type": "kafka", "name": "transfers", **TOPIC}],
        "parallelism": 1,
        "delivery": "at_least_once",
    },
}

ROLLBACK = {"revision": 3}
REVISIONS: dict[str, Any] = {
    "items": [
        {
            "revision": 2,
            "saved_at": STARTED_AT,
            "saved_by": KEY_ID,
            "changed": ["name"],
            "deployed_at": None,
            "condition": None,
        },
        {
            "revision": 1,
            "saved_at": CREATED_AT,
            "saved_by": KEY_ID,
            "changed": [],
            "deployed_at": STARTED_AT,
            "condition": "Stable",
        },
    ],
    "cursor": None,
}
REVISION_DIFF: dict[str, Any] = {
    "diff": "--- revision 1\n+++ revision 2\n@@ -1,5 +1,5 @@\n {\n"
    '-  "name": "Transfers of one token",\n+  "name": "Transfers of some tokens",\n'
    '   "description": "Only the transfers of the tokens in the filter",\n   "tags": [\n     "example"\n',
    "scripts": {},
}

SAVED_TRANSFORMS = [
    {"uid": FILTER_UID, **FILTER},
    {"uid": SCRIPT_UID, **SCRIPT},
]

FILTER_REMOVED_WARNING = {
    "pointer": "/0",
    "detail": "is a new filter, and this revision removes these filters: 01ke0a2x8rv5c3m7qd9t4jw6hf "
    "(root = this.pool) with 3 values. The new filter does not get their values. To change a filter and keep its "
    "values, send it with its uid or its name.",
}

DEPLOYMENT: dict[str, Any] = {
    "message": f"Pipeline {CONFIG_ID} successfully deployed",
    "status": "deployed",
    "config_id": CONFIG_ID,
    "revision": 1,
    "desired_revision": 1,
    "condition": "Stable",
    "reason": "",
    "workers": 1,
    "rewind": None,
    "dead_letter": {"topic": f"flow.{CONFIG_ID}.dlq"},
    "sinks": [
        {
            "uid": SINK_UID,
            "name": "transfers",
            "type": "kafka",
            "topic": f"flow.{CONFIG_ID}.transfers",
            "bootstrap_servers": "127.0.0.1:19092",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "username": READER,
            "password": "(32 characters)",
            "consumer_group": f"{READER}.main",
            **TOPIC,
            "snippets": {name: f"(a complete program for {name})" for name in ("python", "node", "java", "kcat")},
        }
    ],
}

STATS: dict[str, Any] = {
    "workers_health": {
        "total_workers": 1,
        "healthy_workers": 1,
        "unhealthy_workers": 0,
        "crashing_workers": 0,
        "oom_killed_workers": 0,
        "workers": [
            {
                "name": "01ke0a3c6w2z4x8v9b1n5m7q0k-0",
                "status": "Running",
                "is_ready": True,
                "is_crash_looping": False,
                "is_oom_killed": False,
                "restart_count": 0,
                "start_time": STARTED_AT,
                "reason": "",
            }
        ],
    },
    "lag": 12,
    "last_progress_at": STARTED_AT,
}

LOGS = {
    "lines": [
        {
            "time": STARTED_AT,
            "worker": "01ke0a3c6w2z4x8v9b1n5m7q0k-0",
            "source": "script",
            "level": "info",
            "message": "a line of console.log",
        }
    ]
}

SERIES: dict[str, Any] = {
    "config_id": CONFIG_ID,
    "metrics": [
        {"metric_type": "messages_received", "points": [{"timestamp": "2026-01-02T03:05:00.000Z", "value": 1200}]},
        {"metric_type": "total_latency", "points": [{"timestamp": "2026-01-02T03:05:00.000Z", "value": 14.3}]},
        {"metric_type": "processor_error", "points": []},
    ],
}

DATASET = {"id": DATASET_ID, "name": "watched", "type": "redis", "created_at": CREATED_AT, "updated_at": CREATED_AT}
STREAM: dict[str, Any] = {
    "chain": "base",
    "entity": "log",
    "type": "pubsub",
    "has_zerolag": False,
    "event_time": "block_timestamp",
    "description": "An event that a contract emitted, as in the transaction receipt.",
    "key": ["transaction_hash", "log_index"],
    "prices": ["uniswap-v2", "uniswap-v3"],
    "record_schema": {
        "type": "object",
        "properties": {"address": {"type": "string", "description": "The contract that emitted the event."}},
        "required": ["address"],
    },
    "example": {"address": CONTRACT, "block_timestamp": "2026-01-02T03:04:03Z"},
}

RECORD: dict[str, Any] = {
    "record": {"address": CONTRACT, "block_timestamp": "2026-01-02T03:04:03Z"},
    "partition": 2,
    "offset": 4711,
    "timestamp": "2026-01-02T03:04:05.678Z",
    "key": "0x5c1a7f03:7",
}
OUTPUT: dict[str, Any] = {**RECORD, "headers": {"headwater-src": "stream.base.log/2/4711/0"}}
TAIL = (
    f"event: records\ndata: {json.dumps([RECORD])}\n\n"
    f"event: skipped\ndata: {json.dumps({'of': 'base/log', 'count': 17})}\n\n"
)

TRANSFER = {"token_address": CONTRACT, "raw_amount": 123456789012345678901234567890}
TRIAL: dict[str, Any] = {**CREATE, "records": [TRANSFER]}
STREAM_TRIAL: dict[str, Any] = {**CREATE, "sample": {"last": 1000}, "detail": "summary"}
TRIAL_RESULT: dict[str, Any] = {
    "warnings": [],
    "summary": {
        "sent": 1,
        "dropped": 0,
        "error": 0,
        "unfinished": 0,
        "transforms": [
            {"uid": uid, "type": type_, "received": 1, "dropped": 0, "errors": 0, "sent": 1, "logs": []}
            for uid, type_ in ((FILTER_UID, "redis_set_filter"), (SCRIPT_UID, "v8"))
        ],
        "errors": [],
    },
    "records": [
        {
            "outcome": "sent",
            "reason": "",
            "outputs": [{**TRANSFER, "seen": True}],
            "steps": [
                {
                    "type": "redis_set_filter",
                    "received": 1,
                    "dropped": 0,
                    "errors": [],
                    "outputs": [TRANSFER],
                    "logs": [],
                },
                {
                    "type": "v8",
                    "received": 1,
                    "dropped": 0,
                    "errors": [],
                    "outputs": [{**TRANSFER, "seen": True}],
                    "logs": [],
                },
            ],
        }
    ],
}

DEAD_LETTERS: dict[str, Any] = {
    "items": [
        {
            "id": "0/17",
            "time": CREATED_AT,
            "error": "TypeError",
            "message": "Cannot read properties of undefined (reading 'toLowerCase')",
            "transform_uid": SCRIPT_UID,
            "line": 3,
            "column": 27,
            "attempts": 1,
            "revision": 2,
            "source": "stream.base.erc20_token_transfer/0/93871/0",
            "record": {"token_address": None, "raw_amount": "12"},
            "redriven": None,
        }
    ],
    "cursor": "0-17_1-4",
}

DEAD_LETTER_SUMMARY: dict[str, Any] = {
    "items": [
        {
            "error": "TypeError",
            "transform_uid": SCRIPT_UID,
            "line": 3,
            "count": 1204,
            "first": CREATED_AT,
            "last": CREATED_AT,
            "example": "0/17",
        }
    ]
}

REDRIVE: dict[str, Any] = {"error": "TypeError", "transform_uid": SCRIPT_UID}

PRICES: dict[str, Any] = {
    "items": [
        {
            "mint": CONTRACT,
            "chain": "base",
            "timestamp": CREATED_AT,
            "latest_price": 99.0,
            "low_24h": 90.0,
            "high_24h": 100.0,
            "low_1h": 90.0,
            "high_1h": 99.0,
            "percent_change_24h": None,
            "percent_change_1h": -1.0,
            "decimals": 18,
        }
    ],
    "cursor": None,
    "message": "1 of 2 tokens have no price: 1 unknown token.",
    "statuses": [{**TOKENS[0], "status": "ok"}, {**TOKENS[1], "status": "unknown_token"}],
}

PRICE_HISTORY: dict[str, Any] = {
    **TOKENS[0],
    "points": [
        {"timestamp": "2026-01-02T02:59:58.000Z", "price": 90.0},
        {"timestamp": CREATED_AT, "price": 99.0},
    ],
}
TOKEN_LIST: dict[str, Any] = {
    "items": [
        {
            **TOKENS[0],
            "status": "ok",
            "held_since": None,
            "quote_stale": False,
            "timestamp": CREATED_AT,
            "age_s": 2.5,
            "latest_price": 99.0,
            "percent_change_1h": -1.0,
            "percent_change_24h": None,
        }
    ],
    "cursor": f"base:{CONTRACT}",
    "worker_runs": True,
}
PRICE_EXPLANATION: dict[str, Any] = {
    **TOKENS[0],
    "status": "held",
    "quote_stale": False,
    "latest": {"timestamp": CREATED_AT, "price": 99.0},
    "percent_change_1h": -1.0,
    "percent_change_24h": None,
    "windows": [
        {
            "window": window,
            "start": start,
            "low": {"timestamp": "2026-01-02T02:59:58.000Z", "price": 90.0},
            "high": {"timestamp": CREATED_AT, "price": 99.0},
        }
        for window, start in (("1h", "2026-01-02T02:05:00.000Z"), ("24h", "2026-01-01T03:05:00.000Z"))
    ],
    "counted_since": "2026-01-01T02:00:00.000Z",
    "required_minutes": 3,
    "bands": [
        {
            "min_price": 64.0,
            "max_price": 128.0,
            "active_minutes": 42,
            "established": True,
            "accepted": True,
            "last": {"timestamp": CREATED_AT, "price": 99.0},
        },
        {
            "min_price": 8192.0,
            "max_price": 16384.0,
            "active_minutes": 1,
            "established": False,
            "accepted": False,
            "last": {"timestamp": STARTED_AT, "price": 9900.0},
        },
    ],
    "accepted": [{"timestamp": CREATED_AT, "price": 99.0}],
    "unaccepted": [
        {
            "timestamp": STARTED_AT,
            "price": 9900.0,
            "status": "held",
            "reason": "Prices from 8,192 to 16,384 have trades in 1 of the minutes that count, and 3 are needed.",
        }
    ],
}

OVERVIEW: dict[str, Any] = {
    "items": [
        {
            "id": CONFIG_ID,
            "name": "transfers",
            "external_id": None,
            "tags": ["example"],
            "source": {"chain": "base", "entity": "erc20_token_transfer"},
            "state": "deployed",
            "condition": "Stable",
            "revision": 2,
            "updated_at": CREATED_AT,
            "messages_received": [1200, 1180],
            "messages_sent": [12, 9],
            "errors": [0, 1],
            "avg_data_age_ms": 2140.5,
            "lag": 12,
        }
    ],
    "cursor": None,
    "first_minute": "2026-01-02T03:05:00.000Z",
}

ME: dict[str, Any] = {
    "owner": "ann",
    "key_id": KEY_ID,
    "scopes": ["flow:read", "flow:write", "flow:deploy"],
    "expires_at": None,
}

SIGN_IN = {"code": "hZ3l0sX1c5oQy8RkPq2vTn7bWm4Dg6Fj9JtEuKxAiLs"}
SIGNED_IN: dict[str, Any] = {
    **ME,
    "owner": "local",
    "expires_at": "2026-01-02T15:04:05.678Z",
    "key": f"hw_live_{KEY_ID}_…",
}

BY_SCHEMA: dict[str, Any] = {
    "OverviewBody": OVERVIEW,
    "KeyBody": ME,
    "SignedInBody": SIGNED_IN,
    "TrialBody": TRIAL_RESULT,
    "PriceStats": PRICES,
    "PriceHistory": PRICE_HISTORY,
    "TokenList": TOKEN_LIST,
    "PriceExplanation": PRICE_EXPLANATION,
    "FlowConfig": FLOW_CONFIG,
    "DeploymentBody": DEPLOYMENT,
    "ResumedDeployment": {**DEPLOYMENT, "gaps": [{"partition": 3, "from": 1200, "to": 1450}]},
    "RewoundPipeline": {
        "message": f"Pipeline {CONFIG_ID} successfully rewound",
        "positions": {"0": {"before": 5200, "after": 1200}},
    },
    "RevisionList": REVISIONS,
    "RevisionComparison": REVISION_DIFF,
    "DeploymentStats": STATS,
    "DeploymentLogs": LOGS,
    "DeadLettersBody": DEAD_LETTERS,
    "DeadLetterSummaryBody": DEAD_LETTER_SUMMARY,
    "RedriveAccepted": {"id": "01ke0a2x8rv5c3m7qd9t4jw6j5", "requested": 1204},
    "RedriveCount": {"requested": 1204},
    "RedriveBody": {"state": "done", "requested": 1204, "delivered": 1203, "dropped": 0, "failed": 1},
    "ValuesAdded": {"added": 1, "version": 2},
    "ValuesRemoved": {"removed": 1, "version": 3},
    "FilterCount": {"count": 1, "version": 2},
    "FilterSummary": {"count": 1, "version": 2, "digest": FILTER_DIGEST},
    "FilterPage": {"values": [CONTRACT], "cursor": None, "total_count": 1},
    "FilterMembership": {"value": CONTRACT, "is_member": True},
    "DatasetBody": DATASET,
    "EntriesWritten": {"count": 1, "version": 2},
    "Applied": {
        "version": 2,
        "applied": True,
        "workers": [{"name": STATS["workers_health"]["workers"][0]["name"], "version": 2}],
    },
    "EntriesPage": {"values": [WALLET], "cursor": None, "total_count": 1},
    "DatasetMembership": {"exists": True},
    "Stream": STREAM,
    "StreamRecords": {"items": [RECORD]},
    "OutputRecords": {"items": [OUTPUT]},
    "Liveness": {"status": "ok"},
    "Readiness": {
        "status": "ready",
        "dependencies": {"database": "ok", "set_store": "ok", "broker": "ok", "controller": "ok"},
    },
}
"""The example of each response body, by the name of its schema."""

BY_OPERATION: dict[str, Any] = {
    "getDeploymentMetrics": SERIES,
    "changeTransform": SAVED_TRANSFORMS[0],
    "replaceTransforms": [{**SAVED_TRANSFORMS[0], "warnings": [FILTER_REMOVED_WARNING]}, SAVED_TRANSFORMS[1]],
    "getLimits": {"limits": [{"name": "configurations", "used": 12, "allowed": 100}]},
    "rollBack": {**DEPLOYMENT, "revision": 4, "desired_revision": 4, "condition": "RollingOut"},
    "signOut": {"message": f"The API key {KEY_ID} is revoked."},
    "tearDown": {"message": f"Pipeline {CONFIG_ID} successfully torn down"},
    "pausePipeline": {"message": f"Pipeline {CONFIG_ID} successfully paused"},
    "deleteConfiguration": {"message": f"Pipeline {CONFIG_ID} successfully deleted"},
}
"""Examples of responses that differ from the example of their schema, by operation id."""
