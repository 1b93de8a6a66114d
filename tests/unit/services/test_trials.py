"""Trials end within their time limit."""

import itertools
from contextlib import nullcontext
from datetime import UTC, datetime

from headwater.model.binding import Bindings
from headwater.model.flow import NewPipelineConfig
from headwater.model.transforms.v8 import CheckedScript
from headwater.services.ids import new_id
from headwater.services.pipeline_checker import PipelineChecker
from headwater.services.trials import TIME_LIMIT_S, Trials
from headwater.transforms import TRANSFORMS
from headwater.transforms.base import TransformContext
from tests.support.memory.sets import MemoryDatasetNames, MemorySetStore

FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.a", "set_values": ["x"]}
SENT = NewPipelineConfig.model_validate(
    {
        "source": {"chain": "base", "entity": "log"},
        "transforms": [FILTER, FILTER],
        "sinks": [{"type": "kafka", "name": "out"}],
    }
)


def test_records_after_the_time_limit_are_reported() -> None:
    seconds = itertools.count(0, 3)  # each read of the clock is 3 s later
    context = TransformContext("", "alice", MemorySetStore(), MemoryDatasetNames())
    checker = PipelineChecker(
        bindings=Bindings(),
        validate_script=lambda _script, _example: CheckedScript([]),
        transform_types=TRANSFORMS,
        new_id=new_id,
    )
    trials = Trials(
        checker=checker,
        transform_types=TRANSFORMS,
        open_context=lambda _: nullcontext(context),
        now=lambda: datetime(2026, 1, 2, tzinfo=UTC),
        clock=lambda: float(next(seconds)),
    )
    records = trials.run("alice", SENT, [b'{"a":"x"}'] * 3).records
    assert [(record.outcome, len(record.steps)) for record in records] == [
        ("sent", 2),
        ("unfinished", 1),
        ("unfinished", 0),
    ]
    assert all(f"{TIME_LIMIT_S:.0f} s" in record.unfinished_reason for record in records[1:])
