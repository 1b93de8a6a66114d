"""The script as a Quix Streams application: `python _peer_quix.py JOB`.

The program runs in a virtual environment of its own, in which Headwater is not installed. JOB is a JSON object with
the members connection, consumer and producer (librdkafka's settings), group, source, target, and state (a directory
of this process).
"""

import json
import sys
from typing import Any

from quixstreams import Application
from quixstreams.kafka import ConnectionConfig


def process(record: dict[str, Any]) -> dict[str, Any]:
    """Does in Python what the benchmark's script does in JavaScript."""
    record["value"] = float(record["raw_amount_str"]) / 10 ** record["token"]["decimals"]
    del record["_created_at"], record["_updated_at"]
    return record


def run(job: dict[str, Any]) -> None:
    """Run the application until a signal ends it."""
    app = Application(
        broker_address=ConnectionConfig(**job["connection"]),
        consumer_group=job["group"],
        consumer_extra_config=job["consumer"],
        producer_extra_config=job["producer"],
        auto_offset_reset="earliest",
        auto_create_topics=False,
        commit_interval=1.0,
        state_dir=job["state"],
        loglevel="WARNING",
    )
    source = app.topic(job["source"], value_deserializer="json", key_deserializer="bytes")
    target = app.topic(job["target"], value_serializer="json", key_serializer="bytes")
    app.dataframe(source).apply(process).to_topic(target)
    app.run()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
