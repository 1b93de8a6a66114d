"""Route that describes the API key of the request."""

from typing import Self

from pydantic import BaseModel, Field

from headwater.api.dependencies import ApiKeyDep
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import problem_responses
from headwater.api.schemas import Timestamp
from headwater.model.key import ApiKey

router = authenticated_router("/api/v1/flow/me", "Configurations")


class KeyBody(BaseModel):
    """An API key, without its secret."""

    owner: str = Field(description="The owner of the key. All keys of an owner see the same resources.")
    key_id: str = Field(description="The id of the key: the 12 characters after `hw_live_`.")
    scopes: list[str]
    expires_at: Timestamp | None = Field(description="When the key expires; null when it does not.")

    @classmethod
    def of(cls, key: ApiKey) -> Self:
        """Return the body for a key."""
        return cls(owner=key.owner, key_id=key.id, scopes=list(key.scopes), expires_at=key.expires_at)


@router.get(
    "",
    operation_id="getMe",
    summary="Read your API key",
    responses=problem_responses(),
    openapi_extra=required_scopes("flow:read"),
)
async def read(api_key: ApiKeyDep) -> KeyBody:
    """Returns the owner, and the id, the scopes and the expiry of the API key."""
    return KeyBody.of(api_key)
