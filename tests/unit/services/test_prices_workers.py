"""Whether a prices worker runs is read in the background."""

from headwater.errors import BrokerUnavailable
from headwater.services.prices_workers import FRESH_S, KEPT_S, PricesWorkers
from tests.support.waiting import until


class Group:
    """The consumer group of the prices workers, and a clock."""

    def __init__(self) -> None:
        self.has_members = True
        self.is_available = True
        self.now = 0.0

    def read(self) -> bool:
        if not self.is_available:
            raise BrokerUnavailable("Kafka is unavailable.")
        return self.has_members


def test_an_answer_is_kept_while_it_is_fresh() -> None:
    group = Group()
    workers = PricesWorkers(group.read, lambda: group.now)
    assert workers.any_runs() is None
    until(lambda: workers.any_runs() is True, 10, "the first answer")
    group.has_members = False
    assert workers.any_runs() is True
    group.now += FRESH_S
    until(lambda: workers.any_runs() is False, 10, "the next answer")
    workers.close()


def test_nothing_is_known_after_a_time_without_kafka() -> None:
    group = Group()
    workers = PricesWorkers(group.read, lambda: group.now)
    until(lambda: workers.any_runs() is True, 10, "the first answer")
    group.is_available = False
    group.now += KEPT_S - 1
    assert workers.any_runs() is True
    group.now += 1
    assert workers.any_runs() is None
    workers.close()
