"""The configuration of the transform `v8`.

headwater/transforms/v8.py executes the transform.
"""

from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field
from pydantic.json_schema import SkipJsonSchema

from headwater.model.fields import Text, is_none
from headwater.model.transforms.base import NewTransformFields, TransformFields

MAX_SCRIPT_BYTES = 1 << 20


def _require_script_size(script: str) -> str:
    if len(script.encode()) > MAX_SCRIPT_BYTES:
        raise ValueError(f"must be at most {MAX_SCRIPT_BYTES} bytes of UTF-8")
    return script


ScriptText = Annotated[Text, AfterValidator(_require_script_size)]


class ValidatedScript(NamedTuple):
    """The result of the validation of a valid script.

    Attributes:
        warnings: What the user should know about the script.
        javascript: The compiled JavaScript; None when the script runs unchanged.
    """

    warnings: list[str]
    javascript: str | None = None


class _V8(TransformFields):
    noun = "script"
    content_field = "script"
    example = {"type": "v8", "script": "function process(record) { record.seen = true; return record; }"}
    is_script = True

    type: Literal["v8"]
    script: ScriptText = Field(
        description="JavaScript or TypeScript that defines or exports a function `process(record)` (or `transform`), "
        "at most 1 MiB."
    )


class V8Transform(_V8):
    """Runs a JavaScript function `process(record)` in the sandbox."""

    uid: str
    # The JavaScript that was compiled from a module or from TypeScript when the script was saved; None when the script
    # runs unchanged. Responses never contain this field.
    javascript: SkipJsonSchema[str | None] = Field(default=None, exclude_if=is_none, repr=False)

    @property
    def runnable_script(self) -> str:
        """The script that the sandbox loads."""
        return self.script if self.javascript is None else self.javascript

    def without_internal_fields(self) -> Self:
        """Return the transform without the JavaScript that was compiled from its script."""
        return self.model_copy(update={"javascript": None})


class NewV8Transform(_V8, NewTransformFields):
    """A script in a request."""
