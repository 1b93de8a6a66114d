"""The conversion of pipelines' records to ticks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.price.tick import MAX_AHEAD_MS, BadTick, decode_ticks, encode_tick, partition_of, token_key

NOW = 1_767_323_045_678
TICK = {
    "chain": "base",
    "token_address": "0xAbCd",
    "price_usd": 1.5,
    "timestamp": "2026-01-02T03:04:05.678Z",
    "decimals": 6,
    "volume_usd": 12,
    "block_number": 7,
    "log_index": 9,
}


def tick(**changes: Any) -> Any:
    """Return the tick as read from the topic, without members that are None."""
    record = {name: value for name, value in (TICK | changes).items() if value is not None}
    key, value = encode_tick(json.dumps(record).encode(), NOW)
    [folded] = decode_ticks([value])
    return key, folded


def test_a_tick_round_trips() -> None:
    assert tick() == (b"base:0xabcd", (NOW, 7 << 24 | 9, 1.5, 6, b""))


def test_numbers_as_strings() -> None:
    written = {"price_usd": "1.5", "decimals": "6", "block_number": "7", "log_index": "9", "timestamp": NOW}
    assert tick(**written) == tick()


@pytest.mark.parametrize("at", ["1767323045.678", 1767323045.678, "1767323045678", NOW, "2026-01-02 03:04:05.678"])
def test_times(at: Any) -> None:
    assert tick(timestamp=at) == tick()


@pytest.mark.parametrize("text", ["1.5", "+1.5", "1.50", "15e-1", "0.15E+1", "01.5"])
def test_decimal_strings(text: str) -> None:
    assert tick(price_usd=text) == tick()


@pytest.mark.parametrize("at", ["123456789", 123456789, "2026-01-02", "2026-01-02T03:04:05+09:00"])
def test_times_of_any_age(at: Any) -> None:
    assert tick(timestamp=at)[1][0] < NOW


def test_without_a_place_in_a_block() -> None:
    assert tick(block_number=None, log_index=None)[1][1] == 0


def test_other_addresses_keep_their_case() -> None:
    key, folded = tick(chain="Solana", token_address="So11111111111111111111111111111111111111112")
    assert key == b"solana:so11111111111111111111111111111111111111112"
    assert folded[4] == b"So11111111111111111111111111111111111111112"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"price_usd": None}, "price_usd"),
        ({"price_usd": 0}, "price_usd"),
        ({"price_usd": -1}, "price_usd"),
        ({"price_usd": "NaN"}, "price_usd"),
        ({"price_usd": "inf"}, "price_usd"),
        ({"price_usd": "abc"}, "price_usd"),
        ({"price_usd": True}, "price_usd"),
        ({"price_usd": "1_000"}, "price_usd"),
        ({"price_usd": "\u0661\u0662"}, "price_usd"),
        ({"price_usd": " 1"}, "price_usd"),
        ({"price_usd": "0x1"}, "price_usd"),
        ({"price_usd": "1e999"}, "price_usd"),
        ({"price_usd": [1]}, "price_usd"),
        ({"price_usd": 10**400}, "price_usd"),
        ({"decimals": None}, "decimals"),
        ({"decimals": -1}, "decimals"),
        ({"decimals": 256}, "decimals"),
        ({"decimals": 1.5}, "decimals"),
        ({"timestamp": None}, "timestamp"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"timestamp": -5}, "timestamp"),
        ({"timestamp": "20260102"}, "timestamp"),
        ({"timestamp": 20260102}, "timestamp"),
        ({"timestamp": "1_767_323_045"}, "timestamp"),
        ({"timestamp": "\u0661\u0667\u0666\u0667\u0663\u0662\u0663\u0660\u0664\u0665"}, "timestamp"),
        ({"timestamp": "9" * 400}, "timestamp"),
        ({"timestamp": 10**400}, "timestamp"),
        ({"timestamp": NOW + MAX_AHEAD_MS + 1}, "ahead"),
        ({"chain": None}, "chain"),
        ({"chain": 5}, "chain"),
        ({"chain": ""}, "chain"),
        ({"chain": "a:b"}, "colon"),
        ({"token_address": "x" * 201}, "token_address"),
        ({"token_address": "a\nb"}, "token_address"),
        ({"block_number": -1}, "block_number"),
        ({"block_number": 1 << 40}, "block_number"),
        ({"block_number": 0.5}, "block_number"),
        ({"block_number": True}, "block_number"),
        ({"log_index": True}, "log_index"),
        ({"log_index": "many"}, "log_index"),
        ({"log_index": "1_0"}, "log_index"),
        ({"block_number": "7\n"}, "block_number"),
        ({"decimals": "\u0666"}, "decimals"),
    ],
)
def test_the_error_says_what_is_wrong_with_a_tick(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(BadTick, match=word) as raised:
        tick(**changes)
    assert raised.value.error == "BadTick"


@pytest.mark.parametrize("value", [None, b"", b"{", b"[1]", b'"x"', b"\xff", b"[" * 100_000])
def test_values_that_are_not_objects(value: bytes | None) -> None:
    with pytest.raises(BadTick) as raised:
        encode_tick(value, NOW)
    assert raised.value.error == "InvalidJSON"


@given(st.text(max_size=30), st.text(max_size=50), st.floats() | st.integers() | st.text(max_size=5))
def test_any_record_is_a_tick_or_bad(chain: str, address: str, number: float | str) -> None:
    record = TICK | {"chain": chain, "token_address": address, "timestamp": number, "log_index": number}
    try:
        key, value = encode_tick(json.dumps(record).encode(), NOW)
    except BadTick:
        return
    [folded] = decode_ticks([value])
    assert key == token_key(chain, address).encode()
    assert (folded[4].decode() or address.lower()).lower() == address.lower()


def test_a_token_has_one_partition() -> None:
    assert partition_of(token_key("Base", "0xAB").encode()) == partition_of(token_key("base", "0xab").encode())


def test_many_ticks_together_equal_single_ones() -> None:
    plain, long = (encode_tick(json.dumps(TICK | {"token_address": one}).encode(), NOW)[1] for one in ("0xab", "So1"))
    for values in ([plain, plain], [plain, long], [long, long]):
        assert [*decode_ticks(values)] == [tick for value in values for tick in decode_ticks([value])]
