"""The transform `redis_set_filter`: keeps a record when its selected value is in the transform's set."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, compress

from headwater.model.dataset import SetId, filter_set
from headwater.model.record import Failure, Outcome, RecordBatch
from headwater.model.transform import RedisSetFilterTransform
from headwater.stores.base import SetLookup
from headwater.transforms.base import Pending, Resources
from headwater.transforms.expression import Expression, RecordRefused, parse

Contains = Callable[[Sequence[str]], list[bool]]
"""Which values are members."""


def build(config: RedisSetFilterTransform, resources: Resources) -> "RedisSetFilter":
    """The transform of one worker. Raises ExpressionRefused."""
    target = filter_set(resources.config_id, config.uid)
    return RedisSetFilter(config.uid, parse(config.filter_expr), resources.sets, target)


class RedisSetFilter:
    """See Transform. Records that stay are the same bytes."""

    def __init__(self, uid: str, expression: Expression, sets: SetLookup, target: SetId) -> None:
        self.uid = uid
        self._expression = expression
        self._sets = sets
        self._target = target

    def start(self, batch: RecordBatch) -> Pending:
        """See Transform. Selects the values; the set is asked when the result is taken."""
        singles = self._expression.select_single(batch.values)
        if singles is not None:
            return _Lookup(self._sets, self._target, batch, _Singles(singles), [])
        texts: list[list[str]] = []
        failures: list[Failure] = []
        select = self._expression.select
        for row, value in enumerate(batch.values):
            try:
                texts.append(select(value))
            except RecordRefused as refused:
                texts.append([])
                failures.append(Failure(row, refused.error, refused.message, self.uid))
        return _Lookup(self._sets, self._target, batch, _Lists(texts), failures)

    def close(self) -> None:
        """See Transform."""


class _Singles:
    """One text per row; "" is in no set."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def keep(self, contains: Contains) -> list[bool]:
        """Which rows stay."""
        if all(self._texts):
            return contains(self._texts)
        texts = [*filter(None, self._texts)]
        answers = iter(contains(texts) if texts else ())
        return [text != "" and next(answers) for text in self._texts]


class _Lists:
    """Any number of texts per row, which stays when one is a member."""

    def __init__(self, texts: list[list[str]]) -> None:
        self._texts = texts

    def keep(self, contains: Contains) -> list[bool]:
        """Which rows stay."""
        distinct = list(set(chain.from_iterable(self._texts)))
        members = set(compress(distinct, contains(distinct) if distinct else ()))
        return [not members.isdisjoint(texts) for texts in self._texts]


class _Lookup:
    """A batch whose values are selected."""

    def __init__(
        self, sets: SetLookup, target: SetId, batch: RecordBatch, texts: _Singles | _Lists, failures: list[Failure]
    ) -> None:
        self._sets = sets
        self._target = target
        self._batch = batch
        self._texts = texts
        self._failures = failures

    def done(self) -> bool:
        """True: what is left is one round trip."""
        return True

    def wait(self, timeout_s: float) -> None:
        """See Pending."""

    def result(self) -> Outcome:
        """See Pending. One round trip; asks again each time it is called."""
        keep = self._texts.keep(partial(self._sets.contains_many, self._target))
        return Outcome(self._batch.select(keep), list(self._failures))
