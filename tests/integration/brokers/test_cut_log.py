"""A log may be truncated while no worker reads it, and grow again before a worker returns."""

from pathlib import Path

import pytest

from headwater.errors import NoValidOffset
from headwater.sources.kafka import KafkaSource
from tests.support.kafka import running
from tests.support.sources import KafkaBench, Listener, read

LENGTH = slice(8, 12)
"""The bytes of a record batch that contain the length of the rest of the batch."""


def cut_behind_the_first_batch(data_dir: Path, topic: str) -> None:
    """Truncate a log, like a disk that loses data after it has confirmed a write."""
    (segment,) = data_dir.rglob(f"{topic}-0/*.log")
    log = segment.read_bytes()
    segment.write_bytes(log[: LENGTH.stop + int.from_bytes(log[LENGTH], "big")])
    for shut_down_well in data_dir.rglob(".kafka_cleanshutdown"):
        shut_down_well.unlink()


@pytest.mark.long
def test_an_offset_that_exists_again_with_another_record(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        bench = KafkaBench(first)
        for values in ([b"a", b"b"], [b"lost"] * 3):
            bench.append(0, values)
        bench.pin({0: 0, 1: 0})
        source = KafkaSource(first.access, bench.topic, bench.group)
        source.join(Listener())
        assert len(read(source, 5)) == 5
        source.commit({0: 5}, wait=True)
        source.close()
    cut_behind_the_first_batch(first.data_dir, bench.topic)
    with running(tmp_path) as second:
        second.produce(bench.topic, [b"new"] * 10)
        assert second.end_offsets(bench.topic) == {0: 12, 1: 0}
        for _ in range(2):
            source = KafkaSource(second.access, bench.topic, bench.group)
            source.join(Listener())
            with pytest.raises(NoValidOffset, match=r"partition 0, was truncated before offset 5"):
                read(source, 1)
            source.close()
