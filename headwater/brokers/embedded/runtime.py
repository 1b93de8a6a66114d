"""Kafka's command lines: how its programs run on a Java, and the archive of loaded classes that makes a start short."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headwater.brokers.embedded.jars import fetch_jars, jars_dir
from headwater.brokers.embedded.java import Java, find_java

# Measured: the small collector and one compiler tier halve start and memory, and cost no throughput at our rates.
_JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData")
_BROKER_HEAP: Final = ("-Xms256m", "-Xmx512m")
_TOOL_HEAP: Final = ("-Xmx128m",)
_LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "-Dlog4j.provider=org.apache.logging.log4j.simple.internal.SimpleProvider",
)
JVM_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""The variables by which a user may give options to each Java."""


class Runtime(NamedTuple):
    """A Java and Kafka's jars. archive need not exist."""

    java: Java
    jars: tuple[Path, ...]
    archive: Path

    def broker(self, *, record: Path | None = None) -> list[str]:
        """The broker, to be run in its folder (which has server.properties and tmp).

        record: write an archive there when the broker ends, instead of using one.
        """
        archive = [f"-XX:AOTCacheOutput={record}"] if record else self._archive_options()
        return self._command([*_BROKER_HEAP, *archive], "kafka.Kafka", "server.properties")

    def formatter(self, arguments: str) -> list[str]:
        """The storage formatter. arguments: a file with one argument per line, as passwords must not show in `ps`."""
        return self._command(_TOOL_HEAP, "kafka.tools.StorageTool", "format", f"@{arguments}")

    def _archive_options(self) -> list[str]:
        return [f"-XX:AOTCache={self.archive}", "-Xlog:aot*=error"] if self.archive.exists() else []

    def _command(self, options: Sequence[str], *program: str) -> list[str]:
        # A folder in the class path would switch the archive off, so every jar is listed.
        class_path = os.pathsep.join(map(str, self.jars))
        fixed = (*_JVM, *self.java.options, "-Djava.io.tmpdir=tmp", *_LOGGING)
        return [str(self.java.path), *options, *fixed, "-cp", class_path, *program]


def find_runtime(cache_dir: Path, java: str) -> Runtime:
    """The Java that the setting names, and the jars (downloaded when the cache has none). Raises SetupError."""
    found = find_java(java)
    jars = fetch_jars(cache_dir)
    return Runtime(found, tuple(jars), _archive_path(found, jars_dir(cache_dir)))


def _archive_path(java: Java, jars: Path) -> Path:
    """An archive fits one Java at one place, one set of jars at one place, and one set of options."""
    identity = repr((java, java.image_stamp(), jars, _JVM, _BROKER_HEAP))
    return jars.with_name(f"{jars.name}-java{java.version}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.aot")
