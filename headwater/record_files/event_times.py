"""Reads and changes the event times of records, for `headwater replay`.

Records can also be paced by these times.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from headwater.model.timestamps import to_epoch_ms, units_per_second

Clock = Callable[[], float]
"""Returns the seconds since the epoch."""

_ISO: Final = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(\.\d+)?( ?UTC|Z|[+-]\d\d:?\d\d)?", re.ASCII)
_NO_TIME_ERRORS: Final = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)

_encode: Final = msgspec.json.encode


class EventTimes:
    """Reads and rewrites the event time in the member `field` of records.

    A rewritten time keeps its form: a number its unit, and a text its zone and its number of fractional digits.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
        self._decode = msgspec.json.Decoder(_record_with(field)).decode
        self.records_without_time = 0
        """The number of records without a time in a known form; they stay unchanged."""

    def event_time(self, record: bytes) -> float | None:
        """Return the event time of a record in seconds since the epoch.

        Returns None if the record has no time in a known form.
        """
        try:
            at = to_epoch_ms(self._decode(record).at)
        except _NO_TIME_ERRORS:
            return None
        return None if at is None else at / 1000

    def newest(self, records: Iterable[bytes]) -> float | None:
        """Return the latest event time of all records; None if no record has one."""
        return max(filter(None, map(self.event_time, records)), default=None)

    def stamped_now(self, records: Iterable[bytes], clock: Clock = time.time) -> Iterator[bytes]:
        """Replace each record's event time by the time at which the record is yielded."""
        for record in records:
            yield self._rewritten(record, lambda at: _now_like(at, clock()))

    def shifted(self, records: Iterable[bytes], seconds: int | None, clock: Clock = time.time) -> Iterator[bytes]:
        """Shift all times by `seconds`; None shifts all records so that the first one is now.

        Shifts are whole seconds, so intervals and fractions of a second are preserved exactly.
        """
        for record in records:
            if seconds is None and (first := self.event_time(record)) is not None:
                seconds = int((clock() - first) // 1)
            shift_s = seconds or 0
            yield self._rewritten(record, lambda at: _shifted(at, shift_s))  # noqa: B023  # called at once

    def _rewritten(self, record: bytes, change: Callable[[Any], Any]) -> bytes:
        """Return the record with its time changed by a function.

        `change` returns None for a time of an unknown form. The record is then returned unchanged, and counted.
        """
        members = self._members(record)
        try:
            at = change(msgspec.json.decode(members.get(self._field, b"null")))
        except _NO_TIME_ERRORS:
            at = None
        if at is None:
            self.records_without_time += 1
            return record
        members[self._field] = msgspec.Raw(_encode(at))
        return _encode(members)

    def paced(
        self,
        records: Iterable[bytes],
        factor: float,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Iterator[bytes]:
        """Yield records at the pace of their event times, `factor` times as fast.

        Records without a time are yielded without a delay.
        """
        started: tuple[float, float] | None = None
        for record in records:
            at = self.event_time(record)
            if at is not None:
                started = started or (clock(), at)
                sleep(max(0.0, started[0] + (at - started[1]) / factor - clock()))
            yield record


def _record_with(field: str) -> type[Any]:
    return msgspec.defstruct("Record", [("at", Any, None)], rename={"at": field})


def _shifted(at: Any, seconds: int) -> Any:
    """Return a time moved by this many seconds; None for an unknown form.

    Raises ValueError, OverflowError.
    """
    if isinstance(at, str) and (parts := _ISO.fullmatch(at)):
        moved = datetime.fromisoformat(parts[1]) + timedelta(seconds=seconds)
        return moved.isoformat(parts[1][10]) + at[len(parts[1]) :]
    return at + seconds * units_per_second(at) if _is_number(at) else None


def _now_like(at: Any, now: float) -> Any:
    """Return the current time in the form of another time; None for an unknown form.

    Raises ValueError, OverflowError.
    """
    if isinstance(at, str) and (parts := _ISO.fullmatch(at)):
        whole, fraction, zone = parts.groups(default="")
        datetime.fromisoformat(whole)
        local = datetime.fromtimestamp(now, UTC).replace(tzinfo=None) + _utc_offset(zone)
        digits = f"{local.microsecond:06}000"[: max(0, len(fraction) - 1)]
        return local.isoformat(whole[10], "seconds") + ("." + digits if digits else "") + zone
    if not _is_number(at):
        return None
    moved = now * units_per_second(at)
    return int(moved) if isinstance(at, int) else moved


def _utc_offset(zone: str) -> timedelta:
    return (
        timedelta() if zone in ("", "Z") or "UTC" in zone else datetime.strptime(zone, "%z").utcoffset() or timedelta()
    )


def _is_number(at: Any) -> bool:
    return isinstance(at, int | float) and not isinstance(at, bool)
