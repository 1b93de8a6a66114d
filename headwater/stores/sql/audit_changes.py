"""The changes that the audit log records.

The change of a configuration contains the revision number and a hash of the saved content. The hash proves later which
content was saved, and the content itself is not stored twice.
"""

import hashlib
import json

from headwater.model.audit import Change
from headwater.model.deployment import Deployment
from headwater.model.flow import Flow
from headwater.model.key import ApiKey
from headwater.model.redrive import Redrive
from headwater.model.revision import canonical_form
from headwater.model.value_sets import Dataset


def created(flow: Flow) -> Change:
    """Return the change for a new configuration, at revision 1."""
    return Change("flow.create", flow.owner, flow.id, after=_content(flow, 1))


def saved(before: Flow, after: Flow) -> Change:
    """Return the change for the next revision of a configuration."""
    return Change(
        "flow.save", after.owner, after.id, _content(before, before.revision), _content(after, after.revision)
    )


def deleted(flow: Flow) -> Change:
    """Return the change for the deletion of a configuration and the teardown of its deployment."""
    return Change("flow.delete", flow.owner, flow.id, before=_content(flow, flow.revision))


def restored(before: Flow, after: Flow, revision: int) -> Change:
    """Return the change for a rollback, which saves an earlier revision as the newest one."""
    content = f"{_content(after, after.revision)} of revision {revision}"
    return Change("flow.rollback", after.owner, after.id, _content(before, before.revision), content)


def _content(flow: Flow, revision: int) -> str:
    """Return the revision, and the SHA-256 of the configuration as canonical JSON.

    The JSON has sorted keys and no spaces.
    """
    text = json.dumps(canonical_form(flow), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"revision {revision} sha256 {hashlib.sha256(text.encode()).hexdigest()}"


def deployed(before: Deployment | None, after: Deployment) -> Change:
    """Return the change for a deploy request.

    The change contains the desired revision of the deployment before and after the request.
    """
    previous = "" if before is None else _deployment(before)
    return Change("flow.deploy", after.owner, after.config_id, previous, _deployment(after))


def resumed(before: Deployment, after: Deployment) -> Change:
    """Return the change for a request to resume.

    The change contains the desired revision of the deployment before and after the request.
    """
    return Change("flow.resume", after.owner, after.config_id, _deployment(before), _deployment(after))


def paused(deployment: Deployment) -> Change:
    """Return the change for a request to pause."""
    return Change("flow.pause", deployment.owner, deployment.config_id, after=_deployment(deployment))


def rewound(deployment: Deployment) -> Change:
    """Return the change for a request to rewind, with its target."""
    target = "" if deployment.rewind is None else json.dumps(deployment.rewind.to)
    after = f"{_deployment(deployment)} to {target}"
    return Change("flow.rewind", deployment.owner, deployment.config_id, after=after)


def torn_down(deployment: Deployment) -> Change:
    """Return the change for the teardown of a deployment."""
    return Change("flow.teardown", deployment.owner, deployment.config_id, before=_deployment(deployment))


def rotated(deployment: Deployment) -> Change:
    """Return the change for new credentials of a deployment."""
    after = f"{_deployment(deployment)} credentials {deployment.credentials_version}"
    return Change("flow.rotate_credentials", deployment.owner, deployment.config_id, after=after)


def redriven(deployment: Deployment, redrive: Redrive) -> Change:
    """Return the change for a request to redrive dead letters."""
    after = f"{_deployment(deployment)} redrive {redrive.id} letters {redrive.requested}"
    return Change("dead_letters.redrive", deployment.owner, deployment.config_id, after=after)


def _deployment(deployment: Deployment) -> str:
    return f"deployment {deployment.id} revision {deployment.desired_revision}"


def recorded_as_ended(recorded_id: str) -> Change:
    """Return the change for a deployment or configuration that was recorded as ended.

    An operator recorded it.
    """
    return Change("deployment.record_ended", "", recorded_id)


def key_created(key: ApiKey) -> Change:
    """Return the change for a new API key."""
    return Change("key.create", key.owner, key.id, after=f"scopes {' '.join(key.scopes)}")


def key_revoked(key: ApiKey) -> Change:
    """Return the change for a revoked API key."""
    return Change("key.revoke", key.owner, key.id)


def sign_in_code_created(source: ApiKey) -> Change:
    """Return the change for a new one-time code, which grants what an API key may do."""
    return Change("key.create_code", source.owner, source.id)


def signed_in(key: ApiKey) -> Change:
    """Return the change for a new API key that a one-time code gave."""
    return Change("key.sign_in", key.owner, key.id, after=f"scopes {' '.join(key.scopes)}")


def dataset_created(dataset: Dataset) -> Change:
    """Return the change for a new dataset."""
    return Change("dataset.create", dataset.owner, dataset.id)


def dataset_deleted(dataset: Dataset) -> Change:
    """Return the change for the deletion of a dataset and its values."""
    return Change("dataset.delete", dataset.owner, dataset.id)
