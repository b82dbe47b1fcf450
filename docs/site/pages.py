"""Documents of the repository and what they link to, as the pages that zensical makes a site of.

    *.md of the repository ─┬─► pages, at their own paths
                            └─ link to ─┬─► pictures, copied
                                        └─► source files and folders, as pages of code

    python docs/site/pages.py build/pages && python -m zensical build --clean --strict

Only links to code are rewritten, to the page of that code. zensical checks links between pages and
their anchors; this checks that linked files exist and that the navigation lists each document.
"""

import re
import shutil
import sys
from os.path import relpath
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("*.md", "docs/*.md", "benchmarks/*.md", "experiments/*/README.md")
ASSETS = ("docs/site/extra.css", "docs/site/iframe-worker.js")
PICTURES = {".png", ".svg", ".webp"}
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".sh": "sh",
             ".proto": "protobuf", ".json": "json", ".jsonl": "json"}  # fmt: skip
FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()[^)\s#:]+(?=[)\s#])")
"""The target of a link to a file, without its anchor."""


class Pages:
    """The folder of pages; `missing` says what documents link to and the repository lacks."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.documents = {path for pattern in DOCUMENTS for path in root.glob(pattern)}
        self.missing: list[str] = []

    def write(self) -> None:
        """Replace the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for asset in ASSETS:
            self._copy(self.root / asset)
        for document in sorted(self.documents):
            parts = FENCED.split(document.read_text(encoding="utf-8"))
            parts[::2] = [
                LINK.sub(lambda link: self._target(document, link[0]), prose)  # noqa: B023
                for prose in parts[::2]
            ]
            self._place(document).write_text("".join(parts), encoding="utf-8")

    def _target(self, document: Path, link: str) -> str:
        """What a document links to, as a page: the same, or the page of that code."""
        path = (document.parent / link).resolve()
        if not path.is_relative_to(self.root) or not path.exists():
            self.missing.append(f"{document.relative_to(self.root)}: no such file: {link}")
        elif path.suffix in PICTURES:
            self._copy(path)
        elif path not in self.documents:
            name = path.relative_to(self.root).as_posix()
            parts = sorted(path.iterdir()) if path.is_dir() else [path]
            # A folder of the site that begins with a dot is left out by some servers.
            page = self._place(self.root / f"{name.lstrip('.')}.md")
            code = map(_fenced, filter(Path.is_file, parts))
            page.write_text("\n\n".join([f"# {name}", *code]), encoding="utf-8")
            return relpath(page, self._place(document).parent)
        return link

    def _copy(self, path: Path) -> None:
        shutil.copyfile(path, self._place(path))

    def _place(self, path: Path) -> Path:
        """The path in the folder of what has this one in the repository."""
        place = self.folder / path.relative_to(self.root)
        place.parent.mkdir(parents=True, exist_ok=True)
        return place


def _fenced(path: Path) -> str:
    """The code, between fences that are longer than any within it."""
    text = path.read_text(encoding="utf-8")
    fence = "`" * (3 + max(map(len, re.findall(r"`{3,}", text)), default=0))
    return f'{fence}{LANGUAGES.get(path.suffix, "text")} title="{path.name}"\n{text}\n{fence}'


def wrong(root: Path, folder: Path) -> list[str]:
    """Write the pages; links that lead nowhere, and differences of documents and navigation."""
    (pages := Pages(root, folder)).write()
    listed = re.findall(r"^ +- (\S+\.md)$", (root / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    documents = {path.relative_to(root).as_posix() for path in pages.documents}
    return [
        *pages.missing,
        *(f"mkdocs.yml: no such document: {name}" for name in sorted({*listed} - documents)),
        *(f"mkdocs.yml: not in nav: {name}" for name in sorted(documents - {*listed})),
    ]


if __name__ == "__main__":
    sys.exit("\n".join(wrong(ROOT, Path(sys.argv[1]))) or 0)
