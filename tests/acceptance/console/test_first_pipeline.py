"""Users create, repair, try and roll back pipelines in the console."""

from typing import Any

from playwright.sync_api import expect

from tests.acceptance.console.opened_console import Console
from tests.acceptance.installation import Installation, pipeline

USDC = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
FAILS = "function process(record) {\n  record.parts = record.memo.split(':');\n  return record;\n}\n"
MENDED = "function process(record) {\n  record.parts = (record.memo ?? '').split(':');\n  return record;\n}\n"


def transfer(number: int, **members: Any) -> dict[str, Any]:
    amount = str(20_000_000_000 + number)
    return {
        "token_address": USDC,
        "transaction_hash": f"0x{number}",
        "log_index": 1,
        "raw_amount_str": amount,
        **members,
    }


def test_a_first_pipeline_from_nothing(installation: Installation, console: Console) -> None:
    page = console.page
    page.get_by_role("button", name="Begin with this").first.click()
    expect(page.get_by_role("heading", name="large-usdc-transfers")).to_be_visible()
    page.get_by_role("button", name="Save and deploy").click()
    expect(page.get_by_role("button", name="Pause pipeline")).to_be_visible(timeout=60_000)
    page.get_by_role("tab", name="Tail").click()
    expect(page.get_by_text("Live", exact=True)).to_be_visible(timeout=30_000)
    installation.feed("base", "erc20_token_transfer", [transfer(1)])
    page.get_by_role("region", name="Records").get_by_role("button").first.click(timeout=30_000)
    record = page.get_by_role("complementary", name="The record")
    expect(record).to_contain_text("headwater-src")
    expect(record).to_contain_text("20000")
    expect(record).to_contain_text("usdc")


def test_a_script_that_fails_is_seen_mended_and_redriven(installation: Installation, console: Console) -> None:
    page = console.page
    config_id = console.create(pipeline(name="memos", transforms=[{"type": "v8", "script": FAILS, "name": "memo"}]))
    installation.feed("base", "erc20_token_transfer", (transfer(number) for number in range(3)))
    console.open(f"pipelines/{config_id}/dead-letters")
    page.get_by_role("link", name="TypeError").click(timeout=30_000)
    script = page.get_by_role("region", name="The script")
    expect(script).to_contain_text("2 ▸ ")
    expect(page.get_by_role("heading", name="TypeError in memo")).to_be_visible()

    page.get_by_role("tab", name="Edit").click()
    console.write("Code of memo", MENDED)
    expect(page.get_by_text("unsaved changes")).to_be_visible()
    page.get_by_role("button", name="Save and deploy").click()
    expect(page.get_by_text("Revision 2 runs.")).to_be_visible(timeout=60_000)

    page.get_by_role("tab", name="Dead letters").click()
    page.get_by_role("button", name="Redrive these").click()
    page.get_by_role("button", name="Redrive", exact=True).click()
    expect(page.get_by_text("3 delivered")).to_be_visible(timeout=60_000)


def test_the_trial_beside_the_editor(installation: Installation, console: Console) -> None:
    page = console.page
    script = "function process(record) { console.log('seen'); return { ...record, doubled: 2 }; }"
    body = pipeline(name="tried", transforms=[{"type": "v8", "script": script, "name": "double"}])
    config_id = console.create(body, deploy=False)
    installation.feed("base", "erc20_token_transfer", [transfer(7)])
    console.open(f"pipelines/{config_id}/edit")
    trial = page.get_by_role("region", name="Trial")
    expect(trial).to_contain_text("sent ·", timeout=30_000)
    trial.get_by_role("button").first.click()
    expect(trial).to_contain_text("+ doubled: 2")
    console.write("Code of double", "function process(record) {\n  return record.;\n}")
    expect(page.get_by_text("SyntaxError").first).to_be_visible(timeout=30_000)


def test_a_rollback_with_its_diff(console: Console) -> None:
    page = console.page
    config_id = console.create(pipeline(name="first name"), deploy=False)
    console.client.put(f"/api/v1/flow/{config_id}", json=pipeline(name="second name"))
    console.open(f"pipelines/{config_id}/history")
    expect(page.get_by_role("region", name="Changes of Configuration")).to_contain_text("second name")
    page.get_by_role("row", name="created").click()
    page.get_by_role("button", name="Roll back to 1").click()
    page.get_by_role("button", name="Roll back", exact=True).click()
    expect(page.get_by_role("heading", name="first name")).to_be_visible(timeout=30_000)
