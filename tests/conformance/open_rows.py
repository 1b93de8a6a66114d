"""The rows of the interface and its additions that no test proves yet, with the reason.

A key may end with `*`, which is a wildcard.
"""

OPEN: dict[str, str] = {}


def reason(row_id: str) -> str | None:
    """Return why a row is open, or None if it must be proven."""
    for key, why in OPEN.items():
        if row_id == key or (key.endswith("*") and row_id.startswith(key[:-1])):
            return why
    return None
