"""The history of a configuration, and the members in which two revisions differ."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headwater.model.flow import Flow
from headwater.model.stored_config import UnreadablePipelineConfig

MAX_REVISION = 2**31 - 1
"""The largest number of a revision, which a 32-bit column stores."""

PIPELINE = "pipeline_config"


@dataclass(frozen=True, slots=True)
class RevisionSummary:
    """A stored revision of a configuration, without its content.

    Attributes:
        revision: The number of the revision.
        saved_at: When the revision was saved.
        saved_by: The id of the API key that saved the revision; None when an older version of Headwater saved it.
        changed: The members that differ from the revision before; empty for revision 1, and for a revision that an
            older version of Headwater saved.
        deployed_at: When a deploy request started the last rollout of the revision; None when there was none.
        condition: The condition that the last rollout of the revision reached; None when there was none.
    """

    revision: int
    saved_at: datetime
    saved_by: str | None
    changed: tuple[str, ...]
    deployed_at: datetime | None = None
    condition: str | None = None


def canonical_form(flow: Flow) -> dict[str, Any]:
    """Return the members of a configuration that its owner writes, always in the same order.

    The uids of transforms and sinks are included.
    """
    form: dict[str, Any] = {"name": flow.name, "description": flow.description, "tags": list(flow.tags)}
    if flow.external_id is not None:
        form["external_id"] = flow.external_id
    config = flow.pipeline_config
    form[PIPELINE] = (
        config.document
        if isinstance(config, UnreadablePipelineConfig)
        else config.without_internal_fields().model_dump(mode="json")
    )
    return form


def changed_members(before: Flow, after: Flow) -> tuple[str, ...]:
    """Return the names of the members in which two revisions differ.

    A member of `pipeline_config` is named without `pipeline_config`, for example `transforms`.
    """
    old, new = _flat(canonical_form(before)), _flat(canonical_form(after))
    names = dict.fromkeys([*new, *old])
    return tuple(name for name in names if (name in old, old.get(name)) != (name in new, new.get(name)))


def _flat(form: dict[str, Any]) -> dict[str, Any]:
    """Return a canonical form with the members of its pipeline in place of the pipeline.

    A pipeline that is not a JSON object remains one member.
    """
    pipeline = form.pop(PIPELINE)
    return {**form, **pipeline} if isinstance(pipeline, dict) else {**form, PIPELINE: pipeline}
