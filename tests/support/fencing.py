"""How often Kafka shut out a member, a producer or itself, by its own log."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FENCED = re.compile(rb"[Ff]enc(ed|ing)|InvalidProducerEpoch")
_TELLING = (
    "org.apache.kafka.controller.ReplicationControlManager",
    "org.apache.kafka.coordinator",
    "kafka.coordinator",
    "org.apache.kafka.storage.internals.log",
)


@contextmanager
def telling_broker() -> Iterator[None]:
    """Kafka's controller and coordinators tell whom they fence, which they do at a level that is off otherwise."""
    options = " ".join(f"-Dorg.slf4j.simpleLogger.log.{name}=info" for name in _TELLING)
    before = os.environ.get("JAVA_TOOL_OPTIONS")
    os.environ["JAVA_TOOL_OPTIONS"] = f"{before or ''} {options}"
    try:
        yield
    finally:
        del os.environ["JAVA_TOOL_OPTIONS"]
        os.environ.update({} if before is None else {"JAVA_TOOL_OPTIONS": before})


def fencings(logs: Path) -> int:
    """Lines in which Kafka fences somebody. logs: the directory of the log of a broker that tells."""
    lines = (line for log in sorted(logs.glob("kafka.log*")) for line in log.read_bytes().splitlines())
    return sum(bool(_FENCED.search(line)) for line in lines)
