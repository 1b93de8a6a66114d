"""What an owner has of each quota, and may have."""

from pydantic import BaseModel, Field

from headwater.api.guard import guarded_router, needs
from headwater.api.openapi import failures
from headwater.api.services import Caller, Given
from headwater.model.quota import QuotaName
from headwater.services.quotas import limits

router = guarded_router("/api/v1/flow/limits", "Configurations")


class QuotaLimit(BaseModel):
    """One quota."""

    name: QuotaName
    used: int
    allowed: int | None = Field(description="null: any number.")


class QuotaLimits(BaseModel):
    """All quotas of the key's owner."""

    limits: list[QuotaLimit]


@router.get(
    "",
    operation_id="getLimits",
    summary="Read your quotas",
    responses=failures(),
    openapi_extra=needs("flow:read"),
)
def read(caller: Caller, given: Given) -> QuotaLimits:
    """What is over a quota is refused with 403, and the answer says how much is used and allowed."""
    found = limits(given.quotas.quotas, given.quotas.sets, caller.owner)
    return QuotaLimits(limits=[QuotaLimit(name=one.name, used=one.used, allowed=one.allowed) for one in found])
