"""Runs trials of configurations on records of a request or of a stream.

A trial checks a configuration as create or PUT does, and runs its transforms on the records. It saves nothing. The API
calls a trial a validation.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from headwater.engine.pipeline import build_transforms
from headwater.errors import Conflict, Fault, InvalidInput, NotFound, StoredDataUnreadable
from headwater.model.deployment import DesiredPhase
from headwater.model.flow import Flow, PipelineConfig
from headwater.model.record import RecordBatch
from headwater.model.topic_record import TopicRecord
from headwater.model.transforms import TransformConfig
from headwater.model.trial import NewTrial, Sample, Trial, TrialTransformTotals
from headwater.model.value_sets import SetId, filter_set_id
from headwater.services.ids import Now
from headwater.services.pipeline_checker import CheckedPipeline, PipelineChecker
from headwater.services.samples import Samples
from headwater.services.trial_comparison import ResultComparison
from headwater.services.trial_results import ShownRecords, TrialSummaryBuilder
from headwater.services.trial_runs import ChunkResult, Deadline, PipelineRun
from headwater.services.trial_sets import TrialSets
from headwater.stores.protocols.configurations import FlowStore
from headwater.stores.protocols.deployments import DeploymentStore
from headwater.transforms.base import TransformContext
from headwater.transforms.transform_type import TransformType

TIME_LIMIT_S = 10.0
"""The time limit of up to MAX_RECORDS_ONE_BY_ONE records.

An endless loop in a script takes a second or two per record.
"""
LONG_TIME_LIMIT_S = 50.0
"""The time limit of more records."""
MAX_RECORDS_ONE_BY_ONE = 200
"""Up to so many records are processed one by one, so that the log lines of each record are known."""
MAX_CHUNK_OUTPUT_BYTES = 16_000_000
"""Once the outputs of a chunk of records reach this size, its remaining records are not processed."""
_TOO_LARGE = f"larger than {MAX_CHUNK_OUTPUT_BYTES // 1_000_000} MB together"
_FIRST_CHUNK_RECORDS, _MAX_CHUNK_RECORDS = 8, 512
_CHUNK_S = 0.25
"""How long the processing of a chunk should take at most."""
_TOPIC = "samples"
_CONFIG_ID = re.compile(r"[0-9a-z]{26}", re.ASCII)

GetRevision = Callable[[str, str, int], Flow]
OpenContext = Callable[[str], AbstractContextManager[TransformContext]]
"""Opens the context in which the transforms of an owner are built.

It has a sandbox, and the owner's sets and datasets.
"""


@dataclass(frozen=True, slots=True)
class TrialStores:
    """The stores of the configurations that trials compare with.

    Attributes:
        get_revision: Returns a configuration of an owner as it was at a revision, or raises NotFound.
    """

    flows: FlowStore
    deployments: DeploymentStore
    get_revision: GetRevision


class Trials:
    """Runs trials of configurations.

    Args:
        transform_types: The code of each type of transforms, by the name of the type.
        now: Returns the timestamp of the records of a request.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        *,
        stores: TrialStores,
        samples: Samples,
        checker: PipelineChecker,
        transform_types: Mapping[str, TransformType],
        open_context: OpenContext,
        now: Now,
        clock: Callable[[], float],
    ) -> None:
        self._stores = stores
        self._samples = samples
        self._checker = checker
        self._transform_types = transform_types
        self._open_context = open_context
        self._now = now
        self._clock = clock

    def run(self, owner: str, sent: NewTrial, values: Sequence[bytes]) -> Trial:
        """Check a pipeline, and pass the records of a sample through its transforms.

        With the id of a stored configuration, the pipeline is checked as PUT does, and the filters that this
        configuration has are tested against their live values. Other filters are tested against their `set_values`.
        `flow.contains` uses the owner's datasets. The call blocks for at most the time limit, and for some more seconds
        to read the sample and to start the sandbox.

        Raises InvalidInput, NotFound, Conflict, StoredDataUnreadable, SandboxFailed, RedisUnavailable,
        DatabaseUnavailable and BrokerUnavailable.

        Args:
            owner: The owner of the configurations.
            sent: The request.
            values: The records of the request as JSON texts.
        """
        _require_consistent(sent, values)
        stored = self._stored(owner, sent)
        before = self._compared_config(sent, stored)
        if before is not None and sent.sample is None and not values:
            detail = "compares the results of records; add `records`, or a `sample` of the stream"
            raise InvalidInput("The configuration was not validated.", [Fault("/against", detail)])
        checked = self._check(sent, stored)
        if sent.sample is None:
            sample = Sample(_TOPIC, self._sent_records(values))
        else:
            sample = self._samples.read(checked.config.source, sent.sample)
        trial = Trial(checked.warnings, sample, None if sent.detail == "summary" else [])
        if not sample.records:
            summary = _empty_summary(checked.config).result()
            return replace(trial, summary=summary, comparison=ResultComparison().result() if before else None)
        config_id = stored.id if stored else ""
        new_filters = _new_filters(config_id, checked, stored)
        one_by_one = len(sample.records) <= MAX_RECORDS_ONE_BY_ONE
        with ExitStack() as stack:
            open_run = partial(self._open_run, owner, config_id)
            after_run = stack.enter_context(open_run(checked.config.transforms, new_filters))
            before_run = stack.enter_context(open_run(before.transforms, {})) if before else None
            deadline = Deadline(self._clock, TIME_LIMIT_S if one_by_one else LONG_TIME_LIMIT_S)
            trial_run = _TrialRun(
                trial,
                checked.config,
                after_run(deadline),
                before_run and before_run(deadline),
                self._clock,
                one_by_one=one_by_one,
            )
            return trial_run.run()

    def _stored(self, owner: str, sent: NewTrial) -> Flow | None:
        """Return the configuration whose id the request has; None without an id. Raises NotFound."""
        if sent.id is None:
            return None
        if isinstance(sent.id, str) and _CONFIG_ID.fullmatch(sent.id):
            with suppress(NotFound):
                return self._stores.flows.get(owner, sent.id)
        raise NotFound(
            "None of your configurations has the `id` of the body. Correct it, or leave it out to check a new "
            "configuration."
        )

    def _compared_config(self, sent: NewTrial, stored: Flow | None) -> PipelineConfig | None:
        """Return the pipeline to compare with; None when there is none."""
        if stored is None or sent.against is None:
            return None
        if sent.against == "deployed":
            return self._deployed_config(stored.id)
        revision = self._stores.get_revision(stored.owner, stored.id, sent.against)
        if revision.pipeline_config.unreadable_reason:
            raise StoredDataUnreadable(revision.pipeline_config.unreadable_reason)
        return revision.pipeline_config

    def _deployed_config(self, config_id: str) -> PipelineConfig:
        deployment = self._stores.deployments.active(config_id)
        if deployment is None or deployment.desired is DesiredPhase.ABSENT:
            raise Conflict(
                "This configuration is a draft: no revision of it is deployed. Name a revision of it in `against`, or "
                "deploy it with POST …/deploy."
            )
        if deployment.unreadable_reason:
            raise StoredDataUnreadable(deployment.unreadable_reason)
        return deployment.effective_revision.config

    def _check(self, sent: NewTrial, stored: Flow | None) -> CheckedPipeline:
        checker = self._checker.with_compile_cache()
        if stored is None:
            return checker.check_new(sent.pipeline_config)
        return checker.check_replacement(sent.pipeline_config, stored.pipeline_config)

    def _sent_records(self, values: Sequence[bytes]) -> list[TopicRecord]:
        time_ms = int(self._now().timestamp() * 1000)
        return [TopicRecord(0, offset, time_ms, None, value) for offset, value in enumerate(values)]

    @contextmanager
    def _open_run(
        self,
        owner: str,
        config_id: str,
        configs: Sequence[TransformConfig],
        new_filters: Mapping[SetId, Sequence[str]],
    ) -> Iterator[Callable[[Deadline], PipelineRun]]:
        """Build the transforms of a pipeline in a sandbox of its own.

        So a crash of one pipeline's script, and its variables, never change the results of another one. Yields a
        function that returns the run of the transforms with a deadline.
        """
        with self._open_context(owner) as context:
            trial_context = replace(
                context,
                config_id=config_id,
                sets=TrialSets(new_filters, context.sets),
                max_batch_output_bytes=MAX_CHUNK_OUTPUT_BYTES,
            )
            transforms = build_transforms(configs, self._transform_types, trial_context)
            yield partial(PipelineRun, configs, transforms)


class _TrialRun:
    """Passes the records of a sample through one or two pipelines, and collects the results.

    Args:
        trial: The trial without its results.
        config: The pipeline of the request.
        after: Runs this pipeline.
        before: Runs the pipeline to compare with; None when there is none.
        clock: Returns monotonic seconds.
        one_by_one: Whether the records are processed one by one. Then the records after the time limit are shown as
            unfinished.
    """

    def __init__(
        self,
        trial: Trial,
        config: PipelineConfig,
        after: PipelineRun,
        before: PipelineRun | None,
        clock: Callable[[], float],
        *,
        one_by_one: bool,
    ) -> None:
        self._trial = trial
        self._after = after
        self._before = before
        self._clock = clock
        self._one_by_one = one_by_one
        self._shown = ShownRecords(show_all=not trial.sample.is_from_stream)
        self._summary = _empty_summary(config)
        self._comparison = ResultComparison()
        self._done = 0
        self._stop_reason = ""
        self._too_large = 0

    def run(self) -> Trial:
        """Process the records, and return the trial with the results."""
        records = self._trial.sample.records
        sizer = _ChunkSizer(1 if self._one_by_one else _MAX_CHUNK_RECORDS)
        start = 0
        while start < len(records) and (self._one_by_one or not self._stop_reason):
            chunk = records[start : start + sizer.limit]
            began_s = self._clock()
            if self._run_chunk(start, chunk):
                start += len(chunk)
                sizer.update(len(chunk), self._clock() - began_s)
            else:
                sizer.split(len(chunk))
        return replace(
            self._trial,
            records=None if self._trial.records is None else self._shown.records,
            done=self._done,
            unprocessed_reason="; ".join(filter(None, (self._stop_reason, self._too_large_reason))),
            summary=self._summary.result(),
            comparison=self._comparison.result() if self._before else None,
        )

    def _run_chunk(self, start: int, chunk: Sequence[TopicRecord]) -> bool:
        """Process some records. Returns False when they must be processed in smaller chunks."""
        batch = _batch_of(self._trial.sample.topic, chunk)
        after = self._after.run(batch, self._max_trace_bytes)
        before = self._before.run(batch, None) if self._before and not (after.must_split or after.limit) else None
        if after.must_split or (before and before.must_split):
            if len(chunk) > 1:
                return False
            self._too_large += 1
            if after.must_split:
                _mark_too_large(after)
        stopped = after.limit or (before.limit if before else "")
        if stopped:
            self._stop_reason = stopped
            if not self._one_by_one:
                return True
        self._add(start, chunk, after, before)
        return True

    @property
    def _too_large_reason(self) -> str:
        """Why the records with too large outputs are not done; empty when there are none."""
        if not self._too_large:
            return ""
        return f"{self._too_large} records are not done: the outputs of each are {_TOO_LARGE}"

    @property
    def _max_trace_bytes(self) -> int | None:
        """The size of the steps that the response has room for; None when no steps are shown."""
        if self._trial.records is None or self._shown.remaining_bytes < 0:
            return None
        return self._shown.remaining_bytes

    def _add(self, start: int, chunk: Sequence[TopicRecord], after: ChunkResult, before: ChunkResult | None) -> None:
        self._summary.add(start, after.records, after.totals)
        if self._trial.records is not None:
            for record, result in zip(chunk, after.records, strict=True):
                if not self._shown.is_full:
                    self._shown.add(record.value if self._trial.sample.is_from_stream else None, result)
        unfinished = after.limit or after.must_split or (before and (before.limit or before.must_split))
        if unfinished:
            return
        self._done += len(chunk)
        if before:
            results = zip(chunk, before.records, after.records, strict=True)
            for number, (record, old, new) in enumerate(results, start):
                self._comparison.add(number, record.value, old, new)


class _ChunkSizer:
    """Adapts the number of records that are processed together.

    It depends on their speed and on the size of their outputs.

    Attributes:
        limit: How many records the next chunk may have.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self.limit = min(_FIRST_CHUNK_RECORDS, maximum)

    def update(self, count: int, took_s: float) -> None:
        """Adapt the limit after a chunk."""
        if took_s > _CHUNK_S:
            self.limit = max(1, int(count * _CHUNK_S / took_s))
        else:
            self.limit = min(self._maximum, 2 * self.limit)

    def split(self, count: int) -> None:
        """Reduce the limit after a chunk whose outputs were too large."""
        self.limit = max(1, count // 8)


def _empty_summary(config: PipelineConfig) -> TrialSummaryBuilder:
    """Return the summary of a pipeline that has processed no record yet."""
    return TrialSummaryBuilder([TrialTransformTotals(each.uid, each.type) for each in config.transforms])


def _mark_too_large(result: ChunkResult) -> None:
    for record in result.records:
        record.outputs.clear()
        record.unfinished_reason = f"the outputs of the record are {_TOO_LARGE}"


def _require_consistent(sent: NewTrial, values: Sequence[bytes]) -> None:
    """Raise InvalidInput when members of the request contradict each other."""
    faults = []
    if sent.sample is not None and values:
        faults.append(Fault("/sample", "takes the place of `records`; send one of them"))
    if sent.against is not None and sent.id is None:
        faults.append(Fault("/against", "needs the `id` of the configuration to compare with in the body"))
    if faults:
        raise InvalidInput("The configuration was not validated.", faults)


def _new_filters(config_id: str, checked: CheckedPipeline, stored: Flow | None) -> dict[SetId, Sequence[str]]:
    """Return the values of each filter that the stored configuration does not have."""
    stored_uids = stored.pipeline_config.filter_uids if stored else frozenset()
    return {
        filter_set_id(config_id, uid): checked.initial_values.get(uid, ())
        for uid in checked.config.filter_uids - stored_uids
    }


def _batch_of(topic: str, records: Sequence[TopicRecord]) -> RecordBatch:
    return RecordBatch.of(
        topic,
        values=[record.value for record in records],
        keys=[record.key for record in records],
        timestamps=[-1 if record.timestamp_ms is None else record.timestamp_ms for record in records],
        partitions=[record.partition for record in records],
        offsets=[record.offset for record in records],
        indexes=[0] * len(records),
    )
