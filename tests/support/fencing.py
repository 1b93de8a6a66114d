"""Counts in Kafka's log how often Kafka fenced a group member, a producer or a broker."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FENCED = re.compile(rb"[Ff]enc(ed|ing)|InvalidProducerEpoch")
_FENCING_LOGGERS = (
    "org.apache.kafka.controller.ReplicationControlManager",
    "org.apache.kafka.coordinator",
    "kafka.coordinator",
    "org.apache.kafka.storage.internals.log",
)


@contextmanager
def logged_fencing() -> Iterator[None]:
    """Make brokers that start in the block log fencing.

    The log level of these lines is off by default.
    """
    options = " ".join(f"-Dorg.slf4j.simpleLogger.log.{name}=info" for name in _FENCING_LOGGERS)
    before = os.environ.get("JAVA_TOOL_OPTIONS")
    os.environ["JAVA_TOOL_OPTIONS"] = f"{before or ''} {options}"
    try:
        yield
    finally:
        del os.environ["JAVA_TOOL_OPTIONS"]
        os.environ.update({} if before is None else {"JAVA_TOOL_OPTIONS": before})


def count_fencings(logs: Path) -> int:
    """Return the number of lines about fencing in the log directory of a broker.

    The broker ran with `logged_fencing`.
    """
    lines = (line for log in sorted(logs.glob("kafka.log*")) for line in log.read_bytes().splitlines())
    return sum(bool(_FENCED.search(line)) for line in lines)
