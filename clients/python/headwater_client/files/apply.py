"""Makes the changes of a plan on a server.

Each step depends on the state of the server alone, so a run that was interrupted at any moment is completed by another
one: a configuration is saved before its values are written, and the values are written before it is deployed.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Final

from headwater_client import Flow, Headwater, HeadwaterError
from headwater_client.files.desired import ProjectFiles
from headwater_client.files.errors import FolderError
from headwater_client.files.plan import PipelinePlan, Plan, ValuesWrite
from headwater_client.files.values import ReiterableValues

PARALLEL_PIPELINES: Final = 6
VALUES_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of the changes of one pipeline.

    Attributes:
        text: What was done, in a few words.
        error: Why it could not be done; None when it was done.
        seconds: How long it took.
    """

    key: str
    text: str
    error: HeadwaterError | FolderError | None
    seconds: float


class Applier:
    """Applies a plan."""

    def __init__(self, hw: Headwater, files: ProjectFiles, *, prune: bool = False) -> None:
        """Create an applier.

        Args:
            hw: The client of the server.
            files: The files of the folder that was planned.
            prune: Whether pipelines that are not in the folder are deleted.
        """
        self._hw = hw
        self._files = files
        self._prune = prune

    def apply(self, plan: Plan) -> Iterator[Outcome]:
        """Apply a plan, several pipelines at once, and yield each outcome as soon as it is known."""
        work = [each for each in plan.pipelines if (not each.is_empty if each.is_in_folder else self._prune)]
        pool = ThreadPoolExecutor(PARALLEL_PIPELINES)
        try:
            for future in as_completed([pool.submit(self._outcome, each) for each in work]):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _outcome(self, plan: PipelinePlan) -> Outcome:
        began = time.monotonic()
        error: HeadwaterError | FolderError | None = None
        text = ""
        try:
            text = self._change(plan) if plan.is_in_folder else self._remove(plan)
        except (HeadwaterError, FolderError) as raised:
            error = raised
        return Outcome(plan.key, text, error, time.monotonic() - began)

    def _remove(self, plan: PipelinePlan) -> str:
        assert plan.live is not None
        self._hw.flows.get(plan.live.id).delete()
        return "removed"

    def _change(self, plan: PipelinePlan) -> str:
        flow = self._save(plan)
        for write in plan.values:
            _write_values(flow, write)
        done = "created" if plan.is_create else "saved" if plan.saves else ""
        texts = [done, "values written" if plan.values and not plan.is_create else ""]
        texts += [self._step(flow, plan, step) for step in plan.steps]
        return ", ".join(filter(None, texts))

    def _save(self, plan: PipelinePlan) -> Flow:
        assert plan.desired is not None
        body = plan.desired.body(self._files.external_id(plan.key))
        if plan.live is None:
            return self._hw.flows.create_from(body)
        flow = self._hw.flows.get(plan.live.id)
        return flow.replace(body, if_revision=plan.live.revision) if plan.saves else flow

    def _step(self, flow: Flow, plan: PipelinePlan, step: str) -> str:
        if step == "pause":
            flow.pause()
            return "paused"
        if step == "teardown":
            flow.teardown()
            return "torn down"
        deployment = flow.deploy()
        return "deployed" if plan.is_create else f"revision {deployment.revision} runs"


def _write_values(flow: Flow, write: ValuesWrite) -> None:
    flow.filters[write.transform].replace(ReiterableValues(write.values), timeout=VALUES_TIMEOUT_S)
