"""The transform `redis_set_filter`: passes a record when its value is in the set."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import chain, compress

from headwater.errors import Fault, InvalidExpression
from headwater.model.record import Failure, RecordBatch, TransformResult
from headwater.model.transforms.redis_set_filter import NewRedisSetFilterTransform, RedisSetFilterTransform
from headwater.model.value_sets import SetId, filter_set_id
from headwater.native import JsonFieldValues
from headwater.sandbox.bigint_marks import any_marked, remove_marks
from headwater.stores.protocols.sets import SetLookup
from headwater.transforms.base import DeferredBatch, PendingBatch, TransformContext
from headwater.transforms.expression import Expression, InvalidRecord, members_of_record, parse
from headwater.transforms.transform_type import PrepareContext, PreparedTransform, TransformType

_MARKED_NUMBER = re.compile("-?[0-9]+e0")
"""A BigInt as a script writes it for the next transform, see sandbox/bigint_marks.py."""
Contains = Callable[[Sequence[str]], list[bool]]
"""Returns for each value whether it is a member of the set."""


def build(config: RedisSetFilterTransform, context: TransformContext) -> "RedisSetFilter":
    """Build the transform of a worker. Raises InvalidExpression."""
    set_id = filter_set_id(context.config_id, config.uid)
    return RedisSetFilter(config.uid, parse(config.filter_expr), context.sets, set_id)


class RedisSetFilter:
    """Implements Transform. Records that pass are forwarded byte for byte."""

    def __init__(self, uid: str, expression: Expression, sets: SetLookup, set_id: SetId) -> None:
        self.uid = uid
        self._expression = expression
        self._sets = sets
        self._set_id = set_id

    def start(self, batch: RecordBatch) -> PendingBatch:
        """See Transform. Selects the values; the lookup in the set happens in `result`."""
        values, unparsed_rows = self._select_fast(batch)
        values_by_row: dict[int, list[str]] = {}
        failures: list[Failure] = []
        for row in unparsed_rows:
            record = batch.values[row]
            try:
                values_by_row[row] = self._expression.select(
                    remove_marks(record) if record and batch.may_have_bigint_marks else record
                )
            except InvalidRecord as error:
                failures.append(Failure(row, error.error, error.message, self.uid))
        return DeferredBatch(partial(self._look_up, batch, _LookupValues(values, values_by_row), failures))

    def _look_up(self, batch: RecordBatch, lookup_values: "_LookupValues", failures: list[Failure]) -> TransformResult:
        mask = lookup_values.pass_mask(partial(self._sets.contains_many, self._set_id))
        return TransformResult(batch.select(mask), list(failures))

    def _select_fast(self, batch: RecordBatch) -> JsonFieldValues:
        """Select a value of each record by the fast path; return the rows for the slow path.

        Between scripts, a value may also be a BigInt with a mark. Such a row needs the slow path, which looks up plain
        digits.
        """
        values, unparsed_rows = self._expression.select_fast(batch.values)
        if batch.may_have_bigint_marks and any_marked(batch.values.buffer):
            marked_rows = [row for row, value in enumerate(values) if _MARKED_NUMBER.fullmatch(value)]
            for row in marked_rows:
                values[row] = ""
            unparsed_rows = sorted([*unparsed_rows, *marked_rows])
        return JsonFieldValues(values, unparsed_rows)

    def close(self) -> None:
        """See Transform."""


class _LookupValues:
    """The values to look up for the records of a batch."""

    def __init__(self, values: list[str], values_by_row: dict[int, list[str]]) -> None:
        """Create the values of a batch.

        Args:
            values: A value per row, "" for none.
            values_by_row: By row of the slow path, its values, of which there may be none or many. They replace the
            value of the row in `values`.
        """
        self._values = values
        self._values_by_row = values_by_row

    def pass_mask(self, contains: Contains) -> list[bool]:
        """Return for each row whether any of its values is a member of the set."""
        if all(self._values) and not self._values_by_row:  # the usual case: each row has exactly one value
            return contains(self._values) if self._values else []
        looked_up = [*dict.fromkeys(filter(None, chain(self._values, *self._values_by_row.values())))]
        members = {*compress(looked_up, contains(looked_up) if looked_up else [])}
        mask = [value in members for value in self._values]
        for row, values in self._values_by_row.items():
            mask[row] = not members.isdisjoint(values)
        return mask


def find_faults(transform: NewRedisSetFilterTransform) -> Iterator[Fault]:
    """Yield the fault in the expression, if there is one."""
    try:
        parse(transform.filter_expr)
    except InvalidExpression as error:
        yield Fault("/filter_expr", f"column {error.column}: {error.detail}")


def prepare_filter(transform: RedisSetFilterTransform, context: PrepareContext) -> PreparedTransform:
    """Return the transform with a warning for each field that the stream does not have."""
    if context.fields is None:
        return PreparedTransform(transform)
    unknown = [name for name in members_of_record(parse(transform.filter_expr).node) if name not in context.fields]
    return PreparedTransform(transform, warnings=[_unknown_field(name, context.fields) for name in unknown])


def _unknown_field(name: str, fields: Collection[str]) -> Fault:
    similar = get_close_matches(name, fields, n=1)
    advice = f"did you mean `{similar[0]}`?" if similar else "GET /api/v1/flow/streams lists the fields"
    return Fault("/filter_expr", f"reads `{name}`, which is no field of the stream's records; {advice}")


TYPE = TransformType(build, find_faults, prepare_filter, keeps_records=True)
