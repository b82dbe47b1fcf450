"""A picture of a real run: the live view in mid-fault, and the verdict it came to, as one SVG.

    python docs/picture.py RUN_DIR docs/run.svg

RUN_DIR/journal.jsonl ─► RunStory, up to the middle of the first fault ─► draw ──┐
RUN_DIR/verdict.json ─► verdict_page ─────────────────────────────────────────────┴─► SVG

Nothing is made up: the same code that draws the terminal draws the picture, from the record alone.
The file refers to no font and no address outside of it.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from chaoslab.plan.file import load
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.kinds import kinds
from chaoslab.record.history import History
from chaoslab.report.console import draw
from chaoslab.report.files import read_verdict
from chaoslab.report.page import verdict_page
from chaoslab.report.story import RunStory

COLUMNS = 118

THEME = TerminalTheme(
    (22, 24, 29),
    (214, 218, 224),
    [(58, 63, 75), (240, 113, 120), (135, 200, 120), (229, 192, 103), (97, 165, 240),
     (206, 140, 230), (86, 194, 194), (214, 218, 224)],
    [(92, 99, 112), (255, 135, 140), (160, 225, 140), (245, 210, 130), (130, 190, 255),
     (225, 165, 245), (110, 220, 220), (255, 255, 255)],
)  # fmt: skip

BODY = """\
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
<rect fill="#16181d" x="1" y="1" width="{width}" height="{height}" rx="8"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
"""
"""rich's own frame without its web font, its window buttons and its title bar."""
FRAME = f"""\
<svg class="terminal" viewBox="0 0 {{width}} {{height}}" xmlns="http://www.w3.org/2000/svg">
<title>A run of chaoslab: the live view while half of the learners are dead, and the verdict</title>
{BODY}</svg>
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the run that the command line names; 2 if it shows no fault or was never judged."""
    parser = argparse.ArgumentParser(description="Draw a picture of a run from its record.")
    parser.add_argument("run", type=Path, metavar="RUN_DIR")
    parser.add_argument("picture", type=Path, metavar="SVG")
    given = parser.parse_args(arguments)
    try:
        given.picture.write_text(picture(given.run.resolve()), encoding="utf-8")
    except ValueError as error:
        sys.stderr.write(f"docs/picture.py: {error}\n")
        return 2
    return 0


def picture(run: Path) -> str:
    """The SVG of a run directory; ValueError if there is nothing to show."""
    history, plan, verdict = read(run)
    if not (spans := spans_of(history)):
        raise ValueError("the run shows no fault that began and was healed")
    return drawn(
        FRAME, "chaoslab", Text(f"$ chaoslab run {plan.name}", style="bold"),
        draw(story_at(mean(spans[0]), history, plan)),
        Rule("the run goes on to its end, and then", style="dim"), verdict,
    )  # fmt: skip


def read(run: Path) -> tuple[History, FaultPlan, RenderableType]:
    """A record, its plan, and the page of its verdict; ValueError if it was never judged."""
    history, verdict = History.read(run), read_verdict(run)
    if verdict is None:
        raise ValueError(f"{run} was never judged: run `chaoslab show {run} --judge` first")
    plan, _ = load(run / "plan.resolved.yaml", kinds(), is_record=True)
    return history, plan, verdict_page(verdict, history, Path("runs", run.parent.name, run.name))


def drawn(frame: str, name: str, *parts: RenderableType) -> str:
    """A terminal that shows these, in that frame; its styles are of that name."""
    with Path("/dev/null").open("w", encoding="utf-8") as nowhere:
        console = Console(
            record=True, width=COLUMNS, highlight=False, file=nowhere, force_terminal=True,
            color_system="truecolor",
        )  # fmt: skip
        for part in parts:
            console.print(Padding(part, (0, 2, 1, 2)))
        return console.export_svg(code_format=frame, theme=THEME, unique_id=name)


def spans_of(history: History) -> list[tuple[float, float]]:
    """From the injection to the heal of each fault, in seconds of the run."""
    return [
        (one.injected.time_s, one.healing.time_s)
        for one in history.faults
        if one.injected and one.healing
    ]


def story_at(time_s: float, history: History, plan: FaultPlan) -> RunStory:
    """What the live view had taken in by then."""
    view = RunStory(plan.training.stop)
    for event in history.events:
        if event.time_s <= time_s:
            view.see(event)
    return view


if __name__ == "__main__":
    sys.exit(main())
