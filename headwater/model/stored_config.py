"""Reads stored pipelines.

A pipeline that this version can't read as a whole is read in parts. So it does not break requests for other pipelines.
A limit may have been lowered since the save, or another version may have written the pipeline. Its transforms and sinks
are read without this version's validation, so that a PUT can replace the pipeline and a teardown can remove its
resources.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headwater.model.flow import PipelineConfig, Source
from headwater.model.sink import SINK_MODELS, Sink
from headwater.model.transforms import TRANSFORM_MODELS
from headwater.model.transforms.base import TransformIdentity

_SINK = TypeAdapter[Sink](Sink)
_UID = re.compile(r'"uid"\s*:\s*"([^"\\]+)"')
_TAGS = TRANSFORM_MODELS.keys() | SINK_MODELS.keys()
_NO_SOURCE = Source(type="kafka", chain="", entity="")
"""The placeholder for a source that can't be read. No stream has this name, so it has no binding."""
_WHAT_TO_DO = "Save it again with PUT, or delete it."


class UnreadableConfig(PipelineConfig):
    """A stored pipeline that is invalid in this version. No worker may run it.

    `sinks`, `source` and `transform_identities` hold the parts that can be read.

    Attributes:
        text: The stored text.
        fault: What is wrong with it.
    """

    text: str
    fault: str

    @classmethod
    def of(cls, text: str, fault: str) -> "UnreadableConfig":
        """Read the valid parts of a stored text."""
        members = stored_object(text)
        return cls.model_construct(
            source=_source(members.get("source")),
            transforms=[],
            sinks=list(_sinks(members.get("sinks"))),
            text=text,
            fault=fault,
        )

    @property
    def unreadable(self) -> str:
        """A sentence that says why this version can't read the pipeline, and what to do."""
        return f"This version of Headwater can't read the stored pipeline: {self.fault}. {_WHAT_TO_DO}"

    @property
    def document(self) -> Any:
        """The stored JSON value; the stored text when it is not JSON."""
        return _document(self.text)

    @property
    def transform_identities(self) -> tuple[TransformIdentity, ...]:
        """The transforms that have a uid.

        If the stored text is not JSON, each uid in it counts as that of a filter.
        """
        document = self.document
        if isinstance(document, str):
            return tuple(TransformIdentity(uid, "redis_set_filter", None, "") for uid in _UID.findall(document))
        return tuple(_transforms(_object(document).get("transforms")))


def read_config(text: str) -> PipelineConfig:
    """Read the pipeline in a stored text.

    It is an UnreadableConfig when this version can't read it.
    """
    try:
        return PipelineConfig.model_validate_json(text)
    except ValidationError as error:
        return UnreadableConfig.of(text, _reason(error))


def write_config(config: PipelineConfig) -> str:
    """Return the text to store."""
    return config.text if isinstance(config, UnreadableConfig) else config.model_dump_json()


def _reason(error: ValidationError) -> str:
    """Return the first fault: its place, and what is wrong there.

    Values are omitted: they may be long or secret.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    place = "".join(f"/{part}" for part in first["loc"] if part not in _TAGS)
    message = first["msg"].removeprefix("Value error, ").rstrip(".")
    return f"/pipeline_config{place}: {message[:1].lower()}{message[1:]}"


def stored_object(text: str) -> Mapping[str, Any]:
    """Return the members of a stored JSON object; no members when the text is anything else."""
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
            continue  # a type that this version does not know: it owns nothing that this version could remove


def _transforms(value: Any) -> Iterator[TransformIdentity]:
    for item in _objects(value):
        uid, kind, name = item.get("uid"), item.get("type"), item.get("name")
        if isinstance(uid, str) and isinstance(kind, str):
            model = TRANSFORM_MODELS.get(kind)
            content = item.get(model.content_field) if model else None
            yield TransformIdentity(uid, kind, name if isinstance(name, str) else None, str(content or ""))
