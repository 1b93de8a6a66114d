"""Workers share the files of tests, and start each kind of server as seldom as possible."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.scheduling import FileScheduling, kind_of

FILES = {
    "tests/acceptance/test_sets.py": 30,
    "tests/acceptance/test_demo.py": 5,
    "tests/acceptance/living/test_look.py": 20,
    "tests/contract/test_sink.py": 10,
    "tests/contract/source/test_gaps.py": 10,
    "tests/integration/engine/test_copy.py": 8,
    "tests/unit/api/test_me.py": 3,
    "tests/unit/test_words.py": 30,
}


class Worker:
    """A worker of pytest-xdist that runs no tests."""

    def __init__(self, number: int, tests: list[str]) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.shutting_down = False
        self.tests = tests
        self.received: list[str] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.received += [self.tests[index] for index in indices]

    def shutdown(self) -> None:
        self.shutting_down = True

    def files(self) -> list[str]:
        return list(dict.fromkeys(test.partition("::")[0] for test in self.received))


def run(count: int) -> list[Worker]:
    """Run all tests in `count` workers, which all need the same time for a test."""
    tests = [f"{file}::test_{number}" for file, size in FILES.items() for number in range(size)]
    workers = [Worker(number, tests) for number in range(count)]
    config: Any = SimpleNamespace(
        getvalue=lambda name: ["popen"] * count, option=SimpleNamespace(loadscopereorder=False)
    )
    scheduling = FileScheduling(config)
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, tests)
    scheduling.schedule()
    for number in range(len(tests)):
        for worker in workers:
            if number < len(worker.received):
                scheduling.mark_test_complete(worker, tests.index(worker.received[number]))
    assert all(worker.shutting_down for worker in workers)
    return workers


@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_test_runs_once_and_each_file_in_one_worker(count: int) -> None:
    workers = run(count)
    received = [worker.received for worker in workers]
    assert Counter(test for tests in received for test in tests).most_common(1)[0][1] == 1
    assert sum(map(len, received)) == sum(FILES.values())
    assert sorted(file for worker in workers for file in worker.files()) == sorted(FILES)


def test_workers_continue_with_the_same_servers_and_end_with_unit_tests() -> None:
    first, second = run(2)
    assert [kind_of(file) for file in first.files()][:2] == ["acceptance", "acceptance"]
    assert [kind_of(file) for file in second.files()][:4] == ["servers", "servers", "servers", "installations"]
    assert [kind_of(worker.files()[-1]) for worker in (first, second)] == ["unit", "unit"]


def test_the_unit_tests_begin_with_the_largest_file() -> None:
    [worker] = run(1)
    assert worker.files()[-2:] == ["tests/unit/test_words.py", "tests/unit/api/test_me.py"]
