"""The members that the configurations of all types of transforms have."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from headwater.model.fields import ReturnedOnly, is_none
from headwater.model.request_model import RequestModel

TRANSFORM_NAME_PATTERN = r"^[A-Za-z0-9._-]{1,100}$"


@dataclass(frozen=True, slots=True)
class TransformIdentity:
    """The members of a stored transform by which a transform in a request is matched to it.

    content: see TransformFields.
    """

    uid: str
    type: str
    name: str | None
    content: str


class TransformFields(BaseModel):
    """The members that a transform has both in a request and in a stored configuration.

    Class variables describe the type:
        noun: What docs call a transform of this type.
        content_field: The member that decides what the transform does. A request without uids is matched by it.
        example: The members of an example, without those that are optional.
        is_script: Whether the transform runs in the sandbox, and may make any number of outputs of a record.
        owns_set: Whether the transform has a set of values, which the filter-values endpoints change.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    noun: ClassVar[str]
    content_field: ClassVar[str]
    example: ClassVar[dict[str, Any]]
    is_script: ClassVar[bool] = False
    owns_set: ClassVar[bool] = False

    name: str | None = Field(
        default=None,
        pattern=TRANSFORM_NAME_PATTERN,
        description="Your own name of the transform, unique in its configuration. PUT finds the transform by it. "
        "When omitted, a stored name is kept; null removes it.",
        exclude_if=is_none,
    )

    @property
    def content(self) -> str:
        """The value of `content_field`."""
        return str(getattr(self, self.content_field))

    def without_internal_fields(self) -> Self:
        """Return the transform without the members that users never see."""
        return self


class NewTransformFields(RequestModel):
    """The members that every transform in a request may have, and a stored one does not."""

    uid: str | None = Field(
        default=None,
        description="The uid of the transform that this one updates. A new transform gets a new uid; POST ignores it.",
    )
    warnings: ReturnedOnly = None

    @property
    def initial_values(self) -> list[str] | None:
        """The initial values of a new transform's set, for a type that owns a set."""
        return None
