"""Users look at token prices in the console, and at how a price comes about."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from playwright.sync_api import Route, expect

from tests.acceptance.console.opened_console import Console
from tests.acceptance.installation import Installation, deployed, pipeline
from tests.support.waiting import until

TOKENS = "/api/v1/developer/prices/tokens"
PRICES = pipeline("log", sinks=[{"type": "prices", "name": "ticks"}], name="prices of the console's tests")
HELD = "0x42000000000000000000000000000000000c0501"
MANY = 30
MINUTE = 60


def trade(token: str, age_s: float, price: float) -> dict[str, Any]:
    timestamp = int((time.time() - age_s) * 1000)
    return {"chain": "base", "token_address": token, "price_usd": price, "timestamp": timestamp, "decimals": 18}


@pytest.fixture(scope="module")
def prices(installation: Installation) -> Iterator[None]:
    """Store the prices of some tokens.

    One token has trades that count at about 2,000, one far away that is rejected, and newer ones that are held.
    """
    counted = [trade(HELD, age * MINUTE, 2000 + age) for age in range(5, 1200, 7)]
    rejected, held = trade(HELD, 90 * MINUTE, 9_000_000), trade(HELD, MINUTE, 9_000)
    others = [trade(f"0x77{number:038x}", MINUTE, 0.00001234) for number in range(MANY)]
    with installation.client() as client, deployed(client, PRICES):
        installation.feed("base", "log", [*counted, rejected, held, *others])
        query = {"q": others[-1]["token_address"]}
        until(lambda: client.get(TOKENS, params=query).json()["items"], 60, "the price of the last token")
        yield


@pytest.mark.usefixtures("prices")
class TestPrices:
    def test_the_list(self, console: Console) -> None:
        page = console.page
        page.get_by_role("link", name="Prices").click()
        row = page.get_by_role("row").filter(has_text="0x420000…0c0501")
        expect(row).to_contain_text("2,005")
        expect(row).to_contain_text("Held")
        expect(row).to_contain_text("and do not count yet")
        expect(row.get_by_role("img", name="Prices of the last day")).to_be_visible()
        page.get_by_label("Search tokens").fill("0x77")
        expect(page.get_by_role("row").filter(has_text="0.00001234")).to_have_count(25)
        expect(page).to_have_url(re.compile("q=0x77"))
        page.get_by_role("link", name="Next page").click()
        expect(page.get_by_role("row").filter(has_text="0.00001234")).to_have_count(MANY - 25)
        page.go_back()
        expect(page.get_by_role("row").filter(has_text="0.00001234")).to_have_count(25)
        page.get_by_label("Search tokens").fill("nothing")
        expect(page.get_by_text("No token matches")).to_be_visible()

    def test_a_token(self, console: Console) -> None:
        page = console.page
        console.open(f"prices/base/{HELD}")
        expect(page.get_by_role("heading", name="2,005 USD")).to_be_visible()
        expect(page.get_by_text("Newer trades are far from the usual prices")).to_be_visible()
        last_day = page.get_by_role("region", name="Last 25 hours")
        expect(last_day.locator("canvas")).to_be_visible()
        last_day.get_by_text("All", exact=True).click()
        expect(page).to_have_url(re.compile("all=true"))
        expect(last_day.locator("canvas")).to_be_visible()
        windows = page.get_by_role("region", name="Windows")
        expect(windows.get_by_role("row").filter(has_text="24 h")).to_contain_text("2,005")
        expect(windows.get_by_role("row").filter(has_text="24 h")).to_contain_text("3,195")
        trades = page.get_by_role("region", name="Newest trades")
        trades.get_by_text("Rejected", exact=True).first.click()
        expect(page).to_have_url(re.compile("trades=rejected"))
        expect(trades.get_by_role("row")).to_have_count(2)
        expect(trades.get_by_role("row").last).to_contain_text("9,000,000")
        expect(trades.get_by_role("row").last).to_contain_text("are needed")

    @pytest.mark.long
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_the_pages_keep_nobody_out(self, console: Console, scheme: Literal["light", "dark"]) -> None:
        console.page.emulate_media(color_scheme=scheme)
        for path, text in (("prices", "Current"), (f"prices/base/{HELD}", "Rejected")):
            console.open(path)
            expect(console.page.get_by_text(text).first).to_be_visible()
            console.page.wait_for_timeout(1000)
            assert console.serious_findings(scheme) == [], path

    def test_without_a_prices_worker(self, console: Console) -> None:
        def without_worker(route: Route) -> None:
            response = route.fetch()
            route.fulfill(response=response, json=response.json() | {"worker_runs": False})

        console.page.route(f"**{TOKENS}*", without_worker)
        console.open("prices")
        expect(console.page.get_by_text("No prices worker runs")).to_be_visible()
        console.page.unroute_all(behavior="wait")


def test_a_token_without_trades(console: Console) -> None:
    console.open("prices/base/0x0000000000000000000000000000000000000bad")
    expect(console.page.get_by_text("0x000000…000bad has no prices")).to_be_visible()
    console.open("prices/nowhere/0x01")
    expect(console.page.get_by_text("There is no network nowhere")).to_be_visible()


def test_a_key_without_the_scope_for_prices(open_console: Callable[..., Console]) -> None:
    console = open_console("flow:read")
    console.open("prices")
    expect(console.page.get_by_text("This key may not do that")).to_be_visible()
    expect(console.page.get_by_text("prices:read").first).to_be_visible()
