"""Options that all kinds of ingests share."""

from typing import Any

import pytest

from headwater.errors import SetupError
from headwater.ingest.hyperliquid.options import HyperliquidOptions
from headwater.ingest.options import default_name, read_options


def test_a_range_has_its_own_name() -> None:
    assert default_name("solana", None, None) == default_name("solana", 7, None) == "solana"
    assert default_name("evm-base", 7, 9) == "evm-base-7-9"


def test_a_range_that_begins_nowhere_has_a_valid_name() -> None:
    """So the error is about the range."""
    assert default_name("solana", None, 9) == "solana-0-9"


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({}, r"^Name one source: --node-data \(a node's folder\) or --ws \(a WebSocket API\)\.$"),
        (
            {"ws": "wss://x", "entities": ["fill"]},
            "^Over --ws an ingest reads trade or block; the other entities need --n",
        ),
        ({"ws": "wss://x", "from_start": True}, "--from-start needs --node-data"),
        ({"node_data": "x", "coins": ["BTC"]}, "--coin is for --ws alone"),
        ({"node_data": "x", "entities": ["log"]}, "^--entity is not valid"),
        ({"node_data": "x", "metrics_port": -1}, "^--metrics-port is not valid"),
        ({"node_data": "x", "name": "-x"}, "^--name is not valid: a name begins with a lower-case letter or a digit"),
    ],
)
def test_flags_are_named_as_they_are_typed(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(SetupError, match=fault):
        read_options(HyperliquidOptions, {"name": "mine", **given})
