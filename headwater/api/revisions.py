"""Routes of the history of a configuration: list, read, compare and roll back."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Self

from anyio import to_thread
from fastapi import Body, Path, Query, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from headwater import errors
from headwater.api import examples
from headwater.api.configurations import PATH, set_etag
from headwater.api.dependencies import ApiKeyDep, CompileLimiterDep, DiffLimiterDep, IfMatchDep, ServicesDep, WatcherDep
from headwater.api.deployments import deployment_body
from headwater.api.guarded_routes import authenticated_router, require_prices_scope, required_scopes
from headwater.api.openapi import PENDING_RESPONSE, body_problem_responses, etag_responses, problem_responses
from headwater.api.query_parameters import NULL_TO_NONE, STRICT_INTEGER
from headwater.api.schemas import DeploymentBody, FlowConfig, Timestamp, Warnings, fault_list
from headwater.api.transforms import redeploy
from headwater.model.pagination import MAX_LIST_LIMIT
from headwater.model.request_model import RequestModel
from headwater.model.revision import MAX_REVISION, RevisionSummary
from headwater.model.sink import PositiveInt
from headwater.services.revisions import RevisionPage

DEFAULT_LIMIT = 100

CURSOR_PATTERN = r"^[1-9][0-9]{0,9}$"


def _require_revision(cursor: str | None) -> str | None:
    if cursor is not None and not (re.fullmatch(CURSOR_PATTERN, cursor) and int(cursor) <= MAX_REVISION):
        raise ValueError("must be the cursor of the previous page")
    return cursor


RevisionNumber = Annotated[int, Path(ge=1, le=MAX_REVISION), STRICT_INTEGER]
Against = Annotated[
    int | None,
    Query(ge=1, le=MAX_REVISION, description="The revision to compare with; by default the revision before."),
    STRICT_INTEGER,
]
Limit = Annotated[int, Query(ge=1, le=MAX_LIST_LIMIT, description="The number of revisions on a page."), STRICT_INTEGER]
Cursor = Annotated[
    str | None,
    Query(description="The cursor of the previous page.", json_schema_extra={"pattern": CURSOR_PATTERN}),
    AfterValidator(_require_revision),
    NULL_TO_NONE,
]

router = authenticated_router(PATH + "/{config_id}", "Revisions")


class RevisionItem(BaseModel):
    """One revision of a configuration, without its content."""

    revision: int
    saved_at: Timestamp
    saved_by: str | None = Field(
        description="The id of the API key that saved the revision; null when an older version of Headwater saved it."
    )
    changed: list[str] = Field(
        description="The members that differ from the revision before: `name`, `description`, `tags`, `external_id`, "
        "or a member of `pipeline_config`. Empty for revision 1."
    )
    deployed_at: Timestamp | None = Field(
        description="When a deploy started the revision last; null when the revision was never deployed."
    )
    condition: str | None = Field(
        description="The condition that the revision's last rollout reached: `Stable`, `RollingOut`, `RolledBack` or "
        "`Failed`; null when the revision was never deployed."
    )

    @classmethod
    def of(cls, revision: RevisionSummary) -> Self:
        """Return the body for a stored revision."""
        return cls(
            revision=revision.revision,
            saved_at=revision.saved_at,
            saved_by=revision.saved_by,
            changed=list(revision.changed),
            deployed_at=revision.deployed_at,
            condition=revision.condition,
        )


class RevisionList(BaseModel):
    """One page of the stored revisions of a configuration."""

    items: list[RevisionItem] = Field(description="Newest first.")
    cursor: str | None = Field(description="Send it as `cursor` to get the next page; null on the last page.")

    @classmethod
    def of(cls, page: RevisionPage) -> Self:
        """Return the body for a page."""
        cursor = None if page.next_before is None else str(page.next_before)
        return cls(items=[RevisionItem.of(revision) for revision in page.revisions], cursor=cursor)


class RevisionComparison(BaseModel):
    """The differences between two revisions, as unified diffs.

    `-` marks the lines of `against`.
    """

    diff: str = Field(
        description="The diff of the members that you write, as JSON; each script is replaced by its SHA-256. Empty "
        "when they are equal."
    )
    scripts: dict[str, str] = Field(description="The diff of each script that differs, by the uid of its transform.")


class Rollback(RequestModel):
    """The request body of a rollback."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    revision: Annotated[PositiveInt, Field(le=MAX_REVISION)] = Field(description="The revision to save again.")


class RestoredDeployment(DeploymentBody):
    """The state of a deployment after a rollback to an earlier revision."""

    warnings: Warnings = None

    @classmethod
    def of(cls, deployment: DeploymentBody, warnings: Sequence[errors.Fault]) -> Self:
        """Return the body for a deployment, with the warnings of the save."""
        return cls(**deployment.model_dump(), warnings=fault_list(warnings))


@router.get(
    "/revisions",
    operation_id="listRevisions",
    summary="List the revisions of a configuration",
    responses=problem_responses(404),
    openapi_extra=required_scopes("flow:read"),
)
def list_all(
    config_id: str, api_key: ApiKeyDep, services: ServicesDep, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> RevisionList:
    """Lists the stored revisions, newest first.
    Each item says who saved the revision, what the save changed, and how the rollout of the revision ended. The newest
    100 revisions are stored, a number that the operator can change. Revisions that a deployment runs, or would run
    again after a failed rollout, are always stored.
    """
    before = None if cursor is None else int(cursor)
    return RevisionList.of(services.revisions.list(api_key.owner, config_id, before, limit))


@router.get(
    "/revisions/{revision}",
    operation_id="getRevision",
    summary="Read a revision of a configuration",
    responses=problem_responses(404),
    openapi_extra=required_scopes("flow:read"),
)
def read(config_id: str, revision: RevisionNumber, api_key: ApiKeyDep, services: ServicesDep) -> FlowConfig:
    """Returns the configuration as it was at this revision.
    `updated_at` is the time of that save.
    """
    return FlowConfig.of(services.revisions.get(api_key.owner, config_id, revision))


@router.get(
    "/revisions/{revision}/diff",
    operation_id="diffRevisions",
    summary="Compare two revisions of a configuration",
    responses=problem_responses(404),
    openapi_extra=required_scopes("flow:read"),
)
async def diff(
    config_id: str,
    revision: RevisionNumber,
    api_key: ApiKeyDep,
    services: ServicesDep,
    limiter: DiffLimiterDep,
    against: Against = None,
) -> RevisionComparison:
    """Returns unified diffs of the configuration and of each script that differs.
    Lines of `against` begin with `-`, lines of this revision with `+`. Revision 1 is by default compared with nothing.
    """
    compare = partial(services.revisions.diff, api_key.owner, config_id, revision, against)
    found = await limiter.run(api_key.owner, compare)
    return RevisionComparison(diff=found.diff, scripts=dict(found.scripts))


@router.post(
    "/rollback",
    operation_id="rollBack",
    summary="Save an earlier revision again, and deploy it",
    responses=etag_responses(required=False) | body_problem_responses(404, 409, 412) | PENDING_RESPONSE,
    openapi_extra=required_scopes("flow:write", when_deployed="flow:deploy"),
)
async def roll_back(
    config_id: str,
    body: Annotated[Rollback, Body(openapi_examples={"revision 3": {"value": examples.ROLLBACK}})],
    response: Response,
    api_key: ApiKeyDep,
    services: ServicesDep,
    compile_limiter: CompileLimiterDep,
    watcher: WatcherDep,
    if_match: IfMatchDep,
) -> RestoredDeployment | FlowConfig:
    """Saves an earlier revision as the newest one.
    The newest revision itself is not saved again, only deployed; the response is 409 when it runs already.
    When the configuration is deployed and not paused, the saved revision is deployed too, and the response is the same
    as for POST …/deploy. Otherwise the response is the saved configuration; a paused pipeline stays paused, and the
    saved revision runs when it is resumed. The checks and quotas of a save apply; a prices sink
    also needs the scope `prices:write`.

    A filter that the newest revision does not have gets back the values that it had when it was removed. When these
    values are no longer kept, the filter is empty, and `warnings` names it.
    """
    revision = await to_thread.run_sync(services.revisions.get, api_key.owner, config_id, body.revision)
    require_prices_scope(api_key, revision.pipeline_config.sinks)
    await to_thread.run_sync(services.deployments.require_not_running, api_key.owner, config_id, body.revision)
    restore = partial(services.flows.restore, api_key.owner, config_id, revision, if_match)
    saved = await compile_limiter.run(api_key.owner, restore)
    deployment = await redeploy(services, watcher, saved.flow)
    if deployment is not None:
        return RestoredDeployment.of(deployment_body(deployment, services.kafka), saved.warnings)
    set_etag(response, saved.flow)
    return FlowConfig.of(saved.flow, saved.warnings)
