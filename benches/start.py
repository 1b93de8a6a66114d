"""Measures the time until `headwater up` is ready, and the time of a deploy call.

All downloads are cached.

The reference of the same run is the time from the start of a bare embedded Kafka to its first response.
"""

import statistics
import tempfile
import time
from pathlib import Path

from headwater.brokers.embedded import EmbeddedKafka
from headwater.settings import Settings
from tests.acceptance.installation import Installation, pipeline

ROUNDS = 3
DEPLOYS = 5
SCRIPT = {"type": "v8", "script": "function process(r) { return r; }"}


def kafka_alone(folder: Path) -> float:
    kafka = EmbeddedKafka(folder, Settings().cache_dir.expanduser())
    kafka.prepare()
    started = time.monotonic()
    child = kafka.start()
    kafka.wait_ready(child)
    took = time.monotonic() - started
    child.stop(30)
    return took


def one_round(folder: Path) -> tuple[float, float, list[float]]:
    """Return the seconds of a first start, of a second start, and of each deploy.

    The second start uses the data of the first one.
    """
    installation = Installation(folder / "data")
    started = time.monotonic()
    installation.start()
    first = time.monotonic() - started
    installation.stop()
    started = time.monotonic()
    installation.start()
    again = time.monotonic() - started
    deploys = []
    with installation.client() as client:
        for _ in range(DEPLOYS):
            flow = client.post("/api/v1/flow", json=pipeline(transforms=[SCRIPT])).json()
            started = time.monotonic()
            response = client.post(f"/api/v1/flow/{flow['id']}/deploy")
            deploys.append(time.monotonic() - started)
            assert response.status_code == 200, response.text
            client.delete(f"/api/v1/flow/{flow['id']}")
    installation.stop()
    return first, again, deploys


def main() -> None:
    rounds, alone = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "alone").mkdir()
            alone.append(kafka_alone(Path(folder) / "alone"))
            rounds.append(one_round(Path(folder)))
    reference = statistics.median(alone)
    rows = {
        "up, first start": statistics.median(r[0] for r in rounds),
        "up, second start": statistics.median(r[1] for r in rounds),
        "deploy with a script": statistics.median(d for r in rounds for d in r[2]),
    }
    print(f"medians of {ROUNDS} rounds; Kafka alone, start to first response: {reference:.2f} s")
    for name, seconds in rows.items():
        print(f"{name:<22} {seconds:6.2f} s   {seconds / reference:5.2f} x Kafka alone")


if __name__ == "__main__":
    main()
