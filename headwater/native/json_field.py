"""Reads one field of many JSON records.

A JSON library would parse each record and make Python objects of it. This scan in C makes one array for a whole batch.
"""

from typing import NamedTuple

from headwater.native.bytes_column import BytesColumn
from headwater.native.ffi import FFI, native_library, pointer, pointer_to_bytes, uninitialized_bytes, zeroed_column


class JsonFieldValues(NamedTuple):
    """The values of one field.

    Attributes:
        values: The value of the field in each record, in lower case; "" if the record has no value.
        unparsed_rows: The rows whose value is not known. The caller must parse these records in full.
    """

    values: list[str]
    unparsed_rows: list[int]


def read_json_field(
    records: BytesColumn, name: bytes, max_chars: int, *, strings_only: bool, skip_non_ascii: bool = False
) -> JsonFieldValues:
    """Read from each record the last field whose name is `name`.

    The value is the characters of a string, or the JSON text of another scalar. The value is "" when the field is
    missing, is null, or has more than `max_chars` characters.

    A row is unparsed when
    - the record is not a JSON object,
    - the record contains arrays or objects that are nested more than 64 deep (MAX_DEPTH in json_field.c),
    - the value is an array or an object, or with `strings_only` a number or a boolean,
    - the value, or the name of any field of the object, contains an escape,
    - the value contains a byte beyond ASCII,
    - with `skip_non_ascii`, any byte of the record is beyond ASCII.

    Every other record is a JSON object, whose UTF-8 is not checked.
    """
    out, unparsed_rows = uninitialized_bytes(len(records.buffer)), zeroed_column("i", len(records))
    unparsed_count = FFI.new("int64_t *")
    written: int = native_library().read_json_field(
        records.buffer,
        len(records.buffer),
        pointer(records.sizes),
        len(records),
        name,
        len(name),
        strings_only,
        skip_non_ascii,
        max_chars,
        pointer_to_bytes(out),
        pointer(unparsed_rows),
        unparsed_count,
    )
    return JsonFieldValues(out[:written].decode().split("\n")[:-1], unparsed_rows[: unparsed_count[0]].tolist())
