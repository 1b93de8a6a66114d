"""Models are decoded by many threads at once."""

import subprocess
import sys

ROUNDS = """
import sys, threading
import msgspec
from headwater_client import decoding

TEXT = b'{"items": [{"n": 1, "name": "a"}], "by_name": {"a": {"n": 2}}}'
PARSED = msgspec.json.decode(TEXT)

def new_model():
    class Item(msgspec.Struct):
        n: int
        name: str | None = None
    class Body(msgspec.Struct):
        items: list[Item]
        by_name: dict[str, Item]
    return Body

sys.setswitchinterval(1e-6)
for _ in range(300):
    model, all_ready = new_model(), threading.Barrier(6)
    def read():
        all_ready.wait()
        assert READ.items[0].n == 1
    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
"""Threads use each of many new types for the first time at the same moment. READ is an expression."""


def status_of(read: str) -> int:
    """Return the exit status of a process that reads a model in this way."""
    return subprocess.run([sys.executable, "-c", ROUNDS.replace("READ", read)], check=False, timeout=60).returncode


def test_the_first_use_of_a_model_in_many_threads() -> None:
    """With `msgspec.json.decode` alone the process ends with SIGSEGV."""
    assert status_of("decoding.decode(TEXT, model)") == 0
    assert status_of("decoding.convert(PARSED, model)") == 0
