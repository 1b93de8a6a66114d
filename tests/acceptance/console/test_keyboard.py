"""The console is used with the keyboard alone."""

import re

from playwright.sync_api import expect

from tests.acceptance.console.opened_console import Console
from tests.acceptance.installation import pipeline


def test_two_keys_open_a_page(console: Console) -> None:
    for key, path in (("s", "streams"), ("d", "datasets"), ("r", "prices"), ("k", "keys"), ("p", "pipelines")):
        expect(console.page.get_by_role("heading", level=1)).to_be_visible()
        console.page.keyboard.press("g")
        console.page.keyboard.press(key)
        expect(console.page).to_have_url(re.compile(f"/console/{path}$"))


def test_a_slash_reaches_the_search_of_the_page(console: Console) -> None:
    page = console.page
    page.keyboard.press("/")
    expect(page.get_by_label("Search by name or id")).to_be_focused()
    page.keyboard.type("gp/?")
    expect(page.get_by_label("Search by name or id")).to_have_value("gp/?")
    console.open("keys")
    expect(page.get_by_role("heading", name="Keys and limits")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_placeholder("Pipelines, streams, datasets, tokens and pages")).to_be_focused()


def test_a_question_mark_shows_all_keys(console: Console) -> None:
    page = console.page
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog.get_by_role("row").filter(has_text="Prices")).to_contain_text("g")
    page.wait_for_timeout(300)
    assert console.serious_findings() == []
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_the_search_finds_everything_with_a_name(console: Console) -> None:
    page = console.page
    console.create(pipeline(name="erc20 whales"), deploy=False)
    assert console.client.post("/api/v1/flow/datasets", json={"name": "erc20 watched"}).status_code == 201
    page.keyboard.press("Control+k")
    page.get_by_placeholder("Pipelines, streams, datasets, tokens and pages").fill("erc20")
    for name in ("erc20 whales", "base erc20_token_transfer", "erc20 watched"):
        expect(page.get_by_role("dialog").get_by_text(name).first).to_be_visible()
    page.get_by_role("dialog").get_by_text("erc20 watched").click()
    expect(page.get_by_role("heading", name="erc20 watched")).to_be_visible()
