"""The times that records carry: kept, or moved to the present; and records at the pace of their times."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from headwater.model.timestamps import milliseconds

Clock = Callable[[], float]
"""Seconds since the epoch."""

_ISO: Final = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(\.\d+)?( ?UTC|Z|[+-]\d\d:?\d\d)?", re.ASCII)
_PER_SECOND: Final = ((10**11, 1), (10**14, 10**3), (10**17, 10**6))
"""(limit, units per second): a number below the limit counts these units since the epoch, a larger one nanoseconds."""

_NO_TIME: Final = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)

encode: Final = msgspec.json.encode


class EventTimes:
    """The member `field` of records: when they happened. It keeps its form: the unit, the digits, the zone."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
        self._decode = msgspec.json.Decoder(_record_with(field)).decode
        self.without = 0
        """Records seen by `moved` that carry no time in a form that is known; they stay as they are."""

    def read(self, record: bytes) -> float | None:
        """Seconds since the epoch."""
        try:
            at = milliseconds(self._decode(record).at)
        except _NO_TIME:
            return None
        return None if at is None else at / 1000

    def newest(self, records: Iterable[bytes]) -> float | None:
        """The latest time of all records; None when none has one."""
        return max(filter(None, map(self.read, records)), default=None)

    def at_now(self, records: Iterable[bytes], clock: Clock = time.time) -> Iterator[bytes]:
        """Each record with the time at which it is taken."""
        for record in records:
            yield self._moved(record, lambda at: _now_like(at, clock()))

    def shifted(self, records: Iterable[bytes], seconds: int | None, clock: Clock = time.time) -> Iterator[bytes]:
        """All times moved by so many seconds; None: so many that the first one is the present.

        Whole seconds: distances stay exact, and so do all digits behind the second.
        """
        for record in records:
            if seconds is None and (first := self.read(record)) is not None:
                seconds = int((clock() - first) // 1)
            by = seconds or 0
            yield self._moved(record, lambda at: _shifted(at, by))  # noqa: B023  # called at once

    def _moved(self, record: bytes, move: Callable[[Any], Any]) -> bytes:
        members = self._members(record)
        try:
            at = move(msgspec.json.decode(members.get(self._field, b"null")))
        except _NO_TIME:
            at = None
        if at is None:
            self.without += 1
            return record
        members[self._field] = msgspec.Raw(encode(at))
        return encode(members)

    def paced(
        self,
        records: Iterable[bytes],
        factor: float,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Iterator[bytes]:
        """Records at the distances of their times, `factor` times as fast; those without a time follow at once."""
        started: tuple[float, float] | None = None
        for record in records:
            at = self.read(record)
            if at is not None:
                started = started or (clock(), at)
                sleep(max(0.0, started[0] + (at - started[1]) / factor - clock()))
            yield record


def _record_with(field: str) -> type[Any]:
    return msgspec.defstruct("Record", [("at", Any, None)], rename={"at": field})


def _shifted(at: Any, seconds: int) -> Any:
    """A time in any known form, later by so much; None when it is in none. Raises ValueError, OverflowError."""
    if isinstance(at, str) and (parts := _ISO.fullmatch(at)):
        moved = datetime.fromisoformat(parts[1]) + timedelta(seconds=seconds)
        return moved.isoformat(parts[1][10]) + at[len(parts[1]) :]
    return at + seconds * _per_second(at) if _is_number(at) else None


def _now_like(at: Any, now: float) -> Any:
    """The present in the form of another time; None when that is in none. Raises ValueError, OverflowError."""
    if isinstance(at, str) and (parts := _ISO.fullmatch(at)):
        whole, fraction, zone = parts.groups(default="")
        datetime.fromisoformat(whole)
        there = datetime.fromtimestamp(now, UTC).replace(tzinfo=None) + _offset(zone)
        digits = f"{there.microsecond:06}000"[: max(0, len(fraction) - 1)]
        return there.isoformat(whole[10], "seconds") + ("." + digits if digits else "") + zone
    if not _is_number(at):
        return None
    moved = now * _per_second(at)
    return int(moved) if isinstance(at, int) else moved


def _offset(zone: str) -> timedelta:
    return (
        timedelta() if zone in ("", "Z") or "UTC" in zone else datetime.strptime(zone, "%z").utcoffset() or timedelta()
    )


def _is_number(at: Any) -> bool:
    return isinstance(at, int | float) and not isinstance(at, bool)


def _per_second(at: float) -> int:
    return next((units for limit, units in _PER_SECOND if abs(at) < limit), 10**9)
