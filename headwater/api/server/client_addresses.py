"""Finds the address of the client that has sent a request, also behind trusted proxies."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

IPV6_PREFIX = 64
"""The length of the prefix that limits count as one client: an IPv6 subscriber has a whole /64."""

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network


class TrustedProxies:
    """Networks of proxies whose `X-Forwarded-For` is trusted.

    Raises ValueError for text that is not a network.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks: tuple[IpNetwork, ...] = tuple(ip_network(text) for text in networks)

    def trusts(self, peer: str) -> bool:
        """Whether a peer is one of the proxies."""
        address = parse_ip(peer)
        return address is not None and any(address in network for network in self._networks)

    def client(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return the client's address.

        The fields are read from the right, where the nearest proxy has written. Reading ends at the first address that
        is not a trusted proxy, because the addresses to its left may be forged. Reading also ends before text that is
        not an address; the last trusted proxy then counts as the client.

        Args:
            peer: The address of the other end of the connection.
            forwarded: The values of all `X-Forwarded-For` fields, in order.
        """
        client = peer
        hops = [hop.strip() for field in forwarded for hop in field.split(",")]
        while hops and self.trusts(client):
            address = parse_ip(_without_port(hops.pop()))
            if address is None:
                break
            client = str(address)
        return client


def parse_ip(text: str) -> IpAddress | None:
    """Return the IP address in a text; None when the text is not an address.

    An IPv4-mapped IPv6 address is returned as IPv4 address.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def client_prefix(text: str) -> str:
    """Return the address or prefix by which limits count a client.

    It is the IPv4 address, or the /64 prefix of the IPv6 address.
    """
    address = parse_ip(text)
    if isinstance(address, IPv6Address):
        return str(ip_network((int(address) >> IPV6_PREFIX << IPV6_PREFIX, IPV6_PREFIX)))
    return str(address) if address else text


def _without_port(hop: str) -> str:
    """Return the address without a port: some proxies write `1.2.3.4:5678` and `[::1]:5678`."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    host, _, port = hop.partition(":")
    return host if port.isdecimal() and "." in host else hop
