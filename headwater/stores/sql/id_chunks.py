"""Splits long lists of ids.

Databases limit the number of parameters of a statement.
"""

from collections.abc import Collection

IDS_PER_QUERY = 10_000
"""SQLite's limit is 32,766 parameters, and that of PostgreSQL 65,535."""


def id_chunks(ids: Collection[str]) -> list[list[str]]:
    """Return the distinct ids in order, in lists of at most IDS_PER_QUERY."""
    distinct = sorted(set(ids))
    return [distinct[start : start + IDS_PER_QUERY] for start in range(0, len(distinct), IDS_PER_QUERY)]
