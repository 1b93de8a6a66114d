"""Builds the command lines of Kafka's programs, and the path of their AOT cache.

The ahead-of-time (AOT) cache of Java makes them start faster.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headwater.brokers.embedded.jars import find_jars, jars_dir
from headwater.brokers.embedded.java import Java, find_java

# Measured: the serial collector, and C1 without C2, halve the start time and the memory, and cost no throughput at the
# rates that workers reach.
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
"""The environment variables with which a user may give options to every Java program."""


class KafkaRuntime(NamedTuple):
    """A Java and Kafka's jars.

    Attributes:
        java: The Java that runs Kafka.
        jars: The jars in class path order.
        aot_cache: The path of the AOT cache, which may be missing.
    """

    java: Java
    jars: tuple[Path, ...]
    aot_cache: Path

    def broker(self, *, aot_cache_output: Path | None = None) -> list[str]:
        """Return the command line of the broker, which runs in its folder.

        The folder contains server.properties and tmp. With `aot_cache_output` the broker starts without an AOT cache,
        and writes one to this file when it ends.
        """
        aot = [f"-XX:AOTCacheOutput={aot_cache_output}"] if aot_cache_output else self._aot_cache_options()
        return self._command([*_BROKER_HEAP, *aot], "kafka.Kafka", "server.properties")

    def formatter(self, arguments_file: str) -> list[str]:
        """Return the command line of the storage formatter.

        The arguments are in a file, one per line, because `ps` must not show passwords.
        """
        return self._command(_TOOL_HEAP, "kafka.tools.StorageTool", "format", f"@{arguments_file}")

    def _aot_cache_options(self) -> list[str]:
        return [f"-XX:AOTCache={self.aot_cache}", "-Xlog:aot*=error"] if self.aot_cache.exists() else []

    def _command(self, options: Sequence[str], *program: str) -> list[str]:
        # Every jar is listed, because Java ignores the AOT cache when the class path contains a folder.
        class_path = os.pathsep.join(map(str, self.jars))
        fixed = (*_JVM, *self.java.options, "-Djava.io.tmpdir=tmp", *_LOGGING)
        return [str(self.java.path), *options, *fixed, "-cp", class_path, *program]


def find_runtime(cache_dir: Path, java: str) -> KafkaRuntime:
    """Return the Java that the setting names, with the jars, which are downloaded if necessary.

    Raises SetupError.
    """
    launcher = find_java(java)
    jars = find_jars(cache_dir)
    return KafkaRuntime(launcher, tuple(jars), _aot_cache_path(launcher, jars[0].parent, jars_dir(cache_dir)))


def _aot_cache_path(java: Java, jars: Path, cached_jars: Path) -> Path:
    """Return the path of the AOT cache.

    The file is beside the folder of jars in the cache directory.

    Its name contains a hash of the Java, the jars and the JVM options, because a cache is valid only for exactly these.
    """
    digest = hashlib.sha256(repr((java, java.image_stamp(), jars, _JVM, _BROKER_HEAP)).encode()).hexdigest()
    return cached_jars.with_name(f"{cached_jars.name}-java{java.version}-{digest[:12]}.aot")
