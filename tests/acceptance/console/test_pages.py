"""The pages of the console can be used by all, and show text as text."""

import re
from collections.abc import Callable

import httpx2
import pytest
from playwright.sync_api import expect

from tests.acceptance.console.opened_console import Console
from tests.acceptance.installation import Installation, pipeline

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"
TABS = ("overview", "edit", "tail", "dead-letters", "history", "connect", "logs")
STREAM = "streams/base/erc20_token_transfer"


@pytest.mark.long
def test_no_page_keeps_people_out(installation: Installation, console: Console) -> None:
    script = "function process(record) { console.log('seen'); throw new TypeError('not yet'); }"
    config_id = console.create(pipeline(name="accessible", transforms=[{"type": "v8", "script": script, "name": "js"}]))
    installation.feed("base", "erc20_token_transfer", ({"n": number} for number in range(5)))
    tabs = [f"pipelines/{config_id}/{tab}" for tab in TABS]
    for path in ("pipelines", *tabs, "streams", STREAM, f"{STREAM}?view=live"):
        console.open(path)
        console.page.wait_for_load_state("networkidle" if path in ("streams", "pipelines") else "load")
        console.page.wait_for_timeout(1000)
        assert console.serious_findings("light") == [], path
        assert console.serious_findings("dark") == [], path


def test_the_crosshair_shows_its_time(console: Console) -> None:
    page = console.page
    console.open(f"pipelines/{console.create(pipeline(name='plotted'))}/overview")
    plots = page.locator("figure")
    expect(plots.locator("canvas")).to_have_count(4, timeout=30_000)
    expect(plots.last).not_to_contain_text("UTC")
    plots.first.scroll_into_view_if_needed()
    box = plots.first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    for plot in plots.all():
        expect(plot).to_contain_text(re.compile(r"\d\d:\d\d UTC"))
    page.mouse.move(0, 0)
    expect(plots.last).not_to_contain_text("UTC")


def test_markup_is_shown_as_text(installation: Installation, console: Console) -> None:
    page = console.page
    script = f"function process(record) {{ console.log({MARKUP!r}); throw new TypeError({MARKUP!r}); }}"
    config_id = console.create(pipeline(name=MARKUP, transforms=[{"type": "v8", "script": script}]))
    installation.feed("base", "erc20_token_transfer", [{"memo": MARKUP}])
    expect(page.get_by_role("link", name=MARKUP)).to_be_visible(timeout=30_000)
    for tab in ("overview", "dead-letters", "logs", "edit"):
        console.open(f"pipelines/{config_id}/{tab}")
        expect(page.get_by_role("heading", name=MARKUP)).to_be_visible()
        expect(page.get_by_text(MARKUP).nth(1)).to_be_visible(timeout=30_000)
        assert page.locator("img[src=x]").count() == 0


def test_the_policy_of_the_page(installation: Installation, console: Console) -> None:
    policies = [httpx2.get(f"{installation.url}/console/").headers["content-security-policy"] for _ in range(2)]
    assert policies[0] != policies[1]
    assert "unsafe" not in policies[0]
    assert policies[0].startswith("default-src 'self'; script-src 'self'; style-src 'self' 'nonce-")
    assert policies[0].endswith("; frame-ancestors 'none'")


def test_a_revoked_key_signs_out(installation: Installation, console: Console) -> None:
    key_id = console.client.get("/api/v1/flow/me").json()["key_id"]
    assert installation.run("keys", "revoke", key_id).returncode == 0
    expect(console.page.get_by_text("The API key is no longer valid")).to_be_visible(timeout=30_000)
    assert console.page.evaluate("() => sessionStorage.length") == 0


def test_a_key_with_few_scopes_sees_what_it_may(open_console: Callable[..., Console]) -> None:
    console = open_console("flow:read")
    console.page.get_by_role("button", name="Begin with this").first.click()
    expect(console.page.get_by_text("This key may not do that")).to_be_visible()
    expect(console.page.get_by_text("flow:write").first).to_be_visible()


def test_addresses_that_lead_nowhere(console: Console) -> None:
    console.open("nothing")
    expect(console.page.get_by_text("There is no such page")).to_be_visible()
    console.open("pipelines/01ke0a2x8rv5c3m7qd9t4jw6hz/overview")
    expect(console.page.get_by_text("This pipeline does not exist")).to_be_visible()
