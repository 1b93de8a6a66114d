"""What the audit log says of each change: shared by the SQL stores and their twins in memory.

A state is told by number and hash: enough to prove later which content was saved, and nothing of the content itself.
"""

import hashlib
import json
from typing import Any

from headwater.model.audit import Change
from headwater.model.dataset import Dataset
from headwater.model.deployment import Deployment
from headwater.model.flow import Flow, PipelineConfig
from headwater.model.key import ApiKey
from headwater.model.stored import UnreadableConfig


def created(flow: Flow) -> Change:
    """A new configuration, stored at revision 1."""
    return Change("flow.create", flow.owner, flow.id, after=_content(flow, 1))


def saved(before: Flow, after: Flow) -> Change:
    """The next revision of a configuration."""
    contents = (_content(flow, flow.revision) for flow in (before, after))
    return Change("flow.save", after.owner, after.id, *contents)


def deleted(flow: Flow) -> Change:
    """A configuration and, with it, its deployment."""
    return Change("flow.delete", flow.owner, flow.id, before=_content(flow, flow.revision))


def _content(flow: Flow, revision: int) -> str:
    """SHA-256 of what a user sends: JSON with sorted keys and without spaces."""
    content = {
        "name": flow.name,
        "description": flow.description,
        "tags": list(flow.tags),
        "pipeline_config": _pipeline(flow.pipeline_config),
    }
    if flow.external_id is not None:
        content["external_id"] = flow.external_id
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"revision {revision} sha256 {hashlib.sha256(text.encode()).hexdigest()}"


def _pipeline(config: PipelineConfig) -> Any:
    return config.document if isinstance(config, UnreadableConfig) else config.as_sent().model_dump(mode="json")


def deployed(before: Deployment | None, after: Deployment) -> Change:
    """A deployment that is asked to run a revision."""
    was = "" if before is None else _deployment(before)
    return Change("flow.deploy", after.owner, after.flow_id, was, _deployment(after))


def torn_down(deployment: Deployment) -> Change:
    """A deployment that is asked to go."""
    return Change("flow.teardown", deployment.owner, deployment.flow_id, before=_deployment(deployment))


def rotated(deployment: Deployment) -> Change:
    """A deployment whose readers are given another password."""
    after = f"{_deployment(deployment)} credentials {deployment.credentials}"
    return Change("flow.rotate_credentials", deployment.owner, deployment.flow_id, after=after)


def _deployment(deployment: Deployment) -> str:
    return f"deployment {deployment.id} revision {deployment.desired_revision}"


def given_up(recorded_id: str) -> Change:
    """The remains of a deployment or configuration that the database does not know, which an operator gave up."""
    return Change("remains.give_up", "", recorded_id)


def key_created(key: ApiKey) -> Change:
    """A new API key."""
    return Change("key.create", key.owner, key.id, after=f"scopes {' '.join(key.scopes)}")


def key_revoked(key: ApiKey) -> Change:
    """An API key that is refused from now on."""
    return Change("key.revoke", key.owner, key.id)


def dataset_created(dataset: Dataset) -> Change:
    """A new, empty dataset."""
    return Change("dataset.create", dataset.owner, dataset.id)


def dataset_deleted(dataset: Dataset) -> Change:
    """A dataset and its entries."""
    return Change("dataset.delete", dataset.owner, dataset.id)
