"""The options of an ingest, from flags or from an entry of the `--ingests` file."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeVar

import httpx2
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError

from headwater.errors import SetupError

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def _valid_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a name begins with a lower-case letter or a digit, and has at most 63 lower-case letters, digits, "
            "dots, hyphens and underscores"
        )
    return name


class IngestOptions(BaseModel):
    """Base of the options of each kind of ingest.

    Only one process at a time can run an ingest of a given name: a later process fences the earlier one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, AfterValidator(_valid_name)]
    chain: str
    metrics_port: int = Field(0, ge=0, le=65535)


def default_name(base: str, first: int | None, last: int | None) -> str:
    """Return the default name of an ingest.

    A range of blocks gets its own name, and so its own stored position.
    """
    return base if last is None else f"{base}-{first or 0}-{last}"


_VARIABLE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def _from_environment(value: Any) -> Any:
    match = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    if match[1] not in os.environ:
        raise ValueError(f"the environment variable {match[1]} is not set")
    return os.environ[match[1]]


def referenced_variables(given: Any) -> frozenset[str]:
    """Return the environment variables that options refer to as `$NAME`, at any depth."""
    if isinstance(given, str):
        return frozenset(match[1] for match in map(_VARIABLE.fullmatch, given.split()) if match)
    parts = given.values() if isinstance(given, Mapping) else given if isinstance(given, list) else ()
    return frozenset().union(*map(referenced_variables, parts))


def _has_scheme(*schemes: str) -> AfterValidator:
    """Return a validator for URLs with one of these schemes.

    Error messages don't contain the URL, because it may contain a key.
    """

    def check(url: SecretStr) -> SecretStr:
        if not url.get_secret_value().startswith(schemes):
            raise ValueError(f"must be a URL that begins with {' or '.join(schemes)}")
        try:
            host = httpx2.URL(url.get_secret_value()).host
        except httpx2.InvalidURL:
            host = ""
        if not host:
            raise ValueError("must be a URL")
        return url

    return AfterValidator(check)


def _split_urls(value: Any) -> Any:
    """Return the distinct URLs of a value.

    A value of another type is returned unchanged, for pydantic to reject.
    """
    items = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(item, str | SecretStr) for item in items):
        return value
    return list(dict.fromkeys(url for item in items for url in _urls(item)))


def _urls(item: str | SecretStr) -> Iterator[str]:
    """Yield the URLs of a text. A SecretStr was validated before, so it has no `$NAME`."""
    if isinstance(item, SecretStr):
        yield item.get_secret_value()
        return
    for word in item.split():
        yield from _from_environment(word).split()


FROM_ENVIRONMENT = BeforeValidator(_from_environment)
"""Replaces `$NAME` by an environment variable, so that no file needs to contain a key."""
HttpUrls = Annotated[
    tuple[Annotated[SecretStr, _has_scheme("http://", "https://")], ...],
    Field(min_length=1),
    BeforeValidator(_split_urls),
]
"""A list of texts, or one text.

A text is a list of URLs that are separated by spaces. `$NAME` is replaced by the URLs in an environment variable.
"""
HttpUrl = Annotated[SecretStr, FROM_ENVIRONMENT, _has_scheme("http://", "https://")]
WebSocketUrl = Annotated[SecretStr, FROM_ENVIRONMENT, _has_scheme("ws://", "wss://")]

_REPEATED_FLAGS: Final = {"entities": "entity", "coins": "coin"}
"""The flags of options that are lists. Such a flag is repeated for each item."""
_OPTION_NAME: Final = re.compile("`([a-z_]+)`")
"""The name of an option in the error message of a validator."""

_Options = TypeVar("_Options", bound=IngestOptions)


def read_options(model: type[_Options], given: Mapping[str, Any], entry: str = "") -> _Options:
    """Validate options from flags or from an entry of a file.

    `entry` is the name of the entry, and empty for flags. Raises SetupError for the first invalid option. The error
    does not contain the value, which may be a URL with a key.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first_error = error.errors(include_input=False)[0]
        fault, location = first_error["msg"].removeprefix("Value error, "), first_error["loc"]
        if not entry:
            fault = _OPTION_NAME.sub(lambda match: _flag(match[1]), fault)
        if not entry and not location:  # the message names the flags whose combination is not valid
            raise SetupError(f"{fault[:1].upper()}{fault[1:]}.") from None
        what = ".".join([entry, *map(str, location)]) if entry else _flag(str(location[0]))
        raise SetupError(f"{what} is not valid: {fault}.") from None


def _flag(option: str) -> str:
    """Return the command-line flag of an option."""
    return f"--{_REPEATED_FLAGS.get(option, option).replace('_', '-')}"
