"""The pipelines that a folder describes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headwater_client.files.values import DesiredValues

DeployMode = Literal["running", "paused", "none"]


@dataclass(frozen=True, slots=True)
class DesiredPipeline:
    """A pipeline as its file describes it.

    Attributes:
        key: The name of the file without its ending.
        name: The name that people read.
        config: The `pipeline_config` of a request, without values of filters.
        deploy: Whether it is deployed, and whether it processes records.
        values: The values of filters, by the name of the transform.
        script_labels: The path of each script that is a file, by the name of the transform.
    """

    key: str
    name: str
    description: str
    tags: tuple[str, ...]
    config: Mapping[str, Any]
    deploy: DeployMode = "running"
    values: Mapping[str, DesiredValues] = field(default_factory=dict)
    script_labels: Mapping[str, str] = field(default_factory=dict)

    def body(self, external_id: str) -> dict[str, Any]:
        """Return the body of the request that creates or replaces the configuration."""
        return {
            "name": self.name,
            "description": self.description,
            "tags": list(self.tags),
            "external_id": external_id,
            "pipeline_config": dict(self.config),
        }


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The files of a project, as they were read from a folder.

    Attributes:
        project: The project, which is the first part of every external id.
        url: The server that the folder names; empty when it names none.
        pipelines: The pipelines, in the order of their files.
    """

    project: str
    url: str
    pipelines: Sequence[DesiredPipeline]

    def external_id(self, key: str) -> str:
        """Return the external id of a pipeline."""
        return external_id(self.project, key)


def external_id(project: str, key: str) -> str:
    """Return the external id that binds a file to what runs.

    >>> external_id("wallets", "usdc-whales")
    'wallets/usdc-whales'
    """
    return f"{project}/{key}"


def key_of(project: str, external_id: str | None) -> str | None:
    """Return the name of the file of a pipeline of the project; None for other pipelines.

    >>> key_of("wallets", "wallets/usdc"), key_of("wallets", "wallets2/usdc"), key_of("wallets", None)
    ('usdc', None, None)
    """
    prefix = external_id.removeprefix(f"{project}/") if external_id else None
    return None if prefix is None or prefix == external_id else prefix
