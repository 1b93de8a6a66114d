"""Build the site: `python -m deploy.website.build [FOLDER]`.

The pages are the Markdown files of the repository, as they are. The navigation is the list of pages in
docs/README.md. A link that leads nowhere ends the build with an error.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs", "examples", "deploy")
LINK = re.compile(r"(\]\()([^)#\s:]+)")
"""Matches the target of a link to another file of the repository, without its anchor."""

CREDIT = re.compile(r"Made with\s.*?</a>", re.DOTALL)
OUTSIDE = re.compile(r"https?://(?!www\.w3\.org/)")
"""Matches addresses, which only comments of scripts and styles have. Those of w3.org are names of XML dialects."""


def build(output: Path) -> None:
    """Write the site to a folder, which is replaced."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder)
        prepare(sources)
        shutil.rmtree(output, ignore_errors=True)
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
        command += ["-c", str(Path(__file__).parent), "-d", f"{folder}/.doctrees", folder, str(output)]
        subprocess.run(command, check=True)
    for page in output.rglob("*.html"):
        page.write_text(CREDIT.sub("", page.read_text("utf-8")), "utf-8")
    for file in [*output.rglob("*.js"), *output.rglob("*.css")]:
        file.write_text(OUTSIDE.sub("", file.read_text("utf-8")), "utf-8")


def prepare(sources: Path) -> None:
    """Copy the pages to the folder of sources, with the navigation in the first page."""
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, sources / name, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
        else:
            shutil.copy(path, sources)
    for page in sorted(sources.rglob("*.md")):
        text = _with_links_of_the_site(page)
        page.unlink()
        page.with_name(page.name.replace("README", "index")).write_text(text, "utf-8")
    with (sources / "index.md").open("a", encoding="utf-8") as first:
        first.write(navigation())


def _with_links_of_the_site(page: Path) -> str:
    return LINK.sub(lambda link: link[1] + _target(page.parent, link[2]), page.read_text("utf-8"))


def _target(folder: Path, link: str) -> str:
    """Return a link as the site has it.

    README.md is called index.md, and a linked folder gets a page with the texts of its files.
    """
    target = folder / link
    if target.is_dir():
        (target / "index.md").write_text(_listing(target), "utf-8")
        return f"{link.rstrip('/')}/index.md"
    return link.replace("README.md", "index.md")


def _listing(folder: Path) -> str:
    """Return a page with the texts of the files of a folder."""
    page = f"---\norphan: true\n---\n# {folder.name}\n"
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md"):
        page += f"\n## {file.relative_to(folder)}\n\n```\n{file.read_text('utf-8').rstrip()}\n```\n"
    return page


def navigation() -> str:
    """Return a table of contents for each section of docs/README.md."""
    seen = {"README"}
    tables = ""
    for section in (ROOT / "docs" / "README.md").read_text("utf-8").split("\n## "):
        title, _, text = section.partition("\n")
        pages = ["docs/index"] if title.startswith("# ") else []
        for link in re.findall(r"\]\(([^)#:]+)\.md\)", text):
            page = (ROOT / "docs" / link).resolve().relative_to(ROOT).as_posix()
            if page not in seen:
                seen.add(page)
                pages.append(page)
        tables += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {title.lstrip('# ')}", "", *pages, "```", ""])
    return tables


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else "site").resolve())
