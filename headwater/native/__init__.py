"""The loops of the data plane that run once per record, in C, and how Python calls them.

`setup.py` compiles all `*.c` here into one library when the package is built or installed.
"""

from headwater.native.hashing import Bytes as Bytes
from headwater.native.hashing import Hashes as Hashes
from headwater.native.hashing import add_to_filter as add_to_filter
from headwater.native.hashing import decode_hex as decode_hex
from headwater.native.hashing import hash_rows as hash_rows
from headwater.native.hashing import look_into_filter as look_into_filter
from headwater.native.kafka import Header as Header
from headwater.native.kafka import SourcePositions as SourcePositions
from headwater.native.library import Column as Column
from headwater.native.library import blank_bytes as blank_bytes
from headwater.native.library import writable as writable
from headwater.native.lines import Survey as Survey
from headwater.native.lines import survey as survey
from headwater.native.members import Members as Members
from headwater.native.members import read_members as read_members
from headwater.native.texts import Texts as Texts
from headwater.native.texts import split_lines as split_lines
