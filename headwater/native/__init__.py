"""The loops over records and values in C, and the functions by which Python calls them.

`setup.py` compiles all `*.c` files of this folder into one library when the package is built or installed.
"""

from headwater.native.bloom_filter import bloom_add as bloom_add
from headwater.native.bloom_filter import bloom_contains as bloom_contains
from headwater.native.bytes_column import BytesColumn as BytesColumn
from headwater.native.bytes_column import split_lines as split_lines
from headwater.native.ffi import Column as Column
from headwater.native.ffi import uninitialized_bytes as uninitialized_bytes
from headwater.native.ffi import writable_view as writable_view
from headwater.native.json_field import JsonFieldValues as JsonFieldValues
from headwater.native.json_field import read_json_field as read_json_field
from headwater.native.librdkafka import HeaderColumn as HeaderColumn
from headwater.native.librdkafka import OutputIdColumn as OutputIdColumn
from headwater.native.long_integers import LongIntegerScan as LongIntegerScan
from headwater.native.long_integers import find_long_integers as find_long_integers
from headwater.native.value_hashing import Uint8Array as Uint8Array
from headwater.native.value_hashing import Uint64Array as Uint64Array
from headwater.native.value_hashing import decode_hex as decode_hex
from headwater.native.value_hashing import hash_rows as hash_rows
