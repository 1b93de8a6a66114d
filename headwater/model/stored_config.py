"""Reads stored pipelines, also pipelines that are invalid in this version of Headwater.

A stored pipeline is invalid when a limit was lowered since the save, or when another version has written the pipeline.
It must not break requests for other pipelines. Its parts are therefore read one by one: the identities of its
transforms, so that a PUT can replace the pipeline, and its sinks, so that a teardown can remove its resources.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headwater.model.flow import PipelineConfig, Source
from headwater.model.parallelism import PARALLELISM_TAGS
from headwater.model.sink import SINK_MODELS, Sink
from headwater.model.transforms import TRANSFORM_MODELS
from headwater.model.transforms.base import TransformIdentity

_SINK = TypeAdapter[Sink](Sink)
_UID = re.compile(r'"uid"\s*:\s*"([^"\\]+)"')
_TAGS = TRANSFORM_MODELS.keys() | SINK_MODELS.keys() | PARALLELISM_TAGS
"""The tags of unions, which pydantic inserts into the location of an error."""
_NO_SOURCE = Source(type="kafka", chain="", entity="")
"""The placeholder for a source that can't be read. It has no binding, because no stream has this name."""
_WHAT_TO_DO = "Save it again with PUT, or delete it."


class UnreadablePipelineConfig(PipelineConfig):
    """A stored pipeline that is invalid in this version of Headwater. No worker may run it.

    `sinks`, `source` and `transform_identities` have the parts that can be read.

    Attributes:
        text: The stored text.
        fault: What is wrong with the text.
    """

    text: str
    fault: str

    @classmethod
    def of(cls, text: str, fault: str) -> "UnreadablePipelineConfig":
        """Read the valid parts of a stored text."""
        fields = stored_object(text)
        return cls.model_construct(
            source=_source(fields.get("source")),
            transforms=[],
            sinks=list(_sinks(fields.get("sinks"))),
            text=text,
            fault=fault,
        )

    @property
    def unreadable_reason(self) -> str:
        """Sentences that say why this version can't read the pipeline, and what to do."""
        return f"This version of Headwater can't read the stored pipeline: {self.fault}. {_WHAT_TO_DO}"

    @property
    def document(self) -> Any:
        """The stored JSON value; the stored text when it is not JSON."""
        return _document(self.text)

    @property
    def transform_identities(self) -> tuple[TransformIdentity, ...]:
        """The identities of the transforms that have a uid.

        When the stored text is not JSON, each uid in the text counts as the uid of a filter.
        """
        document = self.document
        if isinstance(document, str):
            return tuple(TransformIdentity(uid, "redis_set_filter", None, "") for uid in _UID.findall(document))
        return tuple(_transforms(_object(document).get("transforms")))


def read_pipeline_config(text: str) -> PipelineConfig:
    """Read the pipeline in a stored text.

    Returns an UnreadablePipelineConfig when the pipeline is invalid in this version of Headwater.
    """
    try:
        return PipelineConfig.model_validate_json(text)
    except ValidationError as error:
        return UnreadablePipelineConfig.of(text, _reason(error))


def write_pipeline_config(config: PipelineConfig) -> str:
    """Return the text to store."""
    return config.text if isinstance(config, UnreadablePipelineConfig) else config.model_dump_json()


def _reason(error: ValidationError) -> str:
    """Return the JSON pointer of the first fault, and what is wrong there.

    Values are omitted, because they may be long or secret.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    pointer = "".join(f"/{part}" for part in first["loc"] if part not in _TAGS)
    message = first["msg"].removeprefix("Value error, ").rstrip(".")
    return f"/pipeline_config{pointer}: {message[:1].lower()}{message[1:]}"


def stored_object(text: str) -> Mapping[str, Any]:
    """Return the fields of a stored JSON object; no fields when the text is not a JSON object."""
    return _object(_document(text))


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _source(value: Any) -> Source:
    try:
        return Source.model_validate(value)
    except ValidationError:
        return _NO_SOURCE


def _sinks(value: Any) -> Iterator[Sink]:
    for item in _objects(value):
        try:
            yield _SINK.validate_python(item)
        except ValidationError:
            continue  # the type may be of another version; this version could not remove the sink's resources anyway


def _transforms(value: Any) -> Iterator[TransformIdentity]:
    for item in _objects(value):
        uid, kind, name = item.get("uid"), item.get("type"), item.get("name")
        if isinstance(uid, str) and isinstance(kind, str):
            model = TRANSFORM_MODELS.get(kind)
            content = item.get(model.content_field) if model else None
            yield TransformIdentity(uid, kind, name if isinstance(name, str) else None, str(content or ""))
