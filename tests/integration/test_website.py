"""The documentation as a site works from files, without a network."""

import importlib.util
import os
import re
import struct
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from deploy.website.build import ROOT, build
from deploy.website.pictures import JOURNEYS, MAX_BYTES, PICTURES, SIZE

LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""The elements that make a browser load another file, and the attributes that name it."""


class Page(HTMLParser):
    """The anchors and links of a page, and the files that it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.anchors.add(attributes.get("id") or "")
        if tag == "a" and (link := attributes.get("href")):
            self.links.append(link)
        if tag in LOADING and (file := attributes.get(LOADING[tag])):
            self.loaded.append(file)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("sphinx") is None:
        reason = "The site needs Sphinx: run `make setup`."
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("site")
    build(folder)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path.resolve(): Page(path) for path in site.rglob("*.html")}


def is_outside(address: str) -> bool:
    return bool(urlsplit(address).netloc)


def test_no_file_names_an_outside_address_to_load(site: Path, pages: dict[Path, Page]) -> None:
    assert not [file for page in pages.values() for file in page.loaded if is_outside(file)]
    found = []
    for path in site.rglob("*"):
        if path.suffix in {".js", ".css", ".svg"} and path.name != "searchindex.js":
            found += re.findall(r"(?:https?:)?//(?!www\.w3\.org/)[\w-]+\.[\w.-]+/\S*", path.read_text("utf-8"))
        assert path.suffix not in {".woff", ".woff2", ".ttf"}, path
    assert not found


def broken(pages: dict[Path, Page]) -> Iterator[str]:
    """Yield each link to a file or an anchor that does not exist."""
    for path, page in pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else {parts.fragment}
            if not target.is_file() or unquote(parts.fragment) not in anchors:
                yield f"{path.name}: {link}"


def test_links_lead_to_files_and_anchors(pages: dict[Path, Page]) -> None:
    assert list(broken(pages)) == []


def test_every_page_is_in_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT).as_posix().replace("README", "index")
        assert (site / name).with_suffix(".html").is_file()


def test_the_search_index_is_a_script_that_pages_load_from_files(site: Path, pages: dict[Path, Page]) -> None:
    assert "searchindex.js" in pages[(site / "search.html").resolve()].loaded
    index = (site / "searchindex.js").read_text("utf-8")
    assert index.startswith("Search.setIndex({")
    assert "docs/when_records_fail" in index
    assert '"redriv"' in index or "redriv:" in index


def test_each_picture_is_small_and_on_a_page() -> None:
    pages = "".join(path.read_text("utf-8") for path in ROOT.glob("docs/*.md"))
    assert {path.stem for path in PICTURES.glob("*")} == set(JOURNEYS)
    for path in PICTURES.glob("*"):
        data = path.read_bytes()
        assert len(data) < MAX_BYTES
        assert struct.unpack(">II", data[16:24]) == SIZE
        assert f"(pictures/{path.name})" in pages
