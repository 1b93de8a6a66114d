"""Creates entries of the cache under temporary names, and renames the complete ones."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from headwater.errors import SetupError


def ensure(entry: Path, create: Callable[[Path], None]) -> Path:
    """Return a cache entry, which is a file or a folder.

    If the entry is missing, `create(path)` creates it at a temporary path, from which the complete entry is renamed.
    Several processes may do so at once, because all of them create equal entries: a folder that another process has
    renamed first is kept, and a file is replaced. Raises SetupError when the cache is not writable.
    """
    if not entry.exists():
        scratch = _scratch_folder(entry.parent)
        try:
            create(scratch / entry.name)
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


def _publish(created: Path, entry: Path) -> None:
    try:
        created.rename(entry)
    except OSError:  # another process has created the folder
        if not entry.exists():
            raise
