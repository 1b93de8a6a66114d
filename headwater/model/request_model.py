"""The base class of request bodies, in which null means the default of a field."""

from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class RequestModel(BaseModel):
    """The base class of request bodies and their parts, in which null means omission.

    Null remains invalid for a field without a default. A null for a field whose default is null is kept, so that
    `model_fields_set` distinguishes "null was sent" from "the field was omitted".
    """

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        optional = cls._fields_with_default()
        return {name: value for name, value in body.items() if value is not None or name not in optional}

    @classmethod
    def _fields_with_default(cls) -> frozenset[str]:
        """Return the names of the fields that have a default other than null."""
        fields = cls.model_fields.items()
        return frozenset(
            name
            for name, field in fields
            if not field.is_required() and field.get_default(call_default_factory=True, validated_data={}) is not None
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        for name in cls._fields_with_default() & schema.get("properties", {}).keys():
            schema["properties"][name] = _nullable(schema["properties"][name])
        return schema


def _nullable(schema: JsonSchemaValue) -> JsonSchemaValue:
    annotations: JsonSchemaValue = {key: schema[key] for key in ("title", "description", "default") if key in schema}
    rules = {key: value for key, value in schema.items() if key not in annotations}
    alternatives = rules["oneOf"] if rules.keys() == {"oneOf"} else [rules]
    return {"anyOf": [*alternatives, {"type": "null"}], **annotations}
