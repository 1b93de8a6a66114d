"""Where the server is, and which API key to send.

Arguments come first, then the variables `HEADWATER_URL` and `HEADWATER_KEY`, then a profile of
`~/.config/headwater/config.toml`:

    profile = "local"

    [profiles.local]
    url = "http://127.0.0.1:8080"
    key = "hw_live_..."

    [profiles.office]
    url = "https://headwater.example.com"
    key_file = "~/.config/headwater/office.key"

A local server needs none of it in the folder in which `headwater up` runs: its key is in `.headwater/api-key`.
"""

import os
import ssl
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headwater_client.errors import ConfigurationError

DEFAULT_URL = "http://127.0.0.1:8080"
LOCAL_KEY = Path(".headwater", "api-key")
"""Where `headwater up` writes its API key."""
LOCAL_HOSTS = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True)
class Connection:
    """The address of a server, and the API key for it."""

    url: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Profile:
    """A named server in the configuration file."""

    name: str
    url: str
    key: str = field(default="", repr=False)


def config_file() -> Path:
    """Return the path of the file with the profiles."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder, "headwater", "config.toml")


def verification(url: str) -> ssl.SSLContext | bool:
    """Return how the HTTP client verifies the certificate of a server.

    True stands for the CA certificates of the system. An http URL needs none of them, and loading them takes a tenth of
    the CPU time of a short command. So its client gets a context without CA certificates, which would accept no
    certificate.
    """
    return True if url.startswith("https://") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def find_connection(url: str | None = None, key: str | None = None, profile: str | None = None) -> Connection:
    """Return the connection that the arguments, the environment and the profiles describe.

    The key of a profile is sent to the URL of this profile alone, and the key of the installation in this folder to
    this machine alone. Raises ConfigurationError.

    >>> find_connection("http://127.0.0.1:8080/", "hw_live_x").url
    'http://127.0.0.1:8080'
    """
    named = profile or os.environ.get("HEADWATER_PROFILE")
    if profile is None:
        url = url or os.environ.get("HEADWATER_URL")
        key = key or os.environ.get("HEADWATER_KEY")
    chosen = None if url and key else _find_profile(named)
    address = (url or (chosen.url if chosen else DEFAULT_URL)).rstrip("/")
    if not address.startswith(("http://", "https://")):
        raise ConfigurationError(f"The URL {address!r} does not begin with http:// or https://.")
    if not key and chosen and chosen.url.rstrip("/") == address:
        key = chosen.key
    if not key and not named:
        key = _local_key(address)
    if not key:
        raise ConfigurationError(
            f"There is no API key for {address}. Pass key=, set HEADWATER_KEY, write a profile into {config_file()}, "
            "or work in the folder in which `headwater up` runs."
        )
    return Connection(address, key.strip())


def _local_key(address: str) -> str:
    """Return the API key of the installation in this folder.

    The key is empty when the address is on another machine.
    """
    if urlsplit(address).hostname not in LOCAL_HOSTS:
        return ""
    try:
        return LOCAL_KEY.read_text("utf-8").strip()
    except OSError:
        return ""


def _find_profile(name: str | None) -> Profile | None:
    """Return the profile with this name, or else the default one; None when there is no file."""
    path = config_file()
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if name:
            raise ConfigurationError(f"There is no profile {name!r}, because there is no file {path}.") from None
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} can't be read: {error}.") from error
    profiles = document.get("profiles", {})
    name = name or document.get("profile", "default")
    if name not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise ConfigurationError(f"{path} has no profile {name!r}. It has: {known}.")
    return _profile(name, profiles[name], path)


def _profile(name: str, members: Mapping[str, Any], path: Path) -> Profile:
    key = members.get("key", "")
    try:
        if not key and "key_file" in members:
            key = Path(members["key_file"]).expanduser().read_text("utf-8").strip()
        return Profile(name, members["url"], key)
    except KeyError:
        raise ConfigurationError(f"The profile {name!r} in {path} has no url.") from None
    except OSError as error:
        raise ConfigurationError(f"The key_file of the profile {name!r} in {path} can't be read: {error}.") from error
