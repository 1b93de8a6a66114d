"""Composition of `headwater prices enable` and `headwater tokens import`: a client of a running API."""

import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from headwater.app.home import Home
from headwater.errors import SetupError
from headwater.ingest.files import read_lines
from headwater.services.prices import MAX_TOKENS
from headwater.services.recipes import tokens as token_lists
from headwater.services.recipes.pools import ListedToken
from headwater.services.recipes.tokens import Tokens
from headwater.settings import Settings

KEY_VARIABLE = "HEADWATER_API_KEY"
DEPLOY_WITHIN_S = 70.0


class Api:
    """A running Headwater. Raises SetupError for what it refuses."""

    def __init__(self, settings: Settings, url: str) -> None:
        self._http = httpx.Client(
            base_url=_address(url or f"http://{settings.host}:{settings.port}"),
            headers={"X-API-Key": _key(settings)},
            timeout=DEPLOY_WITHIN_S,
        )

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def put(self, body: Mapping[str, Any]) -> str:
        """Create the configuration, or change the one of this name; its id.

        Of one that is there only the description, the source's entity and the first script change.
        """
        flows = self._call("GET", "/api/v1/flow")
        known = next((flow for flow in flows if flow["name"] == body["name"]), None)
        if known is None:
            return str(self._call("POST", "/api/v1/flow", body)["id"])
        if "unreadable" in known:
            raise SetupError(f"The configuration {known['id']} of this name can't be read: {known['unreadable']}")
        new, kept = body["pipeline_config"], known["pipeline_config"]
        kept["source"]["entity"] = new["source"]["entity"]
        scripts = [transform for transform in kept["transforms"] if transform["type"] == "v8"]
        if not scripts:
            raise SetupError(f"The configuration {known['id']} of this name has no script any more: rename it.")
        scripts[0]["script"] = new["transforms"][0]["script"]
        self._call("PUT", f"/api/v1/flow/{known['id']}", known | {"description": body["description"]})
        return str(known["id"])

    def deploy(self, flow_id: str) -> None:
        """Deploy it."""
        self._call("POST", f"/api/v1/flow/{flow_id}/deploy")

    def priced(self, chain: str, addresses: Iterable[str]) -> set[str]:
        """Those tokens that have a price now."""
        asked = [{"token_address": address, "chain": chain} for address in dict.fromkeys(addresses)]
        found = set[str]()
        for first in range(0, len(asked), MAX_TOKENS):
            answer = self._call("POST", "/api/v1/developer/prices/stats", asked[first : first + MAX_TOKENS])
            found |= {item["mint"] for item in answer["items"]}
        return found

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        try:
            answer = self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            where = self._http.base_url
            raise SetupError(f"No Headwater answers at {where}: {error}. Start it, or name its --url.") from error
        if "json" not in answer.headers.get("content-type", ""):
            raise SetupError(f"What answers at {self._http.base_url} is no Headwater (status {answer.status_code}).")
        if answer.is_success:
            return answer.json()
        problem = answer.json()
        faults = "".join(f" {fault['pointer']}: {fault['detail']}." for fault in problem.get("errors", []))
        raise SetupError(f"{problem['detail']}{faults}")


def _address(url: str) -> httpx.URL:
    try:
        return httpx.URL(url)
    except httpx.InvalidURL as error:
        raise SetupError(f"{url} is no URL: {error}. Name the API's by --url, like http://127.0.0.1:8080.") from error


def _key(settings: Settings) -> str:
    key = os.environ.get(KEY_VARIABLE) or _stored_key(settings)
    if not (key.isascii() and key.isprintable()):
        raise SetupError("The API key has characters that no key has: copy it anew.")
    return key


def _stored_key(settings: Settings) -> str:
    path = Home(settings.data_dir).api_key
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError as error:
        raise SetupError(f"No API key: set {KEY_VARIABLE}, or point --data-dir at a Headwater ({path}).") from error


def read_tokens(settings: Settings) -> Tokens:
    """The tokens that were imported."""
    path = Home(settings.data_dir).tokens
    return token_lists.decode(path.read_bytes()) if path.exists() else {}


def add_tokens(settings: Settings, files: Iterable[Path]) -> Mapping[str, Mapping[str, ListedToken]]:
    """Add the tokens of some lists, later ones in place of earlier ones; all that are known then."""
    tokens = read_tokens(settings)
    for file in files:
        for chain, found in token_lists.read_list(read_file(file)).items():
            tokens.setdefault(chain, {}).update(found)
    home = Home(settings.data_dir)
    home.create()
    new = home.tokens.with_suffix(".new")
    new.write_bytes(token_lists.encode(tokens))
    new.replace(home.tokens)
    return tokens


def read_file(file: Path) -> bytes:
    """The text of a file, unpacked, without a byte order mark. Raises SetupError when it can't be read."""
    return b"\n".join(read_text_lines(file))


def read_text_lines(file: Path) -> Iterator[bytes]:
    """The non-empty lines of a file, unpacked, without a byte order mark. Raises SetupError when it can't be read."""
    for number, line in enumerate(read_lines(file)):
        yield line if number else line.removeprefix(BOM_UTF8)
