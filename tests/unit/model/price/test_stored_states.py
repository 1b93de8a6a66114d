"""Stored states of earlier versions are read, and states of later versions are rejected."""

import pytest

from headwater.errors import PriceStateUnreadable
from headwater.model.price.quote_history import QuoteHistory, history_of
from headwater.model.price.quoted_state import FORMAT, QuotedState, encode_entries, read_unsettled, settle
from headwater.model.price.state import TokenState
from headwater.model.price.stats import evaluate
from headwater.model.price.tail import decode_tail
from headwater.model.price.tick import encode_value
from headwater.model.price.view import view_with_tail

START = 1_700_000_000_000
EARLIER_STATE = bytes.fromhex(
    "03000200010000008044a2cf8b0100008044a2cf8b0100006052e6cf8b01000008000000000000000000000000000a40"
    "06000000000000000100000001000000010000000100000000000000010000000068e5cf8b0100000700000000000000"
    "000000000000f83f0068e5cf8b0100000700000000000000000000000000f8bf0068e5cf8b0100000700000000000000"
    "000000000000f83f0033d9cf8b0100000020000000000000020000000100000001000000010000000000000001000000"
    "6052e6cf8b01000008000000000000000000000000000a406052e6cf8b01000008000000000000000000000000000ac0"
    "6052e6cf8b01000008000000000000000000000000000a400033d9cf8b0100000040000000000000"
)
"""Two ticks a minute apart in the format of the version before quoted ticks."""


def test_a_state_of_the_version_before_quoted_ticks() -> None:
    stats = evaluate(view_with_tail(EARLIER_STATE, None, START + 60_000), START + 60_000)
    assert stats is not None
    assert (stats.latest, stats.low_1h, stats.time_ms, stats.decimals) == (3.25, 1.5, START + 60_000, 6)


def entries(*names: bytes) -> bytes:
    return b"".join(
        encode_entries([encode_value(START + n, n, 0.5, 6) + name], START + 1000 * n) for n, name in enumerate(names)
    )


@pytest.mark.parametrize("names", [(), (b"0xee\0",), (b"0xee\0", b"0xee\0"), (b"0xee\0", b"0xff\0So11", b"0xee\0So11")])
def test_quoted_ticks_are_read_as_they_are_stored(names: tuple[bytes, ...]) -> None:
    known = QuotedState(EARLIER_STATE, [(START, 7, 1.5)], entries(*names))
    read = QuotedState.decode(known.encode(), entries(b"0xaa\0"))
    assert (read.settled, [*read.stale]) == (EARLIER_STATE, [(START, 7, 1.5)])
    groups = read_unsettled(read.unsettled)
    found = sorted(
        (group.quote + b"\0" + group.address, *map(int, row[["order", "arrival"]]))
        for group in groups
        for row in group.rows
    )
    assert found == sorted([(b"0xaa\0", 0, START), *((name, n, START + 1000 * n) for n, name in enumerate(names))])


def test_ticks_that_arrived_later_stay_unsettled() -> None:
    history = history_of(state_of((START - 5, 0, 8.0)), [])
    known = QuotedState(unsettled=entries(b"0xee\0", b"0xee\0", b"0xff\0"))
    settled = settle(known, {b"0xee": history}, START + 999, START + 9000)
    assert settled.stored.unsettled == entries(b"", b"0xee\0", b"0xff\0")[len(entries(b"")) :]
    assert settled.state.newest == (START, 0, 4.0, 6, b"")
    assert settled.unpriced == 0


def test_a_price_beyond_the_range_of_floats_is_none() -> None:
    history = QuoteHistory(*history_of(state_of((START - 5, 0, 1e308)), []))
    [group] = read_unsettled(encode_entries([encode_value(START, 0, 1e10, 6) + b"0xee\0"], START))
    assert [*group.priced(history, START).ticks()] == []


def state_of(tick: tuple[int, int, float]) -> TokenState:
    state = TokenState()
    state.fold((*tick, 6, b""), 1 << 60)
    return state


def test_a_state_without_its_newest_tick_is_rejected() -> None:
    damaged = EARLIER_STATE[:4] + bytes(4) + EARLIER_STATE[8:24] + EARLIER_STATE[56:]
    with pytest.raises(PriceStateUnreadable):
        view_with_tail(damaged, None, START)


@pytest.mark.parametrize("tail", [b"\x00", b"\x18" + bytes(24), b"\x00" * 26, b"\x19" + bytes(25) + b"\x01\x00"])
def test_a_tail_with_a_damaged_length_is_rejected(tail: bytes) -> None:
    with pytest.raises(PriceStateUnreadable):
        decode_tail(tail)


@pytest.mark.parametrize("damaged", [b"\x00", bytes(10), b"\x18\x00" + bytes(8 + 24), entries(b"0xee\0") + bytes(10)])
def test_an_unsettled_tick_with_a_damaged_length_is_rejected(damaged: bytes) -> None:
    with pytest.raises(PriceStateUnreadable):
        read_unsettled(damaged)


def test_a_later_format_is_rejected() -> None:
    data = QuotedState(EARLIER_STATE).encode()
    assert data[0] == FORMAT
    with pytest.raises(PriceStateUnreadable):
        QuotedState.decode(bytes([FORMAT + 1]) + data[1:], None)
