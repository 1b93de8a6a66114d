import pytest

from headwater.ingest.hyperliquid.trades import Half, Pairs, Side


def half(side: Side, crossed: bool, tid: int = 5, time: int = 1) -> Half:
    return Half(f"user {side}", side, crossed, (time, "BTC", tid), "1.50", "2.0", "0x1", 9)


@pytest.mark.parametrize("taker", ["A", "B"])
@pytest.mark.parametrize("first", ["A", "B"])
def test_two_halves_are_a_trade(taker: Side, first: Side) -> None:
    pairs = Pairs()
    second: Side = "B" if first == "A" else "A"
    assert pairs.add(half(first, first == taker)) is None
    trade = Pairs(pairs.halves).add(half(second, second == taker))
    assert trade is not None
    assert (trade.side, trade.users, trade.px, trade.tid) == (taker, ("user B", "user A"), "1.50", 5)


def test_a_conversion_of_dust_is_no_trade() -> None:
    pairs = Pairs()
    assert pairs.add(half("A", False, 0)) is None
    assert pairs.add(half("B", True, 0)) is None
    assert pairs.halves == []


def test_a_half_that_stays_alone_is_given_up_with_its_block() -> None:
    pairs = Pairs()
    pairs.add(half("A", True, time=1))
    pairs.add(half("A", True, time=2))
    assert pairs.give_up_before(2) == 1
    assert [waiting.trade for waiting in pairs.halves] == [(2, "BTC", 5)]
