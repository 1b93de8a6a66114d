"""The models of the files of a folder, from which the JSON Schemas are generated too."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

NAME_PATTERN: Final = r"^[A-Za-z0-9._-]{1,100}$"
VARIABLE_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"

Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
DeployMode = Annotated[
    bool | Literal["paused"],
    Meta(description="Whether the pipeline is deployed; `paused`: deployed, but processing nothing."),
]
ValuesMode = Annotated[
    Literal["initial", "replace"],
    Meta(
        description="`initial`: only a filter that was never written gets these values. `replace`: each apply makes "
        "the filter hold exactly these values."
    ),
]


class FileModel(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The base of the models."""


class Values(FileModel, kw_only=True):
    """The values of a filter: a `list`, or a `file` beside the pipeline."""

    file: Annotated[
        str | UnsetType, Meta(description="A CSV file when it ends in .csv, else text with one value in each line.")
    ] = UNSET
    column: Annotated[str | UnsetType, Meta(description="The CSV column; optional when there is only one.")] = UNSET
    texts: list[str] | UnsetType = msgspec.field(name="list", default=UNSET)
    mode: ValuesMode = "initial"


class SetFilter(FileModel, kw_only=True):
    """Keeps the records whose selected value is in a set."""

    expr: Annotated[str, Meta(description="Selects the value, such as `root = this.token_address`.")]
    values: Annotated[
        list[str] | Values | UnsetType, Meta(description="A list is short for `{list: […], mode: initial}`.")
    ] = UNSET


class Script(FileModel, kw_only=True):
    """A script in JavaScript or TypeScript: a `file`, or its text in `script`."""

    file: str | UnsetType = UNSET
    script: str | UnsetType = UNSET


class Transform(FileModel, kw_only=True):
    """A transform: a name and exactly one of `redis_set_filter` and `v8`."""

    name: Annotated[Name, Meta(description="Binds the transform to the one that runs; unique in its pipeline.")]
    redis_set_filter: SetFilter | UnsetType = UNSET
    v8: Script | UnsetType = UNSET


class Source(FileModel, kw_only=True):
    """The stream that a pipeline reads."""

    chain: str
    entity: str
    type: Literal["kafka", "pubsub"] | UnsetType = UNSET
    is_zerolag: bool = False
    start_at: Annotated[str, Meta(description="`latest`, `earliest` or an RFC 3339 time.")] = "latest"


class Sink(FileModel, kw_only=True):
    """A sink of the results."""

    type: Literal["kafka", "prices"]
    name: Name
    partitions: int | UnsetType = UNSET
    retention_ms: int | UnsetType = UNSET
    retention_bytes: int | UnsetType = UNSET
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] | UnsetType = UNSET
    cleanup_policy: Literal["delete", "compact", "compact,delete", "delete,compact"] | UnsetType = UNSET


class WorkerBounds(FileModel, kw_only=True):
    """The bounds between which the number of workers follows the load."""

    min: int
    max: int


Parallelism = Annotated[int | WorkerBounds, Meta(description="The number of workers, or its bounds.")]
Delivery = Literal["at_least_once", "exactly_once"]


class Pipeline(FileModel, kw_only=True):
    """A pipeline. The name of the file, without its ending, binds it to what runs."""

    name: Annotated[str | UnsetType, Meta(description="What people read; the name of the file when omitted.")] = UNSET
    description: str = ""
    tags: list[str] = []
    source: Source
    transforms: list[Transform] = []
    sinks: Annotated[list[Sink], Meta(min_length=1)]
    parallelism: Parallelism = 1
    delivery: Delivery = "at_least_once"
    deploy: DeployMode = True


class Defaults(FileModel, kw_only=True):
    """The values of members that a pipeline omits. Members of `source` are merged one by one."""

    description: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    source: dict[str, Any] | UnsetType = UNSET
    parallelism: Parallelism | UnsetType = UNSET
    delivery: Delivery | UnsetType = UNSET
    deploy: DeployMode | UnsetType = UNSET


Variables = Annotated[
    dict[Annotated[str, Meta(pattern=VARIABLE_PATTERN)], str],
    Meta(description="Values of `${NAME}`. They take precedence over the variables of the process."),
]


class Environment(FileModel, kw_only=True):
    """The differences of one environment, which `--env` selects."""

    project: Name | UnsetType = UNSET
    url: str | UnsetType = UNSET
    variables: Variables = {}
    defaults: Defaults = msgspec.field(default_factory=Defaults)


class Project(FileModel, kw_only=True):
    """The file headwater.yaml of a folder."""

    project: Annotated[
        Name, Meta(description="Part of every `external_id`. plan, apply and --prune concern only its pipelines.")
    ]
    url: Annotated[str | UnsetType, Meta(description="The server; --url and --profile take precedence.")] = UNSET
    variables: Variables = {}
    defaults: Defaults = msgspec.field(default_factory=Defaults)
    environments: dict[Name, Environment] = {}


def json_schema(model: type[FileModel]) -> dict[str, Any]:
    """Return the JSON Schema of a file.

    >>> json_schema(Project)["title"]
    'Headwater project'
    """
    title = {"Project": "Headwater project", "Pipeline": "Headwater pipeline", "CaseFile": "Headwater cases"}[
        model.__name__
    ]
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title} | msgspec.json.schema(model)
    for name in ("Pipeline", "Source"):  # required members may come from `defaults` in headwater.yaml
        required = schema["$defs"].get(name, {}).get("required", [])
        required[:] = [member for member in required if member == "sinks"]
    return schema
