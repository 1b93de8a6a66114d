"""Measures how long a consumer's records pause during a redeploy.

`python -m benches.redeploy [--rate 20000]` runs it.

A stream with the given rate per second goes through one script, which is changed repeatedly by PATCH. The benchmark
checks that every record is output once. The reference of the same run is the longest pause in equally many intervals
of the same length without a change.
"""

import statistics
import threading
import time
from itertools import pairwise

import typer

from benches._installation import running_installation
from tests.acceptance.installation import Installation, Reader, deploy, pipeline, reading
from tests.support.waiting import until

ENTITY = "log"
CHANGES = 10
EVERY_S = 0.01
SETTLE_S = 1.0
ALL_READ_WITHIN_S = 60.0


def script(mark: int) -> dict[str, str]:
    return {"type": "v8", "script": f"function process(r) {{ return {{n: r.n, mark: {mark}}}; }}"}


def feed(installation: Installation, rate: int, stop: threading.Event, fed: list[int]) -> None:
    """Feed records at the given rate. `fed` gets the total number of records after each write."""
    started, number = time.monotonic(), 0
    while not stop.wait(EVERY_S):
        due = int(rate * (time.monotonic() - started))
        installation.feed("base", ENTITY, ({"n": n, "log_index": n} for n in range(number, due)))
        fed.append(number := due)


class Arrivals(threading.Thread):
    """Consumes records in a thread, counts them and notes their arrival times."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self._reader = reader
        self._ended = threading.Event()
        self.times: list[float] = []
        self.count = 0

    def run(self) -> None:
        while not self._ended.is_set():
            if came := len(self._reader.poll(0.02)):
                self.times.append(time.monotonic())
                self.count += came
                self._reader.records.clear()  # millions of them would keep the garbage collector busy

    def finish(self) -> None:
        self._ended.set()
        self.join()

    def longest_pause(self, began: float, ended: float) -> float:
        """Return the longest time without a record in this interval, in seconds."""
        inside = [began, *(t for t in self.times if began <= t <= ended), ended]
        return max(after - before for before, after in pairwise(inside))


def main(rate: int = 1_000) -> None:
    """Run the benchmark on a new installation."""
    with running_installation() as installation:
        measure(installation, rate)


def measure(installation: Installation, rate: int) -> None:
    stop, fed = threading.Event(), list[int]()
    with installation.client() as client:
        deployment = deploy(client, pipeline(ENTITY, transforms=[script(0)]))
        with reading(deployment.sink) as reader:
            feeder = threading.Thread(target=feed, args=(installation, rate, stop, fed))
            arrivals = Arrivals(reader)
            began_at = time.monotonic()
            feeder.start()
            arrivals.start()
            url = f"/api/v1/flow/{deployment.id}/transforms/{deployment.uid()}"
            intervals, calls = [], []
            for mark in range(1, CHANGES + 1):
                time.sleep(SETTLE_S)
                began = time.monotonic()
                response = client.patch(url, json=script(mark))
                calls.append(time.monotonic() - began)
                assert response.status_code == 200, response.text
                time.sleep(SETTLE_S)
                intervals.append((began, time.monotonic()))
            length = statistics.median(ended - began for began, ended in intervals)
            quiet_from = time.monotonic()
            time.sleep(length * CHANGES)
            stop.set()
            feeder.join()
            total, fed_s = fed[-1], time.monotonic() - began_at
            until(lambda: arrivals.count >= total, ALL_READ_WITHIN_S, "all records")
            arrivals.finish()
            assert len(reader.sources) == arrivals.count == total, "each record once"
    pauses = [arrivals.longest_pause(*interval) for interval in intervals]
    quiet = [arrivals.longest_pause(quiet_from + length * i, quiet_from + length * (i + 1)) for i in range(CHANGES)]
    reference = statistics.median(quiet)
    print(
        f"{CHANGES} changes of a script, {total:,} records ({total / fed_s:,.0f}/s), each once; "
        f"longest pause without a change: median {reference * 1000:.0f} ms"
    )
    print(
        f"longest pause in a change: median {statistics.median(pauses) * 1000:.0f} ms, max {max(pauses) * 1000:.0f} ms "
        f"({statistics.median(pauses) / reference:.1f} x)"
    )
    print(f"PATCH: save, prepare, hand over, answer: median {statistics.median(calls):.2f} s")


if __name__ == "__main__":
    typer.run(main)
