"""A whole installation, for the benchmarks of what a user notices."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.stack import Stack


@contextmanager
def installation(flags: Sequence[str] = ()) -> Iterator[Stack]:
    """It runs during the block, in a directory of its own. flags: those of `headwater up`."""
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder) / "data", flags=tuple(flags))
        stack.start()
        try:
            yield stack
        finally:
            stack.stop()
