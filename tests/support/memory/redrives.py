"""In-memory implementation of the outcomes of redriven letters, for tests."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from headwater.errors import RedisUnavailable
from headwater.model.dead_letter import LetterId, RedriveOutcome
from headwater.model.redrive import LetterOutcome, LetterOutcomes, RedriveCounts, RedriveProgress

_Redrive = tuple[str, int]


class MemoryRedriveOutcomes:
    """Implements RedriveOutcomeStore.

    Attributes:
        away: While this is true, every call raises RedisUnavailable.
        expiring: The redrives whose progress expires soon, by deployment and number.
    """

    def __init__(self) -> None:
        self.away = False
        self.expiring: set[_Redrive] = set()
        self._outcomes: dict[str, dict[LetterId, LetterOutcome]] = defaultdict(dict)
        self._counts: dict[_Redrive, Counter[RedriveOutcome]] = defaultdict(Counter)
        self._finished: set[_Redrive] = set()
        self._throttled: set[_Redrive] = set()

    def record(
        self, deployment_id: str, number: int, outcomes: LetterOutcomes, now_s: int, *, in_transaction: bool = False
    ) -> bool:
        """See RedriveOutcomeStore."""
        self._check()
        known, counts = self._outcomes[deployment_id], self._counts[deployment_id, number]
        for letter, outcome in outcomes.items():
            previous = known.get(letter)
            if previous is not None and previous.number == number:
                counts[previous.outcome] -= 1
            counts[outcome] += 1
            known[letter] = LetterOutcome(outcome, now_s, number, in_transaction)
        return (deployment_id, number) in self._throttled

    def outcomes(self, deployment_id: str, letters: Collection[LetterId]) -> Mapping[LetterId, LetterOutcome]:
        """See RedriveOutcomeStore."""
        self._check()
        known = self._outcomes[deployment_id]
        return {letter: known[letter] for letter in letters if letter in known}

    def progress(self, deployment_id: str, number: int) -> RedriveProgress:
        """See RedriveOutcomeStore."""
        self._check()
        counts = self._counts[deployment_id, number]
        return RedriveProgress(
            RedriveCounts(counts["delivered"], counts["dropped"], counts["failed"]),
            (deployment_id, number) in self._finished,
        )

    def finish(self, deployment_id: str, number: int) -> None:
        """See RedriveOutcomeStore."""
        self._check()
        self._finished.add((deployment_id, number))

    def expire_progress(self, deployment_id: str, number: int) -> None:
        """See RedriveOutcomeStore."""
        self._check()
        self.expiring.add((deployment_id, number))

    def set_throttled(self, deployment_id: str, number: int, *, is_throttled: bool) -> None:
        """See RedriveOutcomeStore."""
        self._check()
        (self._throttled.add if is_throttled else self._throttled.discard)((deployment_id, number))

    def drop(self, deployment_id: str) -> None:
        """See RedriveOutcomeStore."""
        self._check()
        self._outcomes.pop(deployment_id, None)

    def lose_end(self, deployment_id: str, number: int) -> None:
        """Forget that a redrive is finished, as after a failover to a replica that lags."""
        self._finished.discard((deployment_id, number))

    def _check(self) -> None:
        if self.away:
            raise RedisUnavailable("Valkey is away.")
