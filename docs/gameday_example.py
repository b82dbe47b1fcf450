"""The worked example of a game-day: the generated parts of docs/gameday.md, its pictures.

    python -m docs.gameday_example        a few minutes; needs Chromium

    docs/examples/gameday.yaml, gameday.txt ─► chaoslab gameday --serve --script
                          page ─► Chromium ─► webp  ◄──┤
               charter, debrief, actions in its record ◄──┤
      --as-plan gate.yaml ─► chaoslab run ─► verdict ◄──┘

Nothing is made up: all of it is what one real run wrote and showed.
"""

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.chromium import Browser, Page
from tests.gameday.live.browsing import PHASE, card, entered, printed_link
from tests.generated_docs import ROOT, Block

DOCUMENT = "docs/gameday.md"
EXAMPLES = ROOT / "docs" / "examples"
PICTURES = ROOT / "docs" / "gameday"
SHOWN = {
    "charter": ("Who", "Faults", "Limits", "For the facilitator"),
    "debrief": ("", "Faults", "Predictions", "Time to notice", "Findings", "Surprises"),
    "actions": ("",),
}
"""Sections of each page of the record; the empty name is what comes before the first."""
COLUMNS = 98
_START_S, _FAULT_S, _END_S = 240.0, 300.0, 300.0
_QUALITY = 30


def main() -> int:
    """Play the game-day, run the gate that it makes, and write all of it down."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("gameday.yaml", "gameday.txt"):
            shutil.copy(EXAMPLES / name, place)
        with game_day(place) as (process, said):
            with Browser() as browser:  # one whose messages nobody reads stops
                take_pictures(browser, said)
            process.wait(_END_S)
        (record,) = (place / "runs" / "two_faults").glob("2*")
        pages = {
            name: sections((record / f"{name}.md").read_text(), *shown)
            for name, shown in SHOWN.items()
        }
        gate, verdict = gated(place)
    blocks = {
        **pages,
        "plan": fenced("yaml", plan_text()),
        "orders": fenced("text", (EXAMPLES / "gameday.txt").read_text()),
        "gate": fenced("yaml", gate),
        "verdict": fenced("console", verdict),
    }
    for name, text in blocks.items():
        Block(DOCUMENT, name, lambda text=text: text).rewrite()
    return 0


# ---------------------------------------------------------------- the run and its page


@contextmanager
def game_day(place: Path) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """The command of the document, and the file with what it says."""
    said = place / "said"
    words = ("gameday", "gameday.yaml", "--yes", "--by", "Ann", "--script", "gameday.txt")
    with said.open("wb") as stderr, subprocess.Popen(
        [sys.executable, "-m", "chaoslab", *words, "--serve", "0", "--operator", "Ann"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, cwd=place,
        env=environment(),
    ) as process:  # fmt: skip
        try:
            yield process, said
        finally:
            process.terminate()  # it heals everything first


def take_pictures(browser: Browser, said: Path) -> None:
    """What the page shows at four moments."""
    ann = entered(browser, printed_link(said, "operator Ann"), width=1000)
    cy = entered(browser, printed_link(said, "viewers"), "Cy", width=390, height=844)
    ann.until(PHASE, "baseline", within_s=_START_S)
    ann.until(
        "Number(document.querySelector('#figures b').textContent) > 9",
        within_s=_START_S,
    )
    picture(ann, "baseline", height=860)
    stage(ann, "half-dies", "waits")
    ann.until("document.getElementById('sentences').innerText.includes('2 predictions')")
    picture(ann, "waits", height=860)
    stage(cy, "half-dies", "active")
    cy.until("document.getElementById('sentences').innerText.includes('Cy notes')")
    picture(cy, "phone", height=844)
    stage(ann, "one-stops", "over")
    ann.until("document.getElementById('sentences').innerText.includes('Di notes')")
    picture(ann, "after", height=860)


def stage(page: Page, spec: str, wanted: str) -> None:
    page.until(f"{card(spec)}?.dataset.stage", wanted, within_s=_FAULT_S)


def picture(page: Page, name: str, *, height: int) -> None:
    """The page as WebP, from its top to this height or to its end."""
    width, whole = page.js("[innerWidth, document.documentElement.scrollHeight]")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, whole), "scale": 1}
    shot = page.ask(
        "Page.captureScreenshot", captureBeyondViewport=True, clip=clip, format="webp",
        quality=_QUALITY,
    )  # fmt: skip
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.webp").write_bytes(base64.b64decode(shot["data"]))


# ---------------------------------------------------------------- the gate


def gated(place: Path) -> tuple[str, str]:
    """The faults of the gate, and what both commands printed."""
    made = chaoslab(place, "gameday", "latest", "--as-plan", "gate.yaml")
    judged = chaoslab(place, "run", "gate.yaml", "--fail-on", "unknown")
    return section(place / "gate.yaml", "faults"), f"{made}\n{judged}"


def chaoslab(place: Path, *words: str) -> str:
    """A command as it is typed, with what it prints; SystemExit if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "chaoslab", *words], capture_output=True, text=True, cwd=place,
        env=environment(), check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    lines = (line.rstrip() for line in done.stdout.splitlines())
    return "\n".join((f"$ chaoslab {' '.join(words)}", *lines))


def environment() -> dict[str, str]:
    """As in a terminal of this width."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": str(COLUMNS)}


# ---------------------------------------------------------------- text


def plan_text() -> str:
    """The plan without its first comment."""
    text = (EXAMPLES / "gameday.yaml").read_text()
    return text[text.index("version:") :]


def section(path: Path, key: str) -> str:
    """One top-level key of a YAML file, as it is written."""
    found = re.search(rf"^{key}:.*\n(?:[ -].*\n)*", path.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{path.name} has no {key}")
    return found[0]


def sections(text: str, *names: str) -> str:
    """These sections of a page, their headings two levels lower; the empty name: what is first."""
    head, *rest = re.split(r"^## ", text, flags=re.MULTILINE)
    _, _, first = head.partition("\n")
    parts = {"": first, **{part.partition("\n")[0]: f"## {part}" for part in rest}}
    chosen = "\n\n".join(parts[name].strip() for name in names)
    return re.sub(r"^(##+) ", r"\1## ", chosen, flags=re.MULTILINE)


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


if __name__ == "__main__":
    sys.exit(main())
