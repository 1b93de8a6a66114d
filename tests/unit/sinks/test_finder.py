"""The threads that look for brokers, and a close while they do."""

from collections.abc import Sequence
from typing import cast

from headwater.brokers.wire.batch import Producer
from headwater.brokers.wire.cluster import Cluster, Layout, Leader
from headwater.model.worker import KafkaAccess
from headwater.sinks.producer.finder import Finder
from headwater.sinks.producer.outbox import Outbox
from headwater.sinks.producer.queue import Queue
from headwater.sources.fetcher.scout import Scout
from headwater.sources.fetcher.shelf import Reading, Shelf

ACCESS = KafkaAccess(bootstrap_servers="127.0.0.1:1")
FOUND = Layout({("t", 0): Leader(("127.0.0.1", 1), 1)}, {})


class ClosedMeanwhile:
    """A cluster that answers when nobody waits for it any more."""

    def __init__(self, owner: Outbox | Shelf) -> None:
        self._owner = owner

    def layout(self, topics: Sequence[str]) -> Layout:
        self._owner.closed = True
        return FOUND

    def close(self) -> None:
        pass


def test_a_producer_that_is_closed_meanwhile_starts_no_lane() -> None:
    outbox = Outbox()
    finder = Finder(outbox, ACCESS, cast("Cluster", ClosedMeanwhile(outbox)), 120.0)
    finder.producer = Producer(1, 0)
    with outbox.lock:
        finder.begin(Queue("t", 0))
    assert not finder._turn()
    assert not finder.lanes


def test_a_fetcher_that_is_closed_meanwhile_starts_no_lane() -> None:
    shelf = Shelf()
    scout = Scout(shelf, ACCESS, "t")
    scout._cluster = cast("Cluster", ClosedMeanwhile(shelf))
    shelf.readings[0] = Reading(0, 0)
    assert not scout._turn()
    assert not scout.lanes
