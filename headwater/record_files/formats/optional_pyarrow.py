"""Imports pyarrow, which is an optional dependency."""

from typing import Any

from headwater.extras import require_extra


def import_pyarrow(what: str) -> Any:
    """Return the module. Raises SetupError with advice when it is not installed. `what` is the file type to read."""
    require_extra("parquet", "pyarrow", what)
    import pyarrow

    return pyarrow
