"""The errors of the SQL stores, with their sentences."""

from headwater.errors import Conflict, NotFound, QuotaExceeded, SavedMeanwhile
from headwater.model.quota import MEANINGS, Excess

UNREADABLE_TAGS = "The stored tags can't be read. Save the configuration anew with PUT, or delete it."
UNREADABLE_SECRETS = (
    "The credentials of its deployment can't be opened: they were sealed with another secret key. Put that key back, "
    "save the configuration anew with PUT, which gives the deployment new credentials, or tear it down."
)


def unreadable_state(column: str, value: str) -> str:
    """A state that this version does not know."""
    return (
        f"Its {column} {value!r} is of another version of Headwater. Start that version, or tear the deployment down."
    )


def no_flow(flow_id: str) -> NotFound:
    """The same words for an unknown id and another owner's: existence is not revealed."""
    return NotFound(f"There is no pipeline {flow_id}. GET /api/v1/flow lists yours.")


def external_id_taken(external_id: str | None) -> Conflict:
    """External ids are unique per owner."""
    return Conflict(
        f"You have a configuration with the external_id {external_id!r} already. Choose another one, or find that "
        "configuration with GET /api/v1/flow?external_id=…"
    )


def saved_meanwhile(flow_id: str) -> SavedMeanwhile:
    """Two saves at once: the second one was made from a revision that is no longer the newest."""
    return SavedMeanwhile(
        f"Pipeline {flow_id} was saved by another request meanwhile. Read it and send your change again."
    )


def quota_exceeded(over: Excess) -> QuotaExceeded:
    """The sentence for a quota of all owners does not say how much of it is used: that would tell of other owners."""
    what = MEANINGS[over.name]
    if over.of_all:
        text = f"All owners together may have {over.allowed:,} {what}, and that is used up."
    else:
        text = f"You have {over.used:,} of {over.allowed:,} {what}, and would have {over.wanted:,}."
    return QuotaExceeded(f"{text} Remove some that you do not need, or ask the operator for more (quota {over.name}).")


def no_key(key_id: str) -> NotFound:
    """An unknown key id."""
    return NotFound(f"There is no API key {key_id}. `headwater keys list` shows all.")


def key_exists(key_id: str) -> Conflict:
    """A key id that is taken."""
    return Conflict(f"There is an API key {key_id} already. Make another one.")


def no_dataset(dataset_id: str) -> NotFound:
    """The same words for an unknown id, another owner's, and a dataset that is not live."""
    return NotFound(f"There is no dataset {dataset_id}. GET /api/v1/flow/datasets lists yours.")


def name_taken(name: str) -> Conflict:
    """Dataset names are unique per owner."""
    return Conflict(f"You have a dataset named {name!r} already. Choose another name, or delete that dataset first.")
