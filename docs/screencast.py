"""Screencasts of real runs: docs/first_gate.svg and docs/gameday/screencast.svg.

    python -m docs.screencast        two minutes

    commands of docs/trainers.md ──────► really run ─┬─► what they print ─────┬─► frames ─► SVG
    docs/examples/gameday.*, simulated ──► likewise ─┴─► records, at moments ─┘

A file plays by CSS alone, and refers to no font, script or address outside of it. Nothing is made
up: what a frame shows was printed, or is drawn from a record as the terminal draws it.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import RenderableType
from rich.text import Text

from chaoslab.report.console import draw
from docs import picture

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
_WIDTH = picture.COLUMNS - 4
_SHOWN_S = 4.0
_AROUND_S = 1.0
"""Before an injection and after a heal."""
Frame = Sequence[RenderableType]


def main() -> None:
    """Run what the screencasts show, and write them."""
    for scene, target in ((first_gate, "first_gate.svg"), (game_day, "gameday/screencast.svg")):
        with TemporaryDirectory() as folder:
            frames = list(scene(Path(folder)))
        (ROOT / "docs" / target).write_text(animated(frames), encoding="utf-8")


def first_gate(place: Path) -> Iterator[Frame]:
    """A training with a defect gets a gate, which finds it; mended, it passes."""
    page = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")
    (program, *_) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (place / "train.py").write_text(program, encoding="utf-8")
    init = "chaoslab init --trains script --ci github -- python3 train.py --out {folder}"
    yield Text(f"$ {init}", "bold"), called(place, init)
    run = "chaoslab run fault_plans/first_gate.yaml"
    called(place, run, expected=1)
    yield from moments(place, run)
    mend = """sed -i 's/exists("last.json")/exists(path)/' train.py"""
    subprocess.run(shlex.split(mend), cwd=place, check=True)
    called(place, run)
    yield from moments(place, f"{mend} && {run}")


def game_day(place: Path) -> Iterator[Frame]:
    """The worked example of docs/gameday.md, on simulated nodes."""
    for name in ("gameday.yaml", "gameday.txt"):
        shutil.copy(EXAMPLES / name, place)
    command = "chaoslab gameday gameday.yaml --fleet sim --script gameday.txt --yes --by Ann"
    called(place, command)
    yield from moments(place, command)


def called(place: Path, command: str, *, expected: int = 0) -> Text:
    """What a command printed; SystemExit if its exit code is another."""
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        (sys.executable, "-m", *shlex.split(command)), cwd=place, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path, "FORCE_COLOR": "1", "COLUMNS": str(_WIDTH)},
        check=False,
    )  # fmt: skip
    if done.returncode != expected:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return Text.from_ansi(done.stdout)


def moments(place: Path, command: str) -> Iterator[Frame]:
    """The live view before, in and after each fault of the newest run, and its verdict."""
    history, plan, verdict = picture.read((place / "runs" / "latest").resolve())
    for began_s, healed_s in picture.spans_of(history):
        for time_s in (began_s - _AROUND_S, (began_s + healed_s) / 2, healed_s + _AROUND_S):
            story = picture.story_at(time_s, history, plan)
            yield Text(f"$ {command}", "bold"), draw(story, _WIDTH)
    yield Text(f"$ {command}", "bold"), verdict


def animated(frames: Sequence[Frame]) -> str:
    """The frames one after the other, for ever; the last alone for who wants no motion."""
    groups, rules = [], []
    for at, frame in enumerate(frames):
        group = f'<g class="frame f{at}">\n{picture.BODY}</g>'
        groups.append(picture.drawn(group, f"t{at}", *frame))
        begins, ends = (f"{100 * edge / len(frames):.2f}%" for edge in (at, at + 1))
        rules.append(
            f".f{at} {{ animation-name: f{at} }}\n"
            f"@keyframes f{at} {{ 0%, 100% {{ visibility: hidden }} "
            f"{begins} {{ visibility: visible }} {ends} {{ visibility: hidden }} }}"
        )
    text, styles = "\n".join(groups), "\n".join(rules)
    size = r'<rect fill="#16181d" x="1" y="1" width="([\d.]+)" height="([\d.]+)"'
    width, height = (max(map(float, sides)) for sides in zip(*re.findall(size, text), strict=True))
    return f"""\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.frame {{ visibility: hidden; animation: {len(frames) * _SHOWN_S}s step-end infinite }}
{styles}
@media (prefers-reduced-motion: reduce) {{
  .frame {{ animation: none }}
  .frame:last-of-type {{ visibility: visible }}
}}
</style>
<rect fill="#16181d" width="{width}" height="{height}" rx="8"/>
{text}
</svg>
"""


if __name__ == "__main__":
    main()
