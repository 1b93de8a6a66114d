"""Route that returns the usage and the limit of each quota of an owner."""

from pydantic import BaseModel, Field

from headwater.api.dependencies import ApiKeyDep, ServicesDep
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import problem_responses
from headwater.model.quota import QuotaName
from headwater.services.quotas import quota_usage

router = authenticated_router("/api/v1/flow/limits", "Configurations")


class QuotaLimit(BaseModel):
    """The usage and the limit of one quota."""

    name: QuotaName
    used: int
    allowed: int | None = Field(description="The limit; null when there is none.")


class QuotaLimits(BaseModel):
    """All quotas of the owner of the API key."""

    limits: list[QuotaLimit]


@router.get(
    "",
    operation_id="getLimits",
    summary="Read your quotas",
    responses=problem_responses(),
    openapi_extra=required_scopes("flow:read"),
)
def read(api_key: ApiKeyDep, services: ServicesDep) -> QuotaLimits:
    """Returns the usage and the limit of each quota.
    A request that would exceed a quota gets 403, and the error states the usage and the limit.
    """
    usage = quota_usage(services.quota_stores.quotas, services.quota_stores.sets, api_key.owner)
    return QuotaLimits(limits=[QuotaLimit(name=quota.name, used=quota.used, allowed=quota.limit) for quota in usage])
