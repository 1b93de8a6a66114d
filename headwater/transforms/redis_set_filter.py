"""The transform `redis_set_filter`: keeps a record when its selected value is in the transform's set."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, compress

from headwater.model.value_sets import SetId, filter_set
from headwater.model.record import Failure, Outcome, RecordBatch
from headwater.model.transform import RedisSetFilterTransform
from headwater.native import JsonFieldValues
from headwater.sandbox.bigint_marks import any_marked, remove_marks
from headwater.stores.protocols.sets import SetLookup
from headwater.transforms.base import Pending, TransformContext
from headwater.transforms.expression import Expression, InvalidRecord, parse

_MARKED_NUMBER = re.compile("-?[0-9]+e0")
Contains = Callable[[Sequence[str]], list[bool]]
"""Which values are members."""


def build(config: RedisSetFilterTransform, resources: TransformContext) -> "RedisSetFilter":
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
        singles, doubtful = self._selected(batch)
        lists: dict[int, list[str]] = {}
        failures: list[Failure] = []
        for row in doubtful:
            try:
                value = batch.values[row]
                lists[row] = self._expression.select(remove_marks(value) if value and batch.for_script else value)
            except InvalidRecord as refused:
                failures.append(Failure(row, refused.error, refused.message, self.uid))
        return _Lookup(self._sets, self._target, batch, _Selected(singles, lists), failures)

    def _selected(self, batch: RecordBatch) -> JsonFieldValues:
        """The text of each record. Between scripts, texts that may be a marked number are doubtful too."""
        singles, doubtful = self._expression.select_single(batch.values)
        if batch.for_script and any_marked(batch.values.buffer):
            marked = [row for row, text in enumerate(singles) if _MARKED_NUMBER.fullmatch(text)]
            for row in marked:
                singles[row] = ""
            doubtful = sorted([*doubtful, *marked])
        return JsonFieldValues(singles, doubtful)

    def close(self) -> None:
        """See Transform."""


class _Selected:
    """The selected texts of a batch.

    singles: one text per row, "" for none. lists: for some rows, any number of texts in place of that one.
    """

    def __init__(self, singles: list[str], lists: dict[int, list[str]]) -> None:
        self._singles = singles
        self._lists = lists

    def keep(self, contains: Contains) -> list[bool]:
        """Which rows stay: one of their texts is a member."""
        single = self._singles if all(self._singles) else [*filter(None, self._singles)]
        of_lists = [*{*chain.from_iterable(self._lists.values())}]
        asked = [*single, *of_lists] if of_lists else single
        answers = contains(asked) if asked else []
        if asked is self._singles:
            return answers
        found = iter(answers)
        keep = [text != "" and next(found) for text in self._singles]
        members = {*compress(of_lists, found)}
        for row, texts in self._lists.items():
            keep[row] = not members.isdisjoint(texts)
        return keep


class _Lookup:
    """A batch whose values are selected."""

    def __init__(
        self, sets: SetLookup, target: SetId, batch: RecordBatch, texts: _Selected, failures: list[Failure]
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
