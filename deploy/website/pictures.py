"""Write the pictures of the console: `python -m deploy.website.pictures [FOLDER]`.

The pictures show a demo that is kept running, with some more pipelines from templates. They need Debian's package
`chromium`.
"""

import io
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SIZE = (1280, 800)
MAX_BYTES = 120_000
HISTORY_S = 130.0
"""The seconds in which the demo writes records before the first picture, so that the plots have lines."""
WITHIN_MS = 60_000
TEMPLATES = ("large-transfers", "decoded-events")
KEPT = re.compile(r"cd (\S+); export \w+=(http\S+)")
SIGN_IN = re.compile(r"(http://\S+/console/sign-in#code=\S+)")


def reduced(png: bytes) -> bytes:
    """Return a picture with 256 colors as a PNG."""
    small = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        colors = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        colors.save(small, "PNG", optimize=True)
    return small.getvalue()


@dataclass(frozen=True, slots=True)
class KeptDemo:
    """A demo that is kept running.

    Attributes:
        folder: The folder with its pipelines.
        url: The address of its API.
        link: The link that signs in.
    """

    folder: Path
    url: str
    link: str

    def run(self, *arguments: str) -> str:
        """Run a command for users, and return what it prints."""
        command = [sys.executable, "-m", "headwater_client.cli", *arguments, "--url", self.url]
        return subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def kept_demo(*flags: str) -> Iterator[KeptDemo]:
    """Run a demo until the end of the block."""
    command = [sys.executable, "-m", "headwater", "demo", "--keep", *flags]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            printed = ""
            while not (kept := KEPT.search(printed)):
                if not (line := process.stdout.readline()):
                    raise SystemExit(f"The demo has ended: {printed}")
                printed += line
            [link] = SIGN_IN.findall(printed)
            yield KeptDemo(Path(kept[1]), kept[2], link)
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def signed_in_page(link: str) -> Iterator[Page]:
    """Open the console in a browser."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-lcd-text"]
        )
        width, height = SIZE
        page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        page.set_default_timeout(WITHIN_MS)
        expect.set_options(timeout=WITHIN_MS)
        page.on("dialog", lambda dialog: dialog.accept())  # the editor is left with unsaved changes
        page.goto(link)
        expect(page.get_by_role("heading", name="Pipelines", exact=True)).to_be_visible()
        yield page
        chromium.close()


def open_pipelines(page: Page) -> None:
    """Open the list of pipelines."""
    page.get_by_role("link", name="Pipelines").click()
    expect(page.get_by_role("link", name="watched")).to_be_visible()


def open_pipeline(page: Page) -> None:
    """Open the pipeline that is watched."""
    open_pipelines(page)
    page.get_by_role("link", name="watched").click()
    expect(page.get_by_text("dropped").first).to_be_visible()


def open_editor(page: Page) -> None:
    """Open a script, and change it: the trial says what the change would do."""
    page.get_by_role("tab", name="Edit").click()
    expect(page.get_by_role("button", name="Save and deploy")).to_be_visible()
    page.get_by_text("shorten").first.click()
    page.get_by_label("Code of shorten").get_by_text("token: transfer").click()
    page.keyboard.press("Home")
    page.keyboard.insert_text("chain: 'base',\n    ")
    page.keyboard.press("Home")
    expect(page.get_by_text(re.compile(r"^\d+ would change"))).to_be_visible()


def open_tail(page: Page) -> None:
    """Open the live records."""
    page.get_by_role("tab", name="Tail").click()
    expect(page.get_by_text('"amount"').nth(12)).to_be_visible()


def open_dead_letters(page: Page) -> None:
    """Open a group of dead letters."""
    page.get_by_role("tab", name="Dead letters").click()
    page.get_by_role("link", name="TypeError").click()
    expect(page.get_by_role("region", name="The script")).to_be_visible()


def open_prices(page: Page) -> None:
    """Open the token prices."""
    page.get_by_role("link", name="Prices").click()
    expect(page.get_by_text("0x4200").first).to_be_visible()


JOURNEYS: dict[str, Callable[[Page], None]] = {
    "pipelines": open_pipelines,
    "pipeline": open_pipeline,
    "editor": open_editor,
    "tail": open_tail,
    "dead_letters": open_dead_letters,
    "prices": open_prices,
}
"""The name of each picture, and the way to its page from the page before."""


def write_pictures(folder: Path) -> None:
    """Write all pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with kept_demo("--records", "20000") as demo:
        for template in TEMPLATES:
            demo.run("new", template, "pipelines")
        demo.run("apply", "pipelines")
        with signed_in_page(demo.link) as page:
            time.sleep(HISTORY_S)
            for name, open_page in JOURNEYS.items():
                open_page(page)
                page.mouse.move(0, 0)
                page.wait_for_timeout(1000)
                picture = reduced(page.screenshot(animations="disabled"))
                (folder / f"{name}.png").write_bytes(picture)
                print(f"{folder / name}.png  {len(picture):,} bytes")
                assert len(picture) < MAX_BYTES, f"{name}.png has more than {MAX_BYTES:,} bytes."


if __name__ == "__main__":
    write_pictures(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
