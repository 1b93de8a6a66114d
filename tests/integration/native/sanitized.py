"""A pytest plugin that runs tests with a library that gcc has built with sanitizers.

`-p tests.integration.native.sanitized` loads it; HEADWATER_SANITIZED_LIBRARY names the library.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from headwater.native import ffi

LIBRARY: Final = "HEADWATER_SANITIZED_LIBRARY"
OWN_VARIABLES: Final = ("LD_PRELOAD", "PYTHONMALLOC", "ASAN_OPTIONS", "UBSAN_OPTIONS")
"""Variables that this process needs at its start. Servers that tests start would not run with them."""


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart() -> Iterator[None]:
    for name in OWN_VARIABLES:
        os.environ.pop(name, None)
    vars(ffi)["LIBRARY_PATH"] = Path(os.environ[LIBRARY])
    yield


def pytest_sessionfinish() -> None:
    """Fail if no test has loaded the library, because such a run cannot find errors in it."""
    assert os.environ[LIBRARY] in Path("/proc/self/maps").read_text(), "no test has loaded the sanitized library"
