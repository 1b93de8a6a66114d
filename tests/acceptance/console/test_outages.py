"""Open pages of the console while the service or a part of it is unavailable."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from tests.acceptance.conftest import external_servers, running
from tests.acceptance.console.opened_console import Console
from tests.acceptance.installation import Installation, kill, pipeline
from tests.support.processes import suspended
from tests.support.waiting import until

pytestmark = pytest.mark.long

STREAM = "streams/base/erc20_token_transfer"
LOST = "The service does not answer"
NO_KAFKA = "Kafka is unavailable: pipelines wait"
SCRIPT = "function process(record) { if (record.memo === 'bad') throw new TypeError('bad'); return record; }"
TRANSFORMS = [
    {"type": "v8", "script": SCRIPT, "name": "memo"},
    {"type": "redis_set_filter", "filter_expr": "root = this.token_address", "set_values": ["0xab"], "name": "token"},
]
HIDE = """
(isHidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
  document.dispatchEvent(new Event("visibilitychange"));
}
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """Return an installation of these tests alone, whose processes they stop."""
    directory = tmp_path_factory.mktemp("outages")
    with external_servers(request.config.getoption("--external"), directory) as servers:
        yield from running(Installation(directory / "data", external=servers))


@pytest.fixture
def console(open_console: Callable[..., Console]) -> Console:
    """Return the console of a new owner, whose requests may fail."""
    console = open_console()
    console.may_lose_service = True
    return console


def transfer(memo: str) -> dict[str, Any]:
    """Return a record; all of them have the same key, and so the same partition."""
    return {"token_address": "0xAB", "memo": memo}


def feed(installation: Installation, *memos: str) -> None:
    installation.feed("base", "erc20_token_transfer", map(transfer, memos))


def pages_of(console: Console, name: str) -> tuple[str, dict[str, str]]:
    """Deploy a pipeline.

    Return its id, and a text of each kind of page by the address of the page.
    """
    config_id = console.create(pipeline(name=name, transforms=TRANSFORMS))
    flow = console.client.get(f"/api/v1/flow/{config_id}").json()
    uid = flow["pipeline_config"]["transforms"][1]["uid"]
    dataset = console.client.post("/api/v1/flow/datasets", json={"name": name}).json()
    tabs = ("overview", "edit", "tail", "dead-letters", "history", "connect", "logs", f"filters/{uid}")
    return config_id, {
        "pipelines": name,
        **{f"pipelines/{config_id}/{tab}": name for tab in tabs},
        "datasets": name,
        f"datasets/{dataset['id']}": name,
        "streams": "base erc20_token_transfer",
        STREAM: "The newest of",
        f"{STREAM}?view=live": "Live",
        "keys": "This key",
    }


def test_every_page_recovers_from_a_restart_of_the_api(installation: Installation, console: Console) -> None:
    config_id, pages = pages_of(console, "survivor")
    feed(installation, "before", "bad")
    tabs = {path: console.open_tab(path) for path in pages}
    for path, text in pages.items():
        expect(tabs[path].get_by_text(text).first).to_be_visible(timeout=60_000)

    apis = installation.processes("headwater api")
    with suspended(apis):
        for tab in tabs.values():
            expect(tab.get_by_text(LOST)).to_be_visible(timeout=90_000)
        feed(installation, "meanwhile")
        kill(apis)

    for path, text in pages.items():
        wait_until_no_notices(tabs[path])
        expect(tabs[path].get_by_text(text).first).to_be_visible(timeout=60_000)
    expect(tabs[STREAM].get_by_text("meanwhile").first).to_be_visible(timeout=60_000)
    for path in (f"pipelines/{config_id}/tail", f"{STREAM}?view=live"):
        wait_until_live(tabs[path])
    feed(installation, "fed after")
    for path in (f"pipelines/{config_id}/tail", f"{STREAM}?view=live"):
        expect(tabs[path].get_by_text("fed after").first).to_be_visible(timeout=60_000)
    renamed = pipeline(name="renamed", transforms=TRANSFORMS)
    assert console.client.put(f"/api/v1/flow/{config_id}", json=renamed).status_code == 200
    for path in ("pipelines", f"pipelines/{config_id}/connect"):
        expect(tabs[path].get_by_text("renamed").first).to_be_visible(timeout=60_000)


def wait_until_live(tab: Page) -> None:
    expect(tab.get_by_role("status").get_by_text("Live", exact=True)).to_be_visible(timeout=60_000)


def wait_until_stable(console: Console, config_id: str) -> None:
    """Wait for the end of a rollout, which would fail without Kafka."""
    path = f"/api/v1/flow/{config_id}/deploy"
    until(lambda: console.client.get(path).json()["condition"] == "Stable", 60, "a stable deployment")


def wait_for_notice(tab: Page, text: str) -> None:
    expect(tab.get_by_role("alert").filter(has_text=text).first).to_be_visible(timeout=90_000)


def wait_until_no_notices(tab: Page) -> None:
    """Wait until the page shows no alert except the script's own error."""
    expect(tab.get_by_role("alert").filter(has_not_text="TypeError: bad")).to_have_count(0, timeout=90_000)


def test_pages_say_what_works_without_kafka(installation: Installation, console: Console) -> None:
    config_id, _ = pages_of(console, "without kafka")
    wait_until_stable(console, config_id)
    feed(installation, "before")
    of = f"pipelines/{config_id}"
    with suspended(installation.processes("kafka.Kafka")):
        tabs = {path: console.open_tab(path) for path in ("pipelines", f"{of}/tail", f"{of}/edit", STREAM)}
        for tab in tabs.values():
            wait_for_notice(tab, NO_KAFKA)
        expect(tabs["pipelines"].get_by_text("without kafka")).to_be_visible()
        for path in (f"{of}/edit", STREAM):
            wait_for_notice(tabs[path], "A service is unavailable")
        expect(tabs[f"{of}/tail"].get_by_text("Connecting")).to_be_visible()
        tabs[f"{of}/edit"].get_by_label("Code of memo").click()
        tabs[f"{of}/edit"].keyboard.press("Control+Home")
        tabs[f"{of}/edit"].keyboard.type("// saved meanwhile\n")
        tabs[f"{of}/edit"].keyboard.press("Control+S")
        expect(tabs[f"{of}/edit"].get_by_text("Revision 2 is saved. What runs")).to_be_visible(timeout=60_000)

    for tab in tabs.values():
        wait_until_no_notices(tab)
    expect(tabs[STREAM].get_by_text("before").first).to_be_visible(timeout=60_000)
    expect(tabs[f"{of}/edit"].get_by_role("region", name="Trial")).to_contain_text("sent ·", timeout=60_000)
    wait_until_live(tabs[f"{of}/tail"])
    feed(installation, "fed after")
    expect(tabs[f"{of}/tail"].get_by_text("fed after").first).to_be_visible(timeout=60_000)


def test_a_revoked_key_signs_every_page_out(installation: Installation, console: Console) -> None:
    config_id = console.create(pipeline(name="revoked"))
    paths = (f"pipelines/{config_id}/tail", f"{STREAM}?view=live", "streams", "datasets", "keys")
    tabs = [console.open_tab(path) for path in paths]
    for tab in tabs:
        expect(tab.get_by_role("heading").first).to_be_visible(timeout=60_000)
    key_id = console.client.get("/api/v1/flow/me").json()["key_id"]
    assert installation.run("keys", "revoke", key_id).returncode == 0
    for tab in (console.page, *tabs):
        expect(tab.get_by_text("The API key is no longer valid")).to_be_visible(timeout=60_000)


def test_a_hidden_tab_lets_go_of_its_tail(installation: Installation, console: Console) -> None:
    page = console.page
    console.open(f"{STREAM}?view=live")
    wait_until_live(page)
    feed(installation, "in sight")
    expect(page.get_by_text("in sight")).to_be_visible(timeout=30_000)

    with page.expect_event("requestfailed", is_tail):
        page.evaluate(HIDE, True)
    expect(page.get_by_text("Paused while hidden")).to_be_visible()
    feed(installation, "missed one", "missed two")

    with page.expect_request(is_tail):
        page.evaluate(HIDE, False)
    wait_until_live(page)
    feed(installation, "in sight again")
    expect(page.get_by_text("in sight again")).to_be_visible(timeout=30_000)
    expect(page.get_by_text("about 2 missed without a connection")).to_be_visible()


def is_tail(request: Request) -> bool:
    return "/flow/tail?" in request.url
