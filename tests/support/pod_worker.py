"""A worker with the real HTTP interface and command line, which reads nothing.

The revision of its spec says what it does: 666 fails at once, 777 is never prepared, 555 reports crashing scripts, 444
makes no progress, 888 needs too much memory, 333 ends with status 3 after it has joined, and all others are ready.
"""

import itertools
import signal
import sys
import threading

from headwater.app import build_worker
from headwater.engine.heartbeat import HeartbeatReporter
from headwater.errors import SandboxFailed
from headwater.model.value_sets import SetVersion
from headwater.model.worker_spec import WorkerSpec

INTERVAL_S = 0.2
HOARD_BYTES = 400 << 20


def run_worker(spec: WorkerSpec, slot: int, reporter: HeartbeatReporter) -> int:
    """Replace build_worker.run_worker."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    reporter.report("starting")
    if spec.revision == 666:
        reporter.report("failed", "the script does not compile")
        return 1
    reporter.log.add_script_line(f"revision {spec.revision}")
    while not stopped.is_set() and (spec.revision == 777 or not reporter.channel.may_join(INTERVAL_S)):
        if spec.revision != 777:
            reporter.report("prepared")
        stopped.wait(INTERVAL_S)
    versions = {"fs:c1.t": SetVersion(spec.revision, "a1")}
    reporter.read_set_versions = lambda: versions
    hoard = bytearray(HOARD_BYTES) if spec.revision == 888 else b""
    for progress in itertools.count():
        if stopped.is_set():
            break
        state = "crashing" if spec.revision == 555 else "ready"
        reporter.report(state, progress=min(progress, 3) if spec.revision == 444 else progress, committed_batches=1)
        if spec.revision == 333 and progress == 3:
            raise SandboxFailed("the script has ended the worker")
        stopped.wait(INTERVAL_S)
    del hoard
    reporter.report("draining")
    return 0


if __name__ == "__main__":
    build_worker.run_worker = run_worker
    sys.exit(build_worker.main())
