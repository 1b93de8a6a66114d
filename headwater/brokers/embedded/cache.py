"""Entries of the cache directory: made in a scratch folder, then named in one step, so a name means "complete"."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from headwater.errors import SetupError


def ensure(entry: Path, make: Callable[[Path], None]) -> Path:
    """The cache entry (a file or a folder). When it is missing, make(path) makes it under another name first.

    Several processes may do so at once: the first to finish names it, the others' work is thrown away.
    Raises SetupError when the cache is not writable.
    """
    if not entry.exists():
        scratch = _scratch_folder(entry.parent)
        try:
            make(scratch / entry.name)
            _publish(scratch / entry.name, entry)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return entry


def _scratch_folder(cache_dir: Path) -> Path:
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".making-", dir=cache_dir))
    except OSError as error:
        raise SetupError(
            f"The cache directory {cache_dir} is not writable ({error.strerror}): "
            "make it writable, or choose another one with --cache-dir."
        ) from error


def _publish(made: Path, entry: Path) -> None:
    try:
        os.rename(made, entry)  # noqa: PTH104 - Path.rename reads as if it were safe to overwrite
    except OSError:
        if not entry.exists():
            raise
