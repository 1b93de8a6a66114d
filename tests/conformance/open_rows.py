"""The rows of the interface that nothing proves yet, and why. `*` at a key's end: all ids that begin so."""

OPEN: dict[str, str] = {}


def reason(row_id: str) -> str | None:
    """Why a row is open, or None when it must be proven."""
    for key, why in OPEN.items():
        if row_id == key or (key.endswith("*") and row_id.startswith(key[:-1])):
            return why
    return None
