"""The documentation as a site: built strictly, whole, and readable without a network."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parent.parent
LOADS = {
    ("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"),
    ("object", "data"), ("video", "src"), ("audio", "src"), ("form", "action"),
}  # fmt: skip
"""What a browser fetches by itself, or sends something to."""

pytestmark = [pytest.mark.gate, pytest.mark.xdist_group("site")]


class Page(HTMLParser):
    """What a page loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.loads: list[str] = []
        self.has_diagram = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.loads += [given[key] for key in given if (tag, key) in LOADS]
        self.has_diagram = self.has_diagram or "mermaid" in given.get("class", "").split()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    settings = shutil.copy(ROOT / "mkdocs.yml", folder)
    for command in (
        ("docs/site/pages.py", str(folder / "build" / "pages")),
        ("-m", "zensical", "build", "--strict", "--config-file", settings),
    ):
        done = subprocess.run(
            (sys.executable, *command), cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> Mapping[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_every_document_is_a_page(site: Path, pages: Mapping[Path, Page]) -> None:
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("experiments/*/*.md")]:
        name = path.relative_to(ROOT).with_suffix(".html").as_posix().replace("README", "index")
        assert site / name in pages, name


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: Mapping[Path, Page]) -> None:
    for page in pages.values():
        assert [url for url in page.loads if urlsplit(url).netloc] == [], page.path
        assert not page.has_diagram, f"{page.path}: the theme loads its drawing of these from a CDN"
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)]*", text) == [], sheet


def test_search_works_on_files_without_a_server(site: Path) -> None:
    index = (site / "search.js").read_text(encoding="utf-8")
    assert index.startswith("var __index = ")
    for found in ("loss_parity", "process.kill", "fleet.programs"):
        assert found in index
    assert (site / "docs" / "site" / "iframe-worker.js").is_file()


def test_a_plan_is_shown_as_code_where_it_is_linked(pages: Mapping[Path, Page], site: Path) -> None:
    text = (site / "fault_plans" / "kill_half.yaml.html").read_text(encoding="utf-8")
    assert "half-dies" in text
    assert site / "docs" / "examples" / "chaoslab_toys.html" in pages
