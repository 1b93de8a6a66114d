"""The errors of the SQL stores, with their messages."""

from headwater.errors import ConcurrentUpdate, Conflict, NotFound, QuotaExceeded, ValuesBeingRemoved
from headwater.model.quota import QUOTA_MEANINGS, Excess

UNREADABLE_TAGS = "The stored tags can't be read. Save the configuration again with PUT, or delete it."
UNREADABLE_PASSWORDS = (
    "The credentials of the deployment can't be decrypted: they were encrypted with another secret key. Restore that "
    "key, save the configuration again with PUT, which gives the deployment new credentials, or tear the deployment "
    "down."
)


def unreadable_state(column: str, value: str) -> str:
    """Return the message for a state of a deployment that this version does not know."""
    return (
        f"The {column} {value!r} of the deployment was written by another version of Headwater. Start that version, or "
        "tear the deployment down."
    )


def unreadable_positions(column: str) -> str:
    """Return the message for stored positions of a deployment that this version can't read."""
    return (
        f"The {column} of the deployment can't be read: another version of Headwater wrote them, or they are damaged. "
        "Start that version, or tear the deployment down."
    )


def configuration_not_found(config_id: str) -> NotFound:
    """Return the error for an unknown id, or for the id of another owner.

    It does not reveal whether the id exists.
    """
    return NotFound(f"There is no configuration {config_id}. GET /api/v1/flow lists yours.")


def revision_not_found(revision: int) -> NotFound:
    """Return the error for a revision that is not stored."""
    return NotFound(f"Revision {revision} is not stored. GET …/revisions lists the stored revisions.")


def values_being_dropped(uids: str) -> ValuesBeingRemoved:
    """Return the error for a save with filters whose values are being dropped at this moment."""
    return ValuesBeingRemoved(
        f"The values of filters that this revision restores ({uids}) have reached the end of their retention and are "
        "being removed. Send the same request again."
    )


def external_id_taken(external_id: str | None) -> Conflict:
    """Return the error for an external_id that another configuration of the owner has."""
    return Conflict(
        f"You have a configuration with the external_id {external_id!r} already. Choose another one, or find that "
        "configuration with GET /api/v1/flow?external_id=…"
    )


def concurrent_update(config_id: str) -> ConcurrentUpdate:
    """Return the error for a change that is not based on the newest revision."""
    return ConcurrentUpdate(
        f"Configuration {config_id} was saved by another request meanwhile. Read it and send your change again."
    )


def quota_exceeded(over: Excess) -> QuotaExceeded:
    """Return the error for an exceeded quota.

    The message for a quota of all owners does not contain the usage, because that would reveal the usage of others.
    """
    counted = QUOTA_MEANINGS[over.name]
    if over.is_total:
        text = f"All owners together may have {over.limit:,} {counted}, and this request would exceed that limit."
    else:
        text = f"You have {over.used:,} of {over.limit:,} {counted}, and would have {over.wanted:,}."
    return QuotaExceeded(
        f"{text} Remove some that you do not need, or ask the operator for more (quota {over.name}).",
        None if over.is_total else over.used,
        over.limit,
    )


def key_not_found(key_id: str) -> NotFound:
    """Return the error for an unknown id of an API key."""
    return NotFound(f"There is no API key {key_id}. `headwater keys list` shows all.")


def key_exists(key_id: str) -> Conflict:
    """Return the error for an id of an API key that exists already."""
    return Conflict(f"There is an API key {key_id} already. Create another one.")


def dataset_not_found(dataset_id: str) -> NotFound:
    """Return the error for an unknown id.

    It is the same for a dataset of another owner, or one that is not live.
    """
    return NotFound(f"There is no dataset {dataset_id}. GET /api/v1/flow/datasets lists yours.")


def dataset_name_taken(name: str) -> Conflict:
    """Return the error for the name of another dataset of the owner."""
    return Conflict(f"You have a dataset named {name!r} already. Choose another name, or delete that dataset first.")
