"""Users see which pipelines need them, and change several at once."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.console.opened_console import Console
from tests.acceptance.installation import Installation, pipeline

FAILS = "function process(record) { throw new TypeError('not yet'); }"


def names(page: Page) -> list[str]:
    """Return the names of the pipelines in their order on the page."""
    return page.locator("tbody tr td:nth-child(3) > a").all_inner_texts()


@pytest.mark.long
def test_what_is_wrong_is_first(installation: Installation, console: Console) -> None:
    page = console.page
    console.create(pipeline(name="draft", entity="log"), deploy=False)
    console.create(pipeline(name="runs", entity="log"))
    console.create(pipeline(name="fails", transforms=[{"type": "v8", "script": FAILS}]))
    installation.feed("base", "erc20_token_transfer", [{"n": 1}])
    failing = page.get_by_role("row").filter(has_text="fails")
    expect(failing).to_contain_text("Degraded", timeout=60_000)
    assert names(page) == ["fails", "runs", "draft"]
    expect(failing).to_contain_text("base erc20_token_transfer")
    expect(failing).to_contain_text(re.compile(r"1 \d+ s ago"))
    page.get_by_role("button", name="Source").click()
    expect(page).to_have_url(re.compile("sort=source"))
    assert names(page)[0] == "fails"


def test_several_pipelines_at_once(console: Console) -> None:
    page = console.page
    for number in range(4):
        console.create(pipeline(name=f"draft {number}"), deploy=False)
    config_id = console.create(pipeline(name="runs"))
    page.get_by_label("Select all").check()
    bar = page.get_by_role("toolbar", name="Selected pipelines")
    expect(bar).to_contain_text("5 selected")
    assert console.serious_findings() == []
    bar.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause 5 pipelines?")
    pause = dialog.get_by_role("button", name="Pause", exact=True)
    expect(pause).to_be_disabled()
    dialog.get_by_label("Type “pause 5” to confirm").fill("pause 5")
    assert console.serious_findings() == []
    pause.click()
    dialog = page.get_by_role("dialog", name="Pause 5 pipelines")
    expect(dialog).to_contain_text("1 of 5 done", timeout=60_000)
    expect(dialog.get_by_role("row").filter(has_text="runs")).to_contain_text("Paused")
    expect(dialog.get_by_role("row").filter(has_text="draft 0")).to_contain_text("is not deployed")
    dialog.get_by_role("button", name="Close").last.click()
    expect(bar).to_contain_text("4 selected")
    assert console.client.get(f"/api/v1/flow/{config_id}/deploy").json()["status"] == "paused"

    bar.get_by_role("button", name="Select none").click()
    page.get_by_label("Select runs").check()
    bar.get_by_role("button", name="Tear down").click()
    page.get_by_role("dialog").get_by_role("button", name="Tear down").click()
    expect(page.get_by_role("dialog")).to_contain_text("1 of 1 done", timeout=60_000)


def test_a_row_with_the_keyboard(console: Console) -> None:
    page = console.page
    config_id = console.create(pipeline(name="typed") | {"tags": ["with & sign"]}, deploy=False)
    page.get_by_label("Select typed").press("Space")
    expect(page.get_by_role("toolbar", name="Selected pipelines")).to_contain_text("1 selected")
    assert console.serious_findings("light") == []
    assert console.serious_findings("dark") == []
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="typed")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?tag="))
    expect(page.get_by_role("link", name="with & sign")).to_be_visible()
    page.get_by_role("link", name="typed").press("Enter")
    expect(page).to_have_url(re.compile(f"/{config_id}/overview$"))
