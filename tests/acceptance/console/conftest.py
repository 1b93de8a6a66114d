"""Fixtures with a browser that uses the console of a running service."""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.acceptance.console.opened_console import Console
from tests.acceptance.installation import Installation

CHROMIUM = shutil.which("chromium")
owners = itertools.count()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return Debian's Chromium.

    Playwright has an event loop in this thread until it ends, so that no other test could run one of its own.
    """
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("The tests of the console need the package chromium.")
        pytest.skip("The tests of the console need the package chromium.")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a new page."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    yield context.new_page()
    context.close()


@pytest.fixture
def open_console(page: Page, installation: Installation) -> Iterator[Callable[..., Console]]:
    """Return a function that signs a new owner in.

    The key has all scopes or the given ones. At the end, the page must have had no errors, and no requests to other
    hosts.
    """
    opened: list[Console] = []

    def open_for_new_owner(*scopes: str) -> Console:
        flags = [flag for scope in scopes for flag in ("--scope", scope)]
        key = installation.run("keys", "create", "--owner", f"console-{next(owners)}", *flags).stdout.strip()
        opened.append(Console(page, installation, key))
        opened[-1].sign_in()
        return opened[-1]

    yield open_for_new_owner
    for console in opened:
        console.client.close()
        assert console.errors == []
        assert console.other_hosts == set()


@pytest.fixture
def console(open_console: Callable[..., Console]) -> Console:
    """Return the console, with a new owner signed in."""
    return open_console()
