"""Runs chains of scripts and filters in plain Deno and in Headwater's sandbox.

The outputs of each record are compared.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

import deno

from headwater.engine.in_flight_batch import InFlightBatch
from headwater.engine.pipeline import build_transforms
from headwater.model.transforms import TransformConfig
from headwater.model.transforms.redis_set_filter import RedisSetFilterTransform
from headwater.model.transforms.v8 import V8Transform
from headwater.model.value_sets import dataset_set_id, filter_set_id, normalise
from headwater.sandbox import Sandbox
from headwater.transforms import TRANSFORMS
from headwater.transforms.base import Transform, TransformContext
from headwater.transforms.transform_type import TransformType
from tests.support.memory.sets import MemoryDatasetNames, MemorySetStore
from tests.support.sandbox import batch

Outputs = list[list[str]]
"""For each record its outputs as JSON, or the names of errors, in order."""


class Filter(NamedTuple):
    """Keeps a record if a member matches.

    The value of the member, or one of its elements, must be among the lower-case values.
    """

    member: str
    values: tuple[str, ...]


Step = str | Filter
"""A script, or a filter."""


class PlainDeno:
    """A Deno process that runs chains as plain JavaScript, for the block of a `with` statement."""

    def __enter__(self) -> Self:
        program = [deno.find_deno_bin(), "run", "--no-prompt", "--no-config", "--no-lock", "--quiet"]
        self._process = subprocess.Popen(
            [*program, str(Path(__file__).with_suffix(".js"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, steps: Sequence[Step], records: Sequence[bytes]) -> Outputs:
        """Return the outputs of the chain for each record."""
        steps_json = [{"script": step} if isinstance(step, str) else step._asdict() for step in steps]
        request = json.dumps({"chain": steps_json, "records": [record.decode() for record in records]})
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(request.encode() + b"\n")
        self._process.stdin.flush()
        outputs: Outputs = json.loads(self._process.stdout.readline())
        return outputs


NUMBERS = ("3", "12345678901234567890")


class SandboxChains:
    """Runs chains in one sandbox, during the block of a `with` statement.

    They are built as a worker builds them.

    The dataset `numbers` has the values NUMBERS.
    """

    def __init__(self) -> None:
        self._sandbox = Sandbox(spare=False)
        self._sets, names = MemorySetStore(), MemoryDatasetNames()
        names.put("ann", "numbers", "d1")
        self._sets.add(dataset_set_id("d1"), NUMBERS)
        self._resources = TransformContext("c1", "ann", self._sets, names, sandbox=self._sandbox)
        self._built: dict[tuple[str, bool], Transform] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sandbox.close()

    def run(self, steps: Sequence[Step], records: Sequence[bytes]) -> Outputs:
        """Return the outputs of the chain for each record, in the order of their offsets."""
        configs = [self._config(step) for step in steps]
        transforms = build_transforms(configs, {**TRANSFORMS, "v8": TransformType(self._script)}, self._resources)
        in_flight = InFlightBatch(batch(records), transforms, 0.0)
        while not in_flight.is_finished:
            in_flight.advance(wait=True)
        outputs: Outputs = [[] for _ in records]
        for value, offset in zip(in_flight.output.values, in_flight.output.offsets, strict=True):
            outputs[offset - 1000].append((value or b"").decode())
        for rejected in in_flight.failed_records:
            outputs[rejected.offset - 1000].append(rejected.failure.error)
        return outputs

    def _config(self, step: Step) -> TransformConfig:
        if isinstance(step, str):
            return V8Transform(uid="script", type="v8", script=step)
        uid = f"{step.member}-{hash(step)}"
        self._sets.replace(filter_set_id("c1", uid), map(normalise, step.values))
        return RedisSetFilterTransform(uid=uid, type="redis_set_filter", filter_expr=f'root = this."{step.member}"')

    def _script(self, config: V8Transform, resources: TransformContext) -> Transform:
        """Return the transform of a script.

        The cache key is the script, and whether the next step is a script.
        """
        key = config.script, resources.feeds_script
        if key not in self._built:
            self._built[key] = TRANSFORMS["v8"].build(config, resources)
        return self._built[key]
