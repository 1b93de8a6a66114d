"""An HTTP client of a running Headwater API, for commands."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import httpx2
import msgspec

from headwater.app.api_url import local_api_url
from headwater.app.data_directory import DataDirectory
from headwater.errors import SetupError
from headwater.services.prices import MAX_TOKENS
from headwater.settings import Settings

KEY_VARIABLE = "HEADWATER_API_KEY"
REQUEST_TIMEOUT_S = 70.0
"""The timeout of each request. A deploy takes up to the setting `deploy_timeout_s`, which is 55 s by default."""


class _Fault(msgspec.Struct):
    pointer: str
    detail: str


class _Problem(msgspec.Struct):
    """A problem document of the API.

    An error response without these members comes from another server.
    """

    type: str
    detail: str
    errors: list[_Fault] = []


_decode_problem = msgspec.json.Decoder(_Problem).decode


class ApiClient:
    """HTTP client of a running Headwater API. Error responses are raised as SetupError."""

    def __init__(self, settings: Settings, url: str) -> None:
        self._http = httpx2.Client(
            base_url=_parsed(url or local_api_url(settings)),
            headers={"X-API-Key": _key(settings)},
            timeout=REQUEST_TIMEOUT_S,
        )

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def create_or_update(self, body: Mapping[str, Any]) -> str:
        """Create a configuration, or update the configuration with the same name. Returns its id.

        In an existing configuration, only the description, the source's entity and the first script are changed.
        """
        stored = next((flow for flow in self._call("GET", "/api/v1/flow") if flow["name"] == body["name"]), None)
        if stored is None:
            return str(self._call("POST", "/api/v1/flow", body)["id"])
        if "unreadable" in stored:
            raise SetupError(f"The configuration {stored['id']} with this name can't be read: {stored['unreadable']}")
        new_config, config = body["pipeline_config"], stored["pipeline_config"]
        config["source"]["entity"] = new_config["source"]["entity"]
        scripts = [transform for transform in config["transforms"] if transform["type"] == "v8"]
        if not scripts:
            raise SetupError(f"The configuration {stored['id']} with this name no longer has a script: rename it.")
        scripts[0]["script"] = new_config["transforms"][0]["script"]
        self._call("PUT", f"/api/v1/flow/{stored['id']}", stored | {"description": body["description"]})
        return str(stored["id"])

    def deploy(self, config_id: str) -> None:
        """Deploy the newest revision of a configuration."""
        self._call("POST", f"/api/v1/flow/{config_id}/deploy")

    def priced_addresses(self, chain: str, addresses: Iterable[str]) -> set[str]:
        """Return the addresses of tokens that currently have a price."""
        tokens = [{"token_address": address, "chain": chain} for address in dict.fromkeys(addresses)]
        priced = set[str]()
        for first in range(0, len(tokens), MAX_TOKENS):
            response = self._call("POST", "/api/v1/developer/prices/stats", tokens[first : first + MAX_TOKENS])
            priced |= {item["mint"] for item in response["items"]}  # on all chains, `mint` is the token's address
        return priced

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        try:
            response = self._http.request(method, path, json=body)
        except httpx2.TransportError as error:
            url = self._http.base_url
            raise SetupError(f"The API at {url} does not answer: {error}. Start Headwater, or set --url.") from error
        if response.is_success and "json" in response.headers.get("content-type", ""):
            return response.json()
        try:
            problem = _decode_problem(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SetupError(
                f"The server at {self._http.base_url} is not a Headwater API (status {response.status_code}). "
                "Check --url."
            ) from error
        faults = "".join(f" {fault.pointer}: {fault.detail}." for fault in problem.errors)
        raise SetupError(f"{problem.detail}{faults}")


def _parsed(url: str) -> httpx2.URL:
    try:
        return httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise SetupError(f"{url} is not a URL: {error}. Set --url to the API's, like http://127.0.0.1:8080.") from error


def _key(settings: Settings) -> str:
    key = os.environ.get(KEY_VARIABLE) or _stored_key(settings)
    if not (key.isascii() and key.isprintable()):
        raise SetupError("The API key contains invalid characters. Copy it again.")
    return key


def _stored_key(settings: Settings) -> str:
    path = DataDirectory(settings.data_dir).api_key
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError as error:
        raise SetupError(f"No API key: set {KEY_VARIABLE}, or point --data-dir at an installation ({path}).") from error
