"""The outputs of a record: how large they may be, how many, and how they are numbered."""

MAX_OUTPUTS_PER_RECORD = 1000
MAX_OUTPUT_BYTES = 1_000_000
MAX_OUTPUTS_BYTES = 8_000_000
"""The maximum size of all outputs of one record together."""
MAX_RECORD_BYTES = 1_040_000
"""The maximum size of key, value and headers together. The topics allow 1,048,588 bytes with Kafka's framing."""
_MODULUS = (1 << 61) - 1
"""A prime modulus. The output numbers of up to 18 chained scripts stay below it; with more scripts they wrap around."""
_SEQUENTIAL_OUTPUTS = 10
_HASHED_OUTPUTS = 1000
"""A constant of its own, and not MAX_OUTPUTS_PER_RECORD: if that limit were raised, the same outputs would get other
numbers, and consumers could not recognise repeated outputs.
"""
_EXPONENT = 19
"""It is coprime to _MODULUS - 1, so different numbers have different powers."""
_HASH_OFFSET = 1_152_921_504_606_846_883
"""The offset of the hashed outputs, so that even small numbers are spread over the whole range."""


def output_index(record: int, position: int) -> int:
    """Return the index of an output in the header `headwater-src`.

    record: the index of the input record. position: the position of the output among the outputs of the record.
    The first ten outputs of a record have consecutive numbers. Later outputs have hashed numbers below _MODULUS.
    """
    if position < _SEQUENTIAL_OUTPUTS:
        return (record * _SEQUENTIAL_OUTPUTS + position) % _MODULUS
    return pow(_HASH_OFFSET + record * _HASHED_OUTPUTS + position, _EXPONENT, _MODULUS)
