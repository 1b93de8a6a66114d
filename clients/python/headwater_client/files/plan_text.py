"""Prints a plan."""

from collections.abc import Iterator
from typing import Final

from headwater_client.files.plan import Change, PipelinePlan, Plan, ValuesWrite

WIDTH: Final = 38
MAX_DIFF_LINES: Final = 60


def plan_lines(plan: Plan, url: str, *, prune: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the lines of a plan, each with its sign: `+`, `-`, `~` or empty."""
    yield "", f"project {plan.project} on {url}"
    shown = [each for each in plan.pipelines if not each.is_in_folder or not each.is_empty]
    for pipeline in shown:
        yield "", ""
        yield from _pipeline_lines(pipeline, prune=prune)
    yield "", ""
    yield "", summary(plan, prune=prune)


def summary(plan: Plan, *, prune: bool) -> str:
    """Return the last line of a plan."""
    unchanged = sum(each.is_in_folder and each.is_empty for each in plan.pipelines)
    if plan.is_empty(prune=True):
        return f"Nothing to do: all {unchanged} pipelines are as the files say."
    surplus = len(plan.not_in_folder)
    removed = f"{surplus if prune else 0} to remove"
    if surplus and not prune:
        removed += f" ({surplus} with --prune)"
    return f"{len(plan.to_change)} to change, {len(plan.to_create)} to create, {removed}."


def _pipeline_lines(plan: PipelinePlan, *, prune: bool) -> Iterator[tuple[str, str]]:
    sign = "+" if plan.is_create else "~" if plan.is_in_folder else "-"
    yield sign, f"{sign} {plan.key:<{WIDTH - 2}} {planned_action(plan, prune=prune)}".rstrip()
    for change in plan.changes:
        yield change.sign, f"  {change.sign} {change.where}  {change.detail}".rstrip()
        yield from _diff_lines(change)
    for write in plan.values:
        yield "~", f"  ~ transforms.{write.transform}  values  {values_text(write)}"
    if plan.live is not None and plan.live.failure and plan.is_in_folder:
        yield "", f"    the last rollout failed: {plan.live.failure}"
    for removed in plan.destroys:
        yield "-", f"    removes {removed}"


def _diff_lines(change: Change) -> Iterator[tuple[str, str]]:
    for line in change.lines[:MAX_DIFF_LINES]:
        yield line.sign, f"    {line.number:>3} {line.sign} {line.text}"
    if len(change.lines) > MAX_DIFF_LINES:
        yield "", f"        … and {len(change.lines) - MAX_DIFF_LINES} more lines"


def planned_action(plan: PipelinePlan, *, prune: bool = False) -> str:
    """Return what happens to a pipeline, in a few words."""
    if not plan.is_in_folder:
        return "not in this folder; " + ("is removed" if prune else "--prune removes it")
    steps = plan.steps
    if plan.is_create:
        return {
            (): "created",
            ("deploy",): "created and deployed",
            ("deploy", "pause"): "created and deployed, paused",
        }[steps]
    if "teardown" in steps:
        return "torn down"
    if "pause" in steps:
        return "deployed and paused" if "deploy" in steps else "paused"
    if "deploy" in steps:
        if plan.redeploys:
            only_transforms = all(
                change.where.startswith(("transforms", "name", "desc", "tags")) for change in plan.changes
            )
            return "redeploys without interruption" if only_transforms else "redeploys"
        return "deployed" if plan.live is not None and plan.live.state == "none" else "resumed"
    return "saved, keeps running" if plan.saves else ""


def values_text(write: ValuesWrite) -> str:
    """Return what happens to the values of a filter, in a few words."""
    mode = write.values.mode
    if write.live is None or write.live.version == 0:
        return f"+{write.count:,} ({mode})"
    if write.added is None:
        return f"{write.live.count:,} → {write.count:,} ({mode})"
    return f"+{write.added:,} −{write.removed:,} of {write.live.count:,} ({mode})"
