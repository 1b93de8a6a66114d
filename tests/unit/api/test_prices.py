"""Requests for token prices."""

from headwater.model.price.codec import encode_state
from headwater.model.price.state import TokenState
from headwater.model.price.tick import TICKS_PARTITIONS, partition_of, token_key
from headwater.stores.protocols.prices import PriceWrite
from tests.unit.api.installation import Installation

STATS = "/api/v1/developer/prices/stats"


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
