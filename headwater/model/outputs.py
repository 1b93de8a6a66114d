"""Headers and limits of the outputs of a record, and the indexes of the outputs.

The outputs of a record are the records that a script makes from it.
"""

OUTPUT_ID_HEADER = "headwater-src"
"""The position of the source record of an output, and the index of the output."""
REVISION_HEADER = "headwater-cfg"
"""In a dead letter: the number of the revision that could not process the record."""
MAX_OUTPUTS_PER_RECORD = 1000
MAX_OUTPUT_BYTES = 1_000_000
"""The maximum size of the value of an output."""
MAX_TOTAL_OUTPUT_BYTES = 8_000_000
"""The maximum size of all outputs of one record together."""
MAX_RECORD_BYTES = 1_040_000
"""The maximum size of a record: of its key, value and headers. Topics allow 1,048,588 bytes, which include Kafka's
framing.
"""
_MODULUS = (1 << 61) - 1
"""A prime number. Consecutive indexes stay below it for up to 18 chained scripts; larger numbers wrap around."""
_SEQUENTIAL_OUTPUTS = 10
"""How many outputs of a record have consecutive indexes. The indexes of the other outputs are hashes."""
_HASHED_OUTPUTS = 1000
"""How many hashed indexes are reserved for each record. This is not MAX_OUTPUTS_PER_RECORD, because a change of that
limit must not change the indexes: consumers recognise repeated outputs by them.
"""
_EXPONENT = 19
"""The exponent of the hash. It is coprime to _MODULUS - 1, so different numbers have different hashes."""
_HASH_OFFSET = 1_152_921_504_606_846_883
"""This is added to a number before the hash, so that the hashes of small numbers cover the whole range too."""


def output_index(record_index: int, position: int) -> int:
    """Return the index of an output in the header `headwater-src`, a number below _MODULUS.

    Args:
        record_index: The index of the input record: 0 for a source record, else the index that the previous script gave
            the record.
        position: The position of the output among the outputs of the input record, from 0.
    """
    if position < _SEQUENTIAL_OUTPUTS:
        return (record_index * _SEQUENTIAL_OUTPUTS + position) % _MODULUS
    return pow(_HASH_OFFSET + record_index * _HASHED_OUTPUTS + position, _EXPONENT, _MODULUS)
