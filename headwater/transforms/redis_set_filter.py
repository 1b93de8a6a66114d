"""The transform `redis_set_filter`: passes a record when its value is in the set."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, compress

from headwater.errors import Fault, InvalidExpression
from headwater.model.record import Failure, RecordBatch, TransformResult
from headwater.model.transforms.redis_set_filter import NewRedisSetFilterTransform, RedisSetFilterTransform
from headwater.model.value_sets import SetId, filter_set
from headwater.native import JsonFieldValues
from headwater.sandbox.bigint_marks import any_marked, remove_marks
from headwater.stores.protocols.sets import SetLookup
from headwater.transforms.base import DeferredBatch, PendingBatch, TransformContext
from headwater.transforms.expression import Expression, InvalidRecord, parse
from headwater.transforms.transform_type import TransformType

_MARKED_NUMBER = re.compile("-?[0-9]+e0")
Contains = Callable[[Sequence[str]], list[bool]]
"""Returns for each value whether it is a member of the set."""


def build(config: RedisSetFilterTransform, context: TransformContext) -> "RedisSetFilter":
    """Build the transform of a worker. Raises InvalidExpression."""
    target = filter_set(context.config_id, config.uid)
    return RedisSetFilter(config.uid, parse(config.filter_expr), context.sets, target)


class RedisSetFilter:
    """Implements Transform. Records that pass are forwarded byte for byte."""

    def __init__(self, uid: str, expression: Expression, sets: SetLookup, target: SetId) -> None:
        self.uid = uid
        self._expression = expression
        self._sets = sets
        self._target = target

    def start(self, batch: RecordBatch) -> PendingBatch:
        """See Transform. Selects the values; the lookup in the set happens in `result`."""
        texts, unparsed_rows = self._select(batch)
        texts_by_row: dict[int, list[str]] = {}
        failures: list[Failure] = []
        for row in unparsed_rows:
            value = batch.values[row]
            try:
                texts_by_row[row] = self._expression.select(
                    remove_marks(value) if value and batch.for_script else value
                )
            except InvalidRecord as error:
                failures.append(Failure(row, error.error, error.message, self.uid))
        return DeferredBatch(partial(self._look_up, batch, _LookupTexts(texts, texts_by_row), failures))

    def _look_up(self, batch: RecordBatch, texts: "_LookupTexts", failures: list[Failure]) -> TransformResult:
        keep = texts.keep(partial(self._sets.contains_many, self._target))
        return TransformResult(batch.select(keep), list(failures))

    def _select(self, batch: RecordBatch) -> JsonFieldValues:
        """Select a text of each record by the fast path, as far as it can.

        Between scripts, a text may also be a number with a mark (see sandbox/bigint_marks.py). Such rows are left to
        the slow path.
        """
        texts, unparsed_rows = self._expression.select_fast(batch.values)
        if batch.for_script and any_marked(batch.values.buffer):
            marked = [row for row, text in enumerate(texts) if _MARKED_NUMBER.fullmatch(text)]
            for row in marked:
                texts[row] = ""
            unparsed_rows = sorted([*unparsed_rows, *marked])
        return JsonFieldValues(texts, unparsed_rows)

    def close(self) -> None:
        """See Transform."""


class _LookupTexts:
    """The texts to look up for the records of a batch."""

    def __init__(self, texts: list[str], texts_by_row: dict[int, list[str]]) -> None:
        """Create the texts of a batch.

        Args:
            texts: A text per row, "" for none.
            texts_by_row: The texts of rows with any number of texts. They replace the text of the row in `texts`.
        """
        self._texts = texts
        self._texts_by_row = texts_by_row

    def keep(self, contains: Contains) -> list[bool]:
        """Return for each row whether any of its texts is a member of the set."""
        single = self._texts if all(self._texts) else [*filter(None, self._texts)]
        multiple = [*{*chain.from_iterable(self._texts_by_row.values())}]
        looked_up = [*single, *multiple] if multiple else single
        answers = contains(looked_up) if looked_up else []
        if looked_up is self._texts:
            return answers
        found = iter(answers)
        keep = [text != "" and next(found) for text in self._texts]
        members = {*compress(multiple, found)}
        for row, texts in self._texts_by_row.items():
            keep[row] = not members.isdisjoint(texts)
        return keep


def check(sent: NewRedisSetFilterTransform) -> Iterator[Fault]:
    """Yield the fault in the expression, if there is one."""
    try:
        parse(sent.filter_expr)
    except InvalidExpression as error:
        yield Fault("/filter_expr", f"column {error.column}: {error.detail}")


TYPE = TransformType(build, check)
