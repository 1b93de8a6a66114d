"""Decodes JSON into models, in any number of threads.

msgspec prepares a type when it is used for the first time. If another thread uses the type meanwhile, the process
crashes (seen with msgspec 0.22.0). So this module prepares each type under a lock, before its first use.
"""

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_lock = threading.Lock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decode(text: bytes | str, model: type[T]) -> T:
    """Return JSON as a value of a type.

    Raises msgspec.DecodeError, also when the JSON has another type.

    >>> decode(b'{"amount": 123456789012345678901234567890}', dict)
    {'amount': 123456789012345678901234567890}
    """
    decoded: T = _decoder(model).decode(text)
    return decoded


def convert(document: Any, model: type[T]) -> T:
    """Return parsed JSON as a value of a type. Raises msgspec.ValidationError.

    >>> convert([1, 2], tuple)
    (1, 2)
    """
    _decoder(model)
    return msgspec.convert(document, model)


def _decoder(model: Any) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(model)
    if decoder is None:
        with _lock:
            decoder = _decoders.setdefault(model, msgspec.json.Decoder(model))
    return decoder
