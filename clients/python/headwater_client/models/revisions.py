"""Revisions of configurations."""

from datetime import datetime

from headwater_client.model import Model


class Revision(Model, frozen=True, kw_only=True):
    """One revision, without its content.

    Attributes:
        saved_by: The id of the API key that saved the revision; None when it is unknown.
        changed: The members that differ from the revision before.
        deployed_at: When the revision was deployed last; None when it never was.
        condition: How the last rollout of the revision ended; None when it was never deployed.
    """

    revision: int
    saved_at: datetime
    saved_by: str | None
    changed: list[str]
    deployed_at: datetime | None
    condition: str | None


class RevisionPage(Model, frozen=True, kw_only=True):
    """One page of revisions, newest first."""

    items: list[Revision]
    cursor: str | None


class Diff(Model, frozen=True, kw_only=True):
    """The differences between two revisions, as unified diffs.

    Attributes:
        diff: The diff of the configuration, in which each script is replaced by its SHA-256.
        scripts: The diff of each script that differs, by the uid of its transform.
    """

    diff: str
    scripts: dict[str, str]
