"""Formats numbers and durations as people read them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

BARS: Final = "▁▂▃▄▅▆▇█"
SPARK_BARS: Final = 8
RECENT_MINUTES: Final = 5


def short_number(value: float) -> str:
    """Return a number with at most three digits and a unit.

    >>> [short_number(each) for each in (0, 12, 999, 1500, 48120, 2_500_000)]
    ['0', '12', '999', '1.5 k', '48 k', '2.5 M']
    """
    for unit in ("", " k", " M", " G"):
        if value < 999.5 or unit == " G":
            digits = 1 if unit and value < 9.95 else 0
            return f"{value:.{digits}f}{unit}"
        value /= 1_000
    raise AssertionError


def rate(per_minute: Sequence[int] | None) -> str:
    """Return the records per second over the last complete minutes.

    >>> rate([60] * 60), rate(None)
    ('1 /s', '')
    """
    if not per_minute:
        return ""
    recent = per_minute[-RECENT_MINUTES - 1 : -1] or per_minute
    per_second = sum(recent) / len(recent) / 60
    text = f"{per_second:.1f} " if 0 < per_second < 1 else short_number(per_second)
    return f"{text}/s" if text[-1] in "kMG " else f"{text} /s"


def sparkline(per_minute: Sequence[int] | None) -> str:
    """Return the counts of an hour as bars.

    >>> sparkline([0] * 30 + [10] * 30), sparkline(None)
    ('▁▁▁▁████', '')
    """
    if not per_minute:
        return ""
    number = min(SPARK_BARS, len(per_minute))
    bounds = [index * len(per_minute) // number for index in range(number + 1)]
    means = [sum(per_minute[start:end]) / (end - start) for start, end in pairwise(bounds)]
    highest = max(means)
    return "".join(BARS[round(mean / highest * (len(BARS) - 1)) if highest else 0] for mean in means)


def duration(seconds: float) -> str:
    """Return a duration in its greatest unit.

    >>> [duration(each) for each in (0.25, 3, 90, 7300, 200_000)]
    ['0.2 s', '3.0 s', '1 min', '2 h', '2 d']
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    raise AssertionError


def ago(time: datetime | None) -> str:
    """Return how long ago a time is."""
    return "" if time is None else duration(max(0.0, (datetime.now(UTC) - time).total_seconds()))


def milliseconds(value: float | None) -> str:
    """Return a time in milliseconds with a unit.

    >>> milliseconds(12.4), milliseconds(1234.0), milliseconds(None)
    ('12 ms', '1.2 s', '')
    """
    if value is None:
        return ""
    return f"{value:.0f} ms" if value < 1_000 else duration(value / 1_000)
