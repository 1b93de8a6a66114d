"""The statuses and messages of responses with token prices."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from headwater.model.price.archive import TimeBucket, encode_archived
from headwater.model.price.band import hour_of
from headwater.model.price.codec import FORMAT, encode_state
from headwater.model.price.quoted_state import QuotedState, encode_entries
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenState
from headwater.model.price.tail import encode_tail
from headwater.model.price.tick import TICKS_PARTITIONS, encode_value, key_of_quoted_ticks, partition_of, token_key
from headwater.services.prices import PriceResult, Prices, Token
from headwater.stores.protocols.prices import PriceWrite
from tests.support.memory.prices import MemoryPrices
from tests.support.prices import DAY, MINUTE

NOW = 1_767_323_045_678
TOKEN, QUIET = Token("base", "0xaa"), Token("base", "0xbb")


def stored(ticks: dict[Token, Iterable[Tick]]) -> MemoryPrices:
    store = MemoryPrices()
    store.acquire_partitions("one", "topic", range(TICKS_PARTITIONS))
    for token, some in ticks.items():
        key = token_key(*token).encode()
        store.write(partition_of(key), "one", PriceWrite(1, {key: encode_state(state_of(some))}, {}, {}))
    store.add_chains({"base"})
    return store


def state_of(ticks: Iterable[Tick]) -> TokenState:
    state = TokenState()
    state.fold_all([(*tick, 6, b"") for tick in ticks], NOW)
    return state


def ask(store: MemoryPrices, *tokens: Token, filter_outliers: bool = True) -> PriceResult:
    prices = Prices(store, lambda: datetime.fromtimestamp(NOW / 1000, UTC), filter_outliers=filter_outliers)
    return prices.read(tokens)


def crash(minutes: int) -> list[Tick]:
    """Eight hours of trade with one tick per minute.

    The ticks of the last minutes have a tenth of the price.
    """
    return [(NOW - at * MINUTE, 0, 100.0 if at > minutes else 10.0) for at in range(480)]


def test_a_price_crash_is_held_until_it_is_accepted() -> None:
    answer = ask(stored({TOKEN: crash(2)}), TOKEN)
    [stats] = answer.stats
    assert stats is not None
    assert answer.statuses == ["held"]
    assert (stats.latest, stats.time_ms) == (100.0, NOW - 3 * MINUTE)
    assert stats.unaccepted_since == NOW - 2 * MINUTE
    assert answer.message == "All tokens have a price."


def test_a_crash_is_accepted_with_its_share_of_minutes() -> None:
    [stats] = ask(stored({TOKEN: crash(5)}), TOKEN).stats
    assert stats is not None
    assert (stats.latest, stats.time_ms, stats.unaccepted_since) == (10.0, NOW, None)


def test_the_key_of_quoted_ticks_is_no_token() -> None:
    store, key = MemoryPrices(), key_of_quoted_ticks(token_key(*TOKEN).encode())
    store.acquire_partitions("one", "topic", range(TICKS_PARTITIONS))
    ticks = encode_entries([encode_value(NOW, 0, 1.0, 6) + b"0xbb\0"], NOW)
    store.write(partition_of(key), "one", PriceWrite(1, {}, {}, {key: ticks}))
    answer = ask(store, Token("base", f"{TOKEN.address}\0quoted"))
    assert (answer.statuses, answer.is_readable) == (["unknown_token"], [True])


def test_an_old_outlier_holds_nothing() -> None:
    ticks = [tick for tick in crash(0) if tick[2] == 100.0]
    answer = ask(stored({TOKEN: [*ticks, (NOW - 30 * MINUTE, 1, 9e6)]}), TOKEN)
    assert answer.statuses == ["ok"]


def test_nothing_is_held_without_the_filter() -> None:
    answer = ask(stored({TOKEN: crash(2)}), TOKEN, filter_outliers=False)
    assert answer.statuses == ["ok"]


def test_the_message_says_why_tokens_have_no_price() -> None:
    store = stored({TOKEN: crash(-1), QUIET: [(NOW - 7 * DAY, 0, 1.0)]})
    answer = ask(store, QUIET, TOKEN, Token("base", "0x1"), Token("nochain", "0x1"), Token("base", "0x2"))
    assert answer.statuses == ["stale", "ok", "unknown_token", "unknown_chain", "unknown_token"]
    assert answer.message == (
        "4 of 5 tokens have no price: 1 stale (no trade for 7 days), 2 unknown token, 1 unknown chain."
    )


def test_a_state_of_another_version_takes_the_price_of_its_own_token_alone() -> None:
    other = Token("base", "0xcc")
    store = stored({TOKEN: crash(-1), other: crash(-1)})
    key = token_key(*QUIET).encode()
    state = TokenState()
    state.fold_all([(NOW, 0, 1.0, 6, b"")], NOW)
    of_another_version = bytes([FORMAT + 1]) + encode_state(state)[1:]
    store.write(partition_of(key), "one", PriceWrite(2, {key: of_another_version}, {}, {}))
    answer = ask(store, TOKEN, QUIET, Token("base", "0x1"), other)
    assert answer.statuses == ["ok", "unknown_token", "unknown_token", "ok"]
    assert answer.message == (
        "2 of 4 tokens have no price: 1 unknown token, 1 whose stored prices can't be read (the first: 0xbb on base)."
    )


@pytest.mark.parametrize("ticks", [crash(-1), crash(5)], ids=["in one band", "in several bands"])
def test_a_state_that_is_cut_off_takes_the_price_of_its_own_token_alone(ticks: list[Tick]) -> None:
    store, key = stored({TOKEN: crash(-1), QUIET: ticks}), token_key(*QUIET).encode()
    [found] = store.look_up([key], 0)
    assert found.state is not None
    for size in (1, 7, 30, 60, 79, 81, len(found.state) // 2, len(found.state) - 8, len(found.state) - 1):
        store.write(partition_of(key), "one", PriceWrite(2, {key: found.state[:size]}, {}, {}))
        assert_only_quiet_is_unreadable(store)


def test_ticks_behind_a_state_that_are_cut_off_take_the_price_of_their_own_token_alone() -> None:
    for size in (1, 20, 27, 51):
        store, key = stored({TOKEN: crash(-1), QUIET: crash(-1)}), token_key(*QUIET).encode()
        tail = encode_tail([encode_value(NOW - 1, 0, 100.0, 6), encode_value(NOW, 0, 100.0, 6)])[:size]
        store.write(partition_of(key), "one", PriceWrite(2, {}, {}, {key: tail}))
        assert_only_quiet_is_unreadable(store)


def test_quoted_ticks_that_are_cut_off_take_the_price_of_their_own_token_alone() -> None:
    key = key_of_quoted_ticks(token_key(*QUIET).encode())
    entries = encode_entries([encode_value(NOW, 0, 1.0, 6) + b"0xaa\0"] * 2, NOW)
    whole = QuotedState(encode_state(state_of(crash(-1))), [(NOW, 0, 100.0)], entries).encode()
    for size in (1, 7, 12, 30, 40, 80, len(whole) // 2, len(whole) - 1):
        store = stored({TOKEN: crash(-1)})
        store.write(partition_of(key), "one", PriceWrite(2, {key: whole[:size]}, {}, {}))
        assert_only_quiet_is_unreadable(store)
    for size in (1, 20, len(entries) - 1):
        store = stored({TOKEN: crash(-1)})
        store.write(partition_of(key), "one", PriceWrite(2, {}, {}, {key: entries[:size]}))
        assert_only_quiet_is_unreadable(store)


def test_archived_ticks_that_are_cut_off_take_the_price_of_their_own_token_alone() -> None:
    day = [(NOW - at * MINUTE, 0, 100.0) for at in range(26 * 60)]
    store, key = stored({TOKEN: crash(-1), QUIET: day}), token_key(*QUIET).encode()
    hour = hour_of(NOW - DAY)
    archived = encode_archived(TimeBucket(hour), [tick for tick in day if hour <= tick[0] < hour + 60 * MINUTE])
    store.write(partition_of(key), "one", PriceWrite(2, {}, {(key, TimeBucket(hour)): archived[:-1]}, {}))
    assert_only_quiet_is_unreadable(store)


def assert_only_quiet_is_unreadable(store: MemoryPrices) -> None:
    answer = ask(store, TOKEN, QUIET)
    assert (answer.statuses, answer.is_readable) == (["ok", "unknown_token"], [True, False])
