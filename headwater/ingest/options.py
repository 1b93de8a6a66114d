"""The options of an ingest, from command-line flags or from an entry of the file that `headwater up` reads."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import httpx2
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError

from headwater.errors import SetupError

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def _valid_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("a name has 1 to 63 lower-case letters, digits, dots, hyphens and underscores")
    return name


class IngestOptions(BaseModel):
    """Base of the options of each kind of ingest.

    Only one process at a time can run an ingest of a given name; a later one fences the earlier one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, AfterValidator(_valid_name)]
    chain: str
    metrics_port: int = Field(0, ge=0, le=65535)


def default_name(base: str, first: int | None, last: int | None) -> str:
    """Return the default name of an ingest. A range of blocks gets its own name, and so its own stored position."""
    return base if last is None else f"{base}-{first or 0}-{last}"


_VARIABLE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def _from_environment(value: Any) -> Any:
    match = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    if match[1] not in os.environ:
        raise ValueError(f"the environment variable {match[1]} is not set")
    return os.environ[match[1]]


def named_variables(given: Any) -> frozenset[str]:
    """Return the environment variables that options name as `$NAME`, at any depth of lists and objects."""
    if isinstance(given, str):
        match = _VARIABLE.fullmatch(given)
        return frozenset() if match is None else frozenset({match[1]})
    parts = given.values() if isinstance(given, Mapping) else given if isinstance(given, list) else ()
    return frozenset().union(*map(named_variables, parts))


def _of_scheme(*schemes: str) -> AfterValidator:
    """Validate the scheme of a URL. Error messages don't contain the URL, because it may contain a key."""

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
    """Split a value into URLs: a string may contain several URLs separated by spaces."""
    items = [value] if isinstance(value, str | SecretStr) else value
    if not isinstance(items, list | tuple):
        return value
    urls = [item.get_secret_value() if isinstance(item, SecretStr) else _from_environment(item) for item in items]
    return list(dict.fromkeys(url for each in urls for url in (each.split() if isinstance(each, str) else [each])))


FROM_ENVIRONMENT = BeforeValidator(_from_environment)
"""Replaces `$NAME` by an environment variable, so that no file needs to contain a key."""
HttpUrls = Annotated[
    tuple[Annotated[SecretStr, _of_scheme("http://", "https://")], ...],
    Field(min_length=1),
    BeforeValidator(_split_urls),
]
"""One or several URLs; each may be given as `$NAME`."""
HttpUrl = Annotated[SecretStr, FROM_ENVIRONMENT, _of_scheme("http://", "https://")]
WebSocketUrl = Annotated[SecretStr, FROM_ENVIRONMENT, _of_scheme("ws://", "wss://")]

_REPEATED: Final = {"entities": "entity", "coins": "coin"}
"""The flags of members that are lists; such a flag is given once for each item."""
_MEMBER: Final = re.compile("`([a-z_]+)`")
"""A member name in the error message of a validator."""

_Options = TypeVar("_Options", bound=IngestOptions)


def read_options(model: type[_Options], given: Mapping[str, Any], entry: str = "") -> _Options:
    """Validate options from flags or from an entry of a file.

    `entry` is the name of the entry; empty for flags. Raises SetupError for the first invalid option, without its
    value, which may be a URL with a key.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        fault = first["msg"].removeprefix("Value error, ")
        if not entry:
            fault = _MEMBER.sub(lambda match: _flag(match[1]), fault)
        if not entry and not first["loc"]:  # the message names the flags whose combination is not valid
            raise SetupError(f"{fault[:1].upper()}{fault[1:]}.") from None
        what = ".".join([entry, *map(str, first["loc"])]) if entry else _flag(str(first["loc"][0]))
        raise SetupError(f"{what} is not valid: {fault}.") from None


def _flag(member: str) -> str:
    """Return the command-line flag of a member."""
    return f"--{_REPEATED.get(member, member).replace('_', '-')}"
