"""The fields that the configurations of all types of transforms have."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from headwater.model.fields import ReturnedOnly, is_none
from headwater.model.request_model import RequestModel

TRANSFORM_NAME_PATTERN = r"^[A-Za-z0-9._-]{1,100}$"


@dataclass(frozen=True, slots=True)
class TransformIdentity:
    """The fields by which a transform in a request is matched to a stored transform.

    Attributes:
        content: See TransformFields.
    """

    uid: str
    type: str
    name: str | None
    content: str


class TransformFields(BaseModel):
    """The fields that a transform has both in a request and in a stored configuration.

    Class variables describe the type:
        noun: What the documentation calls a transform of this type.
        content_field: The field that decides what the transform does. When a request replaces a configuration, a
            transform that neither its uid nor its name matches is matched to the stored transform of its type with the
            same value of this field.
        example: The fields of an example, without optional fields.
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
        """Return the transform without the fields that users never see."""
        return self


class NewTransformFields(RequestModel):
    """The fields of a transform in a request that differ from a stored transform.

    A stored transform does not have them, or has them in another form.
    """

    uid: str | None = Field(
        default=None,
        description="The uid of the stored transform to update. A new transform gets a new uid; POST ignores this.",
    )
    warnings: ReturnedOnly = None

    @property
    def initial_values(self) -> list[str] | None:
        """The initial values of a new transform's set, for a type that owns a set."""
        return None
