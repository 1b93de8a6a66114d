"""Files with a million values are sent from the page."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.acceptance.console.opened_console import Console
from tests.acceptance.installation import pipeline

VALUES = 1_000_000
WITHIN_MS = 250_000
HAS_SAVED_POSITION = "() => Object.keys(sessionStorage).some((key) => key.startsWith('headwater-upload:'))"
pytestmark = pytest.mark.timeout(600)

FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address", "name": "token"}


def address(number: int) -> str:
    return f"0x{number:040x}"


def written(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.long
def test_a_million_values_are_added_and_replaced(console: Console, tmp_path: Path) -> None:
    page = console.page
    config_id = console.create(pipeline(name="a million", transforms=[FILTER]), deploy=False)
    flow = console.client.get(f"/api/v1/flow/{config_id}").json()
    uid = flow["pipeline_config"]["transforms"][0]["uid"]
    values = f"/api/v1/flow/{config_id}/transforms/{uid}/filter-values"
    console.open(f"pipelines/{config_id}/filters/{uid}")
    file = page.locator("input[type=file]")

    file.set_input_files(written(tmp_path / "first.txt", map(address, range(VALUES))))
    page.get_by_role("button", name="Add these values").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused.")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("1,000,000 sent, 1,000,000 new. Done.")).to_be_visible(timeout=WITHIN_MS)
    expect(page.get_by_text("1,000,000 values", exact=True)).to_be_visible()

    rows = (f"name {number},{address(number)}" for number in range(VALUES // 2, VALUES // 2 + VALUES))
    file.set_input_files(written(tmp_path / "second.csv", ["name,address", *rows]))
    page.get_by_label("Column").first.click()
    page.get_by_role("option", name="address").click()
    page.get_by_role("button", name="Replace all values").click()
    page.get_by_role("button", name="Replace", exact=True).click()
    expect(page.get_by_text("1,000,000 now in the set. Done.")).to_be_visible(timeout=WITHIN_MS)
    expect(page.get_by_text("1,000,000 values", exact=True)).to_be_visible()
    assert console.client.get(f"{values}/count").json()["count"] == VALUES
    for number, is_member in ((0, False), (VALUES // 2, True), (VALUES, True)):
        response = console.client.get(f"{values}/check", params={"value": address(number)})
        assert response.json()["is_member"] is is_member


@pytest.mark.long
def test_an_upload_that_lost_its_connection_is_resumed(console: Console, tmp_path: Path) -> None:
    page = console.page
    console.may_lose_service = True
    dataset = console.client.post("/api/v1/flow/datasets", json={"name": "resumed"}).json()
    console.open(f"datasets/{dataset['id']}")
    page.locator("input[type=file]").set_input_files(written(tmp_path / "values.txt", map(address, range(VALUES))))
    page.get_by_role("button", name="Add these values").click()
    expect(page.get_by_text(re.compile("[1-9].* sent, .* left"))).to_be_visible(timeout=WITHIN_MS)
    page.context.set_offline(True)
    expect(page.get_by_text("There is no connection to the service.").first).to_be_visible(timeout=WITHIN_MS)
    resume = page.get_by_role("button", name=re.compile("Resume after .* values"))
    expect(resume).to_be_visible(timeout=WITHIN_MS)
    page.context.set_offline(False)
    resume.click()
    expect(page.get_by_text(re.compile("1,000,000 sent, .* Done."))).to_be_visible(timeout=WITHIN_MS)
    expect(page.get_by_text("1,000,000 values", exact=True)).to_be_visible()


@pytest.mark.long
def test_an_upload_is_resumed_after_a_reload(console: Console, tmp_path: Path) -> None:
    page = console.page
    dataset = console.client.post("/api/v1/flow/datasets", json={"name": "reloaded"}).json()
    console.open(f"datasets/{dataset['id']}")
    path = written(tmp_path / "values.txt", map(address, range(VALUES)))
    page.locator("input[type=file]").set_input_files(path)
    page.get_by_role("button", name="Add these values").click()
    page.wait_for_function(HAS_SAVED_POSITION, timeout=WITHIN_MS)
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    expect(page.get_by_text("The upload of values.txt is not finished.")).to_be_visible()
    page.locator("input[type=file]").set_input_files(path)
    page.get_by_role("button", name=re.compile("Resume after [1-9].* values")).click()
    expect(page.get_by_text(re.compile("1,000,000 sent, .* Done."))).to_be_visible(timeout=WITHIN_MS)
    expect(page.get_by_text("1,000,000 values", exact=True)).to_be_visible()
