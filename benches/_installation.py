"""Starts a complete installation for the end-to-end benchmarks."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.stack import Stack


@contextmanager
def installation(flags: Sequence[str] = ()) -> Iterator[Stack]:
    """Run `headwater up` with these flags in a temporary directory, for as long as the block lasts."""
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder) / "data", flags=tuple(flags))
        stack.start()
        try:
            yield stack
        finally:
            stack.stop()
