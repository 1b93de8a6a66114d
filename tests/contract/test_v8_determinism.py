"""Time and random numbers in a script depend only on the record.

A repeat therefore gives the same outputs.
"""

import json
from collections.abc import Sequence
from typing import Any

from headwater.model.record import RecordBatch, RowIndexes
from tests.support.sandbox import TIME_MS, batch, lines
from tests.support.v8 import Bench


class TestTimeAndChance:
    SCRIPT = """
      function process(d) {
        for (let i = 0; i < 2000; i++);
        return {
          now: Date.now(), time: new Date().getTime(), text: Date(), iso: new Date().toISOString(),
          other: new Date(5).getTime(), parts: new Date(2020, 1, 2).toISOString(), class: new Date() instanceof Date,
          sub: +new (class extends Date {})(),
          intl: new Intl.DateTimeFormat('en', { timeZone: 'UTC', dateStyle: 'short', timeStyle: 'long' }).format(),
          temporal: Temporal.Now.instant().epochMilliseconds, zoned: Temporal.Now.zonedDateTimeISO().epochMilliseconds,
          day: Temporal.Now.plainDateISO().toString(), random: [Math.random(), Math.random(), Math.random()],
        };
      }
    """

    def rows(self, bench: Bench, values: Sequence[bytes], topic: str = "t") -> list[dict[str, Any]]:
        outcome = bench.transform(self.SCRIPT).start(batch(values, topic)).result()
        assert outcome.failures == []
        return [json.loads(value or b"") for value in outcome.output.values]

    def test_time_is_the_records_timestamp_and_does_not_advance(self, bench: Bench) -> None:
        for row, seen in enumerate(self.rows(bench, lines({}, {}, {}))):
            now = TIME_MS + row
            assert {seen[key] for key in ("now", "time", "sub", "temporal", "zoned")} == {now}
            assert (seen["iso"], seen["day"]) == (f"2023-11-14T22:13:20.{123 + row}Z", "2023-11-14")
            assert seen["text"].startswith("Tue Nov 14 2023 22:13:20 GMT+0000")
            assert seen["intl"].startswith("11/14/23, 10:13:20")
            assert (seen["other"], seen["parts"], seen["class"]) == (5, "2020-02-02T00:00:00.000Z", True)

    def test_random_numbers_depend_only_on_the_records_position(self, bench: Bench) -> None:
        first = self.rows(bench, lines({}, {}, {}))
        assert first == self.rows(bench, lines({"other": 1}, {}, {}))
        assert first != self.rows(bench, lines({}, {}, {}), topic="u")
        drawn = [x for seen in first for x in seen["random"]]
        assert len({*drawn}) == 9
        assert all(0 <= x < 1 for x in drawn)

    def test_a_record_sees_the_same_alone(self, bench: Bench) -> None:
        transform = bench.transform("function process(d) { return { now: Date.now(), random: Math.random() } }")
        times, partitions = [7, 7, 7, 8, 8, 9, 9, 9, 9, 7, 7, 3], [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 2, 2]
        offsets, indexes = [5, 6, 7, 9, 5, 6, 9, 10, 11, 13, 1 << 40, 1 << 50], [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 3]
        whole = RecordBatch.of("t", lines(*[{}] * 12), [None] * 12, times, partitions, offsets, indexes)
        alone = [whole.take(RowIndexes("i", [row])) for row in range(12)]
        seen = [json.loads(value or b"") for value in transform.start(whole).result().output.values]
        assert seen == [json.loads(transform.start(one).result().output.values[0] or b"") for one in alone]
        assert [one["now"] for one in seen] == times
        assert len({one["random"] for one in seen}) == 12

    def test_random_numbers_at_the_stack_limit(self, bench: Bench) -> None:
        script = """
          function deeper(first) { try { return deeper(first); } catch (e) { first.push(Math.random()); throw e; } }
          function process(d) {
            const seen = [];
            if (d.deep) try { deeper(seen); } catch (e) { seen.length = 0; }
            return { random: Math.random() };
          }"""
        transform = bench.transform(script)
        for offsets in ([10, 12], [99, 12]):
            whole = RecordBatch.of("t", lines({}, {"deep": 1}), [None] * 2, [7, 7], [0, 0], offsets, [0, 0])
            alone = whole.take(RowIndexes("i", [1]))
            assert transform.start(whole).result().output.values[1] == transform.start(alone).result().output.values[0]

    def test_random_numbers_are_uniform(self, bench: Bench) -> None:
        script = "function process(d) { return { r: Math.random() } }"
        kept, _ = bench.run(script, lines(*({} for _ in range(2000))))
        drawn = [json.loads(value or b"")["r"] for value in kept]
        tenths = [sum(tenth <= 10 * x < tenth + 1 for x in drawn) for tenth in range(10)]
        assert len({*drawn}) == 2000
        assert min(tenths) > 130
        assert max(tenths) < 270

    def test_the_top_level_has_no_time(self, bench: Bench) -> None:
        assert bench.run("const t = Date.now(); function process(d) { return { t } }", lines({}))[0] == [b'{"t":0}']
