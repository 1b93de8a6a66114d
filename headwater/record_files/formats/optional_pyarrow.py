"""Imports pyarrow, which is an optional dependency."""

from typing import Any

from headwater.errors import SetupError


def import_pyarrow(what: str) -> Any:
    """Return the module. Raises SetupError with advice when it is not installed. `what` is the file type to read."""
    try:
        import pyarrow
    except ImportError as error:
        raise SetupError(f"{what} needs pyarrow. Install it: `.venv/bin/pip install -e '.[parquet]'`.") from error
    return pyarrow
