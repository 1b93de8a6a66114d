"""Imports pyarrow, which is an optional dependency."""

from typing import Any

from headwater.extras import require_extra


def import_pyarrow(what: str) -> Any:
    """Return the module pyarrow. Raises SetupError with advice when pyarrow is not installed.

    `what` is the file type to read.
    """
    require_extra("parquet", "pyarrow", what)
    import pyarrow

    return pyarrow
