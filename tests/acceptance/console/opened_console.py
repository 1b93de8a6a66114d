"""The console in a browser, as a user sees it."""

from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
from playwright.sync_api import ConsoleMessage, Page, Request, expect

from tests.acceptance.installation import Installation

AXE = Path(__file__).parents[3] / "console" / "node_modules" / "axe-core" / "axe.min.js"
SERIOUS = """
axe.run().then(({ violations }) => violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)} ${nodes[0].failureSummary}`))
"""
TRANSITIONS_HAVE_ENDED = """
() => Promise.all(document.getAnimations()
  .filter((animation) => animation instanceof CSSTransition)
  .map((transition) => transition.finished.then(() => null, () => null)))
"""
EXPECTED_STATUSES = ("401", "403", "404", "409", "412", "422", "429", "503")
"""The browser logs each response with an error status; the console shows the error to the user."""


class Console:
    """The console of an installation in one page of a browser.

    Attributes:
        client: An HTTP client with the key of the user.
        errors: What the browser has reported: exceptions, and violations of the page's policy.
        other_hosts: The hosts to which the page has sent requests, without its own.
        may_lose_service: Whether requests may fail, because the test stops the service.
    """

    def __init__(self, page: Page, installation: Installation, key: str) -> None:
        self.page = page
        self.client: httpx2.Client = installation.client(key)
        self.errors: list[str] = []
        self.other_hosts: set[str] = set()
        self.may_lose_service = False
        self._installation = installation
        self._key = key
        self._has_written = False
        self._watch(page)

    def _watch(self, page: Page) -> None:
        page.on("console", self._on_message)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._on_request)

    def sign_in(self) -> None:
        """Enter the key."""
        self.page.goto(f"{self._installation.url}/")
        self.page.get_by_label("API key").fill(self._key)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("heading", name="Pipelines", exact=True)).to_be_visible()

    def open(self, path: str) -> None:
        """Open an address below /console/."""
        self.page.goto(f"{self._installation.url}/console/{path}")

    def open_tab(self, path: str) -> Page:
        """Open an address below /console/ in a new tab, which has the key of the present one."""
        with self.page.expect_popup() as opened:
            self.page.evaluate("(url) => { window.open(url) }", f"{self._installation.url}/console/{path}")
        self._watch(opened.value)
        return opened.value

    def create(self, body: dict[str, Any], *, deploy: bool = True) -> str:
        """Create and deploy a pipeline of the user without the console. Returns its id."""
        response = self.client.post("/api/v1/flow", json=body)
        assert response.status_code == 201, response.text
        config_id: str = response.json()["id"]
        if deploy:
            response = self.client.post(f"/api/v1/flow/{config_id}/deploy")
            assert response.status_code == 200, response.text
        return config_id

    def write(self, label: str, text: str) -> None:
        """Replace the text of an editor, as a paste does."""
        self._has_written = True
        self.page.get_by_label(label).click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(text)

    def serious_findings(self, scheme: Literal["light", "dark"] = "light") -> list[str]:
        """Return what axe finds that keeps people from using the page in these colours."""
        self.page.emulate_media(color_scheme=scheme)
        expect(self.page.locator(f"html[data-mantine-color-scheme={scheme}]")).to_be_attached()
        self.page.evaluate(TRANSITIONS_HAVE_ENDED)
        session = self.page.context.new_cdp_session(self.page)
        session.send("Runtime.evaluate", {"expression": AXE.read_text("utf-8")})
        found = session.send("Runtime.evaluate", {"expression": SERIOUS, "awaitPromise": True, "returnByValue": True})
        session.detach()
        findings: list[str] = found["result"]["value"]
        return findings

    def _on_message(self, message: ConsoleMessage) -> None:
        is_response = message.text.startswith("Failed to load resource") and (
            any(f"status of {status}" in message.text for status in EXPECTED_STATUSES)
            or (self.may_lose_service and "net::ERR_" in message.text)
        )
        # Text that is put into the editor as a whole comes with a style attribute, which the policy blocks.
        is_inserted_style = self._has_written and message.text.startswith("Applying inline style")
        if message.type == "error" and not is_response and not is_inserted_style:
            self.errors.append(message.text)

    def _on_request(self, request: Request) -> None:
        own = urlsplit(self._installation.url).netloc
        if urlsplit(request.url).netloc != own and not request.url.startswith(("data:", "blob:")):
            self.other_hosts.add(request.url)
