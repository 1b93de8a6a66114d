"""Distributes the files of tests among the workers of pytest-xdist."""

from collections import Counter
from typing import Final

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

OWN_INSTALLATIONS: Final = {
    "test_attack.py",
    "test_backup.py",
    "test_dashboards.py",
    "test_demo.py",
    "test_external.py",
    "test_given_credentials.py",
    "test_hanging_database.py",
    "test_ingest.py",
    "test_kafka_security.py",
    "test_large_batches.py",
    "test_memory.py",
    "test_pubsub.py",
    "test_quotas.py",
    "test_rounds.py",
    "test_secrets.py",
    "test_takeover.py",
}
"""Acceptance tests that start their own installations, and do not use the one that the tests of a worker share."""
KINDS: Final = ("acceptance", "servers", "installations", "unit")


class FileScheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Runs each file in one worker, and files that share servers in as few workers as possible.

    Servers of the session start once in each worker that needs them. A worker therefore continues with files of the
    kind that it ran last. Unit tests need no servers, so they come last. Their files with the most tests come first, so
    that all workers end at about the same time.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        busy = Counter(kind_of(next(reversed(files))) for files in self.assigned_work.values() if files)
        files = self.assigned_work[node]
        last = kind_of(next(reversed(files))) if files else ""

        def rank(kind: str) -> tuple[bool, bool, int]:
            return kind != last, kind == "unit", busy[kind]

        waiting = {kind_of(file) for file in self.workqueue}
        chosen = min((kind for kind in KINDS if kind in waiting), key=rank)
        of_kind = [file for file in self.workqueue if kind_of(file) == chosen]
        largest = max(of_kind, key=lambda file: len(self.workqueue[file])) if chosen == "unit" else of_kind[0]
        self.workqueue.move_to_end(largest, last=False)
        for file in [file for file, tests in files.items() if all(tests.values())]:
            del files[file]  # otherwise each test would cost the time to count all earlier ones
        super()._assign_work_unit(node)


def kind_of(file: str) -> str:
    """Return the kind of a test file, by the servers that its tests use."""
    _, folder, *_, name = file.split("/")
    if folder == "acceptance" and name in OWN_INSTALLATIONS:
        return "installations"
    return folder if folder in KINDS else "servers"
