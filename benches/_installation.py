"""Starts a complete installation for the end-to-end benchmarks."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.installation import Installation


@contextmanager
def running_installation(flags: Sequence[str] = ()) -> Iterator[Installation]:
    """Run `headwater up` with these flags in a temporary directory, during the block."""
    with tempfile.TemporaryDirectory() as folder:
        installation = Installation(Path(folder) / "data", flags=tuple(flags))
        installation.start()
        try:
            yield installation
        finally:
            installation.stop()
