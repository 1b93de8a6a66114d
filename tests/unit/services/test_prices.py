"""What readers of token prices are told besides the figures."""

from collections.abc import Iterable
from datetime import UTC, datetime

from headwater.model.price.codec import FORMAT, encode
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenState
from headwater.model.price.tick import PARTITIONS, partition_of, token_key
from headwater.services.prices import PriceAnswer, Prices, Token
from headwater.stores.memory.prices import MemoryPrices
from headwater.stores.prices import PriceWrite
from tests.support.prices import DAY, MINUTE

NOW = 1_767_323_045_678
TOKEN, QUIET = Token("base", "0xaa"), Token("base", "0xbb")


def stored(ticks: dict[Token, Iterable[Tick]]) -> MemoryPrices:
    store = MemoryPrices()
    store.take("one", "topic", range(PARTITIONS))
    for token, some in ticks.items():
        state, key = TokenState(), token_key(*token).encode()
        state.fold_all([(*tick, 6, b"") for tick in some], NOW)
        store.write(partition_of(key), "one", PriceWrite(1, {key: encode(state)}, {}, {}))
    store.note_chains({"base"})
    return store


def ask(store: MemoryPrices, *tokens: Token, filter_outliers: bool = True) -> PriceAnswer:
    prices = Prices(store, lambda: datetime.fromtimestamp(NOW / 1000, UTC), filter_outliers=filter_outliers)
    return prices.answer(tokens)


def crash(minutes: int) -> list[Tick]:
    """Eight hours of trade, a tick a minute; the ticks of the last minutes (and of now) have a tenth of the price."""
    return [(NOW - at * MINUTE, 0, 100.0 if at > minutes else 10.0) for at in range(480)]


def test_a_crash_is_held_until_it_is_accepted() -> None:
    answer = ask(stored({TOKEN: crash(2)}), TOKEN)
    [stats] = answer.stats
    assert stats is not None
    assert answer.statuses == ["held"]
    assert (stats.latest, stats.time_ms) == (100.0, NOW - 3 * MINUTE)
    assert stats.held_since == NOW - 2 * MINUTE
    assert answer.message == "All tokens have a price."


def test_a_crash_is_accepted_with_its_share_of_minutes() -> None:
    [stats] = ask(stored({TOKEN: crash(5)}), TOKEN).stats
    assert stats is not None
    assert (stats.latest, stats.time_ms, stats.held_since) == (10.0, NOW, None)


def test_an_old_print_that_does_not_count_holds_nothing() -> None:
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
    of_another_version = bytes([FORMAT + 1]) + encode(state)[1:]
    store.write(partition_of(key), "one", PriceWrite(2, {key: of_another_version}, {}, {}))
    answer = ask(store, TOKEN, QUIET, Token("base", "0x1"), other)
    assert answer.statuses == ["ok", "unreadable", "unknown_token", "ok"]
    assert answer.message.startswith("2 of 4 tokens have no price: ")
    assert "1 stored by another version of Headwater" in answer.message
