"""What the options of all kinds of ingest have in common."""

from headwater.ingest.options import default_name


def test_a_range_has_a_name_of_its_own() -> None:
    assert default_name("solana", None, None) == default_name("solana", 7, None) == "solana"
    assert default_name("evm-base", 7, 9) == "evm-base-7-9"


def test_a_range_that_begins_nowhere_has_a_valid_name() -> None:
    """So it is refused for what is wrong with it."""
    assert default_name("solana", None, 9) == "solana-0-9"
