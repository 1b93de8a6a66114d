"""The form of addresses."""


def as_on_chain(address: str) -> str:
    """Return an address as records have it: a hexadecimal address in lower case, any other address unchanged."""
    return address.lower() if address[:2] in ("0x", "0X") else address
