"""Members of records that are JSON."""

from typing import NamedTuple

from headwater.native.library import FFI, blank_bytes, blank_column, kernel, pointer, pointer_to_bytes
from headwater.native.texts import Texts


class Members(NamedTuple):
    """texts: by row, in lower case; "" for none. doubtful: the rows that have to be read in another way."""

    texts: list[str]
    doubtful: list[int]


def read_members(records: Texts, name: bytes, most: int, *, strings_only: bool, ascii_only: bool = False) -> Members:
    """What the last member of a name has in it: of a string the characters, of a number or boolean its JSON text.

    "" without one, for null, and for more than `most` characters. What is not doubtful is a JSON object, if UTF-8.
    Doubtful are others, and records where an escape, a letter beyond ASCII, an array, an object or, with strings_only,
    a number or boolean has to be looked into; with ascii_only, all with a letter beyond ASCII anywhere.
    """
    out, doubtful, doubts = blank_bytes(len(records.text)), blank_column("i", len(records)), FFI.new("int64_t *")
    written: int = kernel().read_members(
        records.text,
        len(records.text),
        pointer(records.sizes),
        len(records),
        name,
        len(name),
        strings_only,
        ascii_only,
        most,
        pointer_to_bytes(out),
        pointer(doubtful),
        doubts,
    )
    return Members(out[:written].decode().split("\n")[:-1], doubtful[: doubts[0]].tolist())
