"""The client's address is read from the right of the header, through trusted proxies only."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.api.server.client_addresses import TrustedProxies, client_prefix
from tests.examples import examples

PROXIES = TrustedProxies(["127.0.0.1", "10.0.0.0/8", "2001:db8:ff::/48"])
TRUSTED = st.integers(1, 2**24 - 2).map(lambda n: str(IPv4Address((10 << 24) + n)))
STRANGE = st.integers(1, 2**16).map(lambda n: str(IPv4Address((203 << 24) + n)))


@pytest.mark.parametrize(
    ("peer", "fields", "client"),
    [
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", ["198.51.100.1, 203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", ["203.0.113.7, 10.1.2.3"], "203.0.113.7"),
        ("127.0.0.1", ["203.0.113.7", "10.1.2.3"], "203.0.113.7"),
        ("127.0.0.1", ["10.9.9.9,10.1.2.3"], "10.9.9.9"),
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("127.0.0.1", ["203.0.113.7:4711"], "203.0.113.7"),
        ("127.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("127.0.0.1", ["2001:db8::1"], "2001:db8::1"),
        ("127.0.0.1", ["::ffff:203.0.113.7"], "203.0.113.7"),
        ("::ffff:127.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", ["203.0.113.7, unknown"], "127.0.0.1"),
        ("127.0.0.1", ["203.0.113.7, "], "127.0.0.1"),
        ("2001:db8:ff::1", ["203.0.113.7"], "203.0.113.7"),
        ("", ["203.0.113.7"], ""),
    ],
)
def test_the_clients_address(peer: str, fields: list[str], client: str) -> None:
    assert PROXIES.client(peer, fields) == client


@settings(max_examples=examples(50))
@given(st.lists(st.one_of(STRANGE, TRUSTED, st.text(max_size=8))), STRANGE, st.lists(TRUSTED))
def test_addresses_written_by_the_client_are_ignored(forged: list[str], client: str, hops: list[str]) -> None:
    written = ",".join([*forged, client, *hops])
    assert PROXIES.client("127.0.0.1", [written]) == client


def test_invalid_networks_are_rejected() -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        TrustedProxies(["proxy.internal"])


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_addresses_of_one_ipv6_subscriber_count_as_one(network: int, one: int, other: int) -> None:
    high = (0x2001 << 112) | (network >> 16 << 64)
    assert client_prefix(str(IPv6Address(high | one))) == client_prefix(str(IPv6Address(high | other)))


def test_an_ipv4_address_counts_as_itself() -> None:
    assert client_prefix("203.0.113.7") == client_prefix("::ffff:203.0.113.7") == "203.0.113.7"
    assert client_prefix("203.0.113.8") != client_prefix("203.0.113.7")
