"""The web console, whose files the build writes into the package."""

import re
import secrets
from http import HTTPStatus
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from headwater.api.problems import NO_SUCH_PATH
from headwater.errors import NotFound

PATH = "/console"
FILES = Path(__file__).with_name("console_files")
NONCE = "__NONCE__"
"""The text in the page that each response replaces by a new nonce."""
POLICY = "default-src 'self'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; frame-ancestors 'none'"
NOT_BUILT = "This installation has no console. In a checkout, `make setup` builds it."
COMMON_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
ASSET_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding", **COMMON_HEADERS}
ASSET_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}

router = APIRouter(include_in_schema=False)


@router.get("/")
async def root(request: Request) -> Response:
    """Sends browsers to the console. Other clients get the problem of an unknown path."""
    if "text/html" not in request.headers.get("accept", ""):
        raise NotFound(NO_SUCH_PATH)
    return RedirectResponse(f"{PATH}/")


@router.get(PATH)
async def without_slash() -> Response:
    """Sends clients to the address with a slash at its end."""
    return RedirectResponse(f"{PATH}/")


class Console:
    """Serves the page at every path of the console, and the files that the page loads.

    The names of these files contain their hashes, so browsers keep them.
    """

    def __init__(self, files: Path) -> None:
        self._page = files / "index.html"
        self._assets = files / "assets"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, HEAD"})
        path = scope["path"].removeprefix(scope["root_path"])
        await self._response(Request(scope), path)(scope, receive, send)

    def _response(self, request: Request, path: str) -> Response:
        if not self._page.exists():
            raise NotFound(NOT_BUILT)
        folder, _, name = path.rpartition("/")
        if folder == "/assets":
            return self._asset(request, name)
        nonce = secrets.token_urlsafe(16)
        headers = {"Content-Security-Policy": POLICY.format(nonce=nonce), "Cache-Control": "no-store", **COMMON_HEADERS}
        return HTMLResponse(self._page.read_text("utf-8").replace(NONCE, nonce), headers=headers)

    def _asset(self, request: Request, name: str) -> Response:
        path = self._assets / name
        if not ASSET_NAME.fullmatch(name) or not path.is_file():
            raise NotFound(NO_SUCH_PATH)
        headers = dict(ASSET_HEADERS)
        compressed = self._assets / f"{name}.gz"
        if "gzip" in request.headers.get("accept-encoding", "") and compressed.is_file():
            path, headers["Content-Encoding"] = compressed, "gzip"
        return FileResponse(path, headers=headers, media_type=MEDIA_TYPES.get(Path(name).suffix))


def add_console(app: FastAPI) -> None:
    """Serve the console at PATH."""
    app.mount(PATH, Console(FILES))
