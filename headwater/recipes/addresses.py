"""The form of addresses."""


def as_in_records(address: str) -> str:
    """Return an address in the form that it has in records.

    A hexadecimal address is in lower case there; any other address is unchanged.
    """
    return address.lower() if address[:2] in ("0x", "0X") else address
