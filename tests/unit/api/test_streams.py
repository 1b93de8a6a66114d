"""The stream catalog: /api/v1/flow/streams."""

from typing import Any

from headwater.model.stream import CATALOG
from tests.unit.api.installation import FLOW, User


def test_lists_every_stream_with_an_example(alice: User) -> None:
    streams: list[dict[str, Any]] = alice.get(f"{FLOW}/streams").json()
    by_name = {(s["chain"], s["entity"]): s for s in streams}
    assert len(by_name) == len(streams) == sum(len(chain.entities) for chain in CATALOG)
    assert by_name["hyperliquid", "fill"]["type"] == "kafka"
    assert by_name["base", "log"]["type"] == "pubsub"
    assert {name for name, s in by_name.items() if s["has_zerolag"]} == {("base", "log")}
    assert all(s["event_time"] in s["example"] for s in streams)
