"""What a reader notices of a redeploy: how long its records pause. `python -m benches.redeploy`

A stream of 1,000 records a second goes through one script, which is changed again and again by PATCH. Every record is
checked to come once. Reference of the same run: the longest pause in as many equal stretches without a change.
"""

import statistics
import threading
import time
from itertools import count, pairwise

from benches._installation import installation
from tests.acceptance.stack import Reader, Stack, deploy, pipeline, reading

ENTITY = "log"
CHANGES = 10
EVERY_S = 0.01
PER_FEED = 10
SETTLE_S = 1.0


def script(mark: int) -> dict[str, str]:
    return {"type": "v8", "script": f"function process(r) {{ return {{n: r.n, mark: {mark}}}; }}"}


def feed(stack: Stack, stop: threading.Event, fed: list[int]) -> None:
    for batch in count():
        if stop.wait(EVERY_S):
            return
        stack.feed("base", ENTITY, ({"n": batch * PER_FEED + i, "log_index": i} for i in range(PER_FEED)))
        fed.append(PER_FEED)


class Arrivals(threading.Thread):
    """Reads, and notes when records came."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self._reader = reader
        self._ended = threading.Event()
        self.times: list[float] = []

    def run(self) -> None:
        while not self._ended.is_set():
            if self._reader.poll(0.02):
                self.times.append(time.monotonic())

    def finish(self) -> None:
        self._ended.set()
        self.join()

    def longest_pause(self, began: float, ended: float) -> float:
        """In seconds, among the records that came in this stretch."""
        inside = [began, *(t for t in self.times if began <= t <= ended), ended]
        return max(after - before for before, after in pairwise(inside))


def main() -> None:
    with installation() as stack:
        measure(stack)


def measure(stack: Stack) -> None:
    stop, fed = threading.Event(), list[int]()
    with stack.client() as client:
        made = deploy(client, pipeline(ENTITY, transforms=[script(0)]))
        with reading(made.sink) as reader:
            feeder = threading.Thread(target=feed, args=(stack, stop, fed))
            arrivals = Arrivals(reader)
            feeder.start()
            arrivals.start()
            stretches, calls = [], []
            for mark in range(1, CHANGES + 1):
                time.sleep(SETTLE_S)
                began = time.monotonic()
                answer = client.patch(f"/api/v1/flow/{made.id}/transforms/{made.uid()}", json=script(mark))
                calls.append(time.monotonic() - began)
                assert answer.status_code == 200, answer.text
                time.sleep(SETTLE_S)
                stretches.append((began, time.monotonic()))
            length = statistics.median(ended - began for began, ended in stretches)
            quiet_from = time.monotonic()
            time.sleep(length * CHANGES)
            stop.set()
            feeder.join()
            arrivals.finish()
            total = sum(fed)
            assert len(reader.read(total)) == len(reader.records) == total, "each record once"
    pauses = [arrivals.longest_pause(*stretch) for stretch in stretches]
    quiet = [arrivals.longest_pause(quiet_from + length * i, quiet_from + length * (i + 1)) for i in range(CHANGES)]
    reference = statistics.median(quiet)
    print(
        f"{CHANGES} changes of a script, {total} records, each once; longest pause without a change: "
        f"median {reference * 1000:.0f} ms"
    )
    print(
        f"longest pause in a change: median {statistics.median(pauses) * 1000:.0f} ms, max {max(pauses) * 1000:.0f} ms "
        f"({statistics.median(pauses) / reference:.1f} x)"
    )
    print(f"PATCH: save, prepare, hand over, answer: median {statistics.median(calls):.2f} s")


if __name__ == "__main__":
    main()
