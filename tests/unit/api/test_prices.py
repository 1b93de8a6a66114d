"""Requests for token prices."""

from headwater.model.price.codec import encode_state
from headwater.model.price.state import TokenState
from headwater.model.price.tick import TICKS_PARTITIONS, partition_of, token_key
from headwater.stores.protocols.prices import LIST_PERIOD_S, PriceWrite
from tests.unit.api.installation import Installation

PRICES = "/api/v1/developer/prices"
STATS = f"{PRICES}/stats"


def test_a_truncated_stored_state_does_not_fail_the_request(headwater: Installation) -> None:
    now = int(headwater.clock.now.timestamp() * 1000)
    state = TokenState()
    state.fold_all([(now, 0, 1.5, 6, b"")], now)
    whole, store = encode_state(state), headwater.prices
    store.acquire_partitions("one", "topic", range(TICKS_PARTITIONS))
    store.add_chains({"base"})
    for address, data in (("0xaa", whole), ("0xbb", whole[:-9])):
        key = token_key("base", address).encode()
        store.write(partition_of(key), "one", PriceWrite(1, {key: data}, {}, {}))
    alice = headwater.user("alice", ["prices:read"])
    answer = alice.post(STATS, [{"token_address": address, "chain": "base"} for address in ("0xbb", "0xaa")])
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert [one["mint"] for one in body["items"]] == ["0xaa"]
    assert [one["status"] for one in body["statuses"]] == ["unknown_token", "ok"]
    assert body["message"] == (
        "1 of 2 tokens have no price: 1 whose stored prices can't be read (the first: 0xbb on base)."
    )
    for path in ("history", "explain"):
        answer = alice.get(f"{PRICES}/{path}", params={"token_address": "0xbb", "chain": "base"})
        problem = alice.problem(answer, 409, "price-state-unreadable")
        assert problem["detail"].endswith("Use that version, or rebuild the prices.")


def test_a_history_and_an_explanation(headwater: Installation) -> None:
    now = int(headwater.clock.now.timestamp() * 1000)
    state = TokenState()
    minute = 60_000
    usual = [(now - at * minute, 0, 100.0, 6, b"") for at in range(1, 10)]
    state.fold_all([*usual, (now - 5 * minute, 1, 7e6, 6, b""), (now, 0, 9e6, 6, b"")], now)
    key = token_key("base", "0xaa").encode()
    headwater.prices.acquire_partitions("one", "topic", range(TICKS_PARTITIONS))
    headwater.prices.add_chains({"base"})
    headwater.prices.write(partition_of(key), "one", PriceWrite(1, {key: encode_state(state)}, {}, {}))
    alice, query = headwater.user("alice", ["prices:read"]), {"token_address": "0xAA", "chain": "base"}
    history = alice.get(f"{PRICES}/history", params=query).json()
    assert {point["price"] for point in history["points"]} == {100.0}
    body = alice.get(f"{PRICES}/explain", params=query).json()
    assert (body["status"], body["latest"]["price"], body["required_minutes"]) == ("held", 100.0, 3)
    assert body["windows"][0]["low"] == {"timestamp": body["latest"]["timestamp"], "price": 100.0}
    assert [(one["price"], one["status"]) for one in body["unaccepted"]] == [(9e6, "held"), (7e6, "rejected")]
    assert body["unaccepted"][1]["reason"] == (
        "Prices from 4,194,304 to 8,388,608 have trades in 1 of the minutes that count, and 3 are needed."
    )


def test_a_history_and_an_explanation_of_an_unknown_token(headwater: Installation) -> None:
    alice, query = headwater.user("alice", ["prices:read"]), {"token_address": "\0", "chain": "a:b"}
    assert alice.get(f"{PRICES}/history", params=query).json()["points"] == []
    body = alice.get(f"{PRICES}/explain", params=query).json()
    assert (body["status"], body["latest"], body["accepted"]) == ("unknown_chain", None, [])
    alice.faults(alice.get(f"{PRICES}/explain", params={"chain": "base"}))
    bob = headwater.user("bob", ["flow:read"])
    bob.problem(bob.get(f"{PRICES}/explain", params=query), 403, "forbidden")


def test_the_list_of_tokens(headwater: Installation) -> None:
    now = int(headwater.clock.now.timestamp() * 1000)
    state = TokenState()
    state.fold_all([(now - 500, 0, 1.5, 6, b"0xBb")], now)
    store, keys = headwater.prices, [token_key(*name).encode() for name in (("base", "0xaa"), ("base", "0xBb"))]
    store.acquire_partitions("one", "topic", range(TICKS_PARTITIONS))
    store.add_chains({"base", "solana"})
    store.add_tokens([*keys, b"solana:0xbc"], now // 1000 // LIST_PERIOD_S)
    store.write(partition_of(keys[1]), "one", PriceWrite(1, {keys[1]: encode_state(state)}, {}, {}))
    alice = headwater.user("alice", ["prices:read"])

    def listed(**query: object) -> list[tuple[str, str, str]]:
        rows, cursor = [], None
        while True:
            page = {**query} if cursor is None else {**query, "cursor": cursor}
            body = alice.get(f"{PRICES}/tokens", params=page).json()
            rows += [(item["chain"], item["token_address"], item["status"]) for item in body["items"]]
            cursor = body["cursor"]
            if cursor is None:
                return rows

    aa, bb, bc = ("base", "0xaa", "unknown_token"), ("base", "0xBb", "ok"), ("solana", "0xbc", "unknown_token")
    assert listed() == listed(limit=1) == listed(limit=2) == [aa, bb, bc]
    assert listed(q="0xB") == listed(q="0xb", limit=1) == [bb, bc]
    assert listed(q="base") == listed(q="BASE:0x") == [aa, bb]
    assert listed(q="x") == []
    alice.faults(alice.get(f"{PRICES}/tokens", params={"cursor": "x"}))
