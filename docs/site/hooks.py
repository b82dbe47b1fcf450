"""The repository as the files of the site: documents, and whatever they link to.

    *.md of the repository ─┬─► pages, at their own paths
                            └─ link to ─┬─► pictures, copied
                                        └─► source files and folders, as pages of code

Links therefore need no rewriting: they lead to the same place here as on a plain git host, and
mkdocs checks each of them, anchors included (`--strict`).
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("*.md", "docs/*.md", "benchmarks/*.md", "experiments/*/README.md")
ASSETS = ("docs/site/extra.css", "docs/site/iframe-worker.js")
PICTURES = {".png", ".svg", ".webp"}
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".sh": "sh",
             ".proto": "protobuf", ".json": "json", ".jsonl": "json"}  # fmt: skip


class SourcePage(File):
    """A source file, or all files of a folder, as a page of code; never in the navigation."""

    def __init__(self, path: str, config: MkDocsConfig) -> None:
        super().__init__(
            path, str(ROOT), config.site_dir, use_directory_urls=False,
            inclusion=InclusionLevel.NOT_IN_NAV,
        )  # fmt: skip
        # A folder of the site that begins with a dot is left out by some servers.
        self.dest_uri = PurePosixPath(path).as_posix().lstrip(".") + ".html"
        self.url = self.dest_uri

    def is_documentation_page(self) -> bool:
        """Whatever its name ends in, it is a page."""
        return True

    @property
    def content_string(self) -> str:
        """The code, between fences that are longer than any within it."""
        path = ROOT / self.src_uri
        parts = sorted(path.iterdir()) if path.is_dir() else [path]
        return f"# {self.src_uri}\n\n" + "\n\n".join(map(_fenced, filter(Path.is_file, parts)))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace what mkdocs found in docs/ by the documents of the repository."""
    pages = sorted(path for pattern in DOCUMENTS for path in ROOT.glob(pattern))
    names = [path.relative_to(ROOT).as_posix() for path in pages]
    linked = {name for page in pages for name in _linked(page)} - {*names}
    kept = [one for one in files if one.src_dir != config.docs_dir]  # those of the theme
    copied = [*names, *ASSETS, *(name for name in linked if Path(name).suffix in PICTURES)]
    shown = sorted(linked - {*copied})
    return Files([
        *kept,
        *(File(name, str(ROOT), config.site_dir, use_directory_urls=False) for name in copied),
        *(SourcePage(name, config) for name in shown),
    ])  # fmt: skip


def _linked(page: Path) -> Iterator[str]:
    """Files and folders of the repository that a document links to."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s#:]+)", text):
        path = (page.parent / target).resolve()
        if path.is_relative_to(ROOT) and path.exists():
            yield path.relative_to(ROOT).as_posix()


def _fenced(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    fence = "`" * (3 + max(map(len, re.findall(r"`{3,}", text)), default=0))
    return f'{fence}{LANGUAGES.get(path.suffix, "text")} title="{path.name}"\n{text}\n{fence}'
