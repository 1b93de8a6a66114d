"""Parameters and response body of the routes `…/applied`.

They return which version of a set the workers have read.
"""

from typing import Annotated, Self

from anyio import to_thread
from fastapi import Query
from pydantic import BaseModel, Field

from headwater.api.applied_watcher import AppliedWatcher
from headwater.api.query_parameters import STRICT_INTEGER
from headwater.model.value_sets import MAX_CURSOR
from headwater.services.applied_versions import MAX_WAIT_S, AppliedState, AppliedVersions, WatchedSet

VersionQuery = Annotated[
    int | None,
    Query(ge=0, le=MAX_CURSOR, description="The `version` in the response to a write; by default the present version."),
    STRICT_INTEGER,
]
WaitQuery = Annotated[
    int,
    Query(ge=0, le=MAX_WAIT_S, description="How many seconds to wait until the version is applied."),
    STRICT_INTEGER,
]


class AppliedWorker(BaseModel):
    """A worker that uses the set."""

    name: str
    version: int | None = Field(
        description="The version that the worker has read last; null until it has reported one. A version that the set "
        "has lost since, such as in a failover of Valkey or Redis, does not count."
    )


class Applied(BaseModel):
    """Whether the workers have read a version of a set."""

    version: int = Field(description="The version that the request names, or else the present one.")
    applied: bool = Field(
        description="True when every batch of records that starts from now on sees all writes up to this version."
    )
    workers: list[AppliedWorker] = Field(
        description="For a filter all workers of the pipeline; for a dataset the workers that may have looked it up. "
        "Empty while the pipeline is paused, until its first workers exist, and after its rollout has failed."
    )

    @classmethod
    def of(cls, version: int, state: AppliedState) -> Self:
        """Return the body for a version."""
        workers = [AppliedWorker(name=worker.worker, version=worker.number) for worker in state.workers]
        return cls(version=version, applied=state.has_applied(version), workers=workers)


async def wait_until_applied(
    service: AppliedVersions, watcher: AppliedWatcher, watched: WatchedSet, version: int | None, wait_s: int
) -> Applied:
    """Wait until the workers have read a version, for at most `wait_s` seconds.

    The default is the present version. Raises DatabaseUnavailable, RedisUnavailable, NotFound, RateLimited.
    """
    wanted = await to_thread.run_sync(service.current, watched) if version is None else version
    return Applied.of(wanted, await watcher.wait_for(watched, wanted, wait_s))
