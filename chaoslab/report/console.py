"""The run on a terminal: a live picture where there is one, plain lines where there is not.

    Journal ─► Live.see / Plain.see ─► RunStory ─► draw ─► the terminal

Both are observers: they have no thread, look at no clock but the events', and redraw at most
`_REFRESH_S` apart, so that two busy cores keep training. They cannot change the run.
"""

from collections.abc import Sequence
from typing import Protocol, Self, TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from chaoslab.core.events import Event, Kind
from chaoslab.core.units import plural
from chaoslab.report.sentences import Tone, seconds
from chaoslab.report.story import RunStory
from chaoslab.report.story_parts import Fault, Node, State

_REFRESH_S = 0.33
_PROGRESS_EVERY_S = 5.0
_PROGRESS_CHARS = 68
"""Length of a progress line; with the time before it 80 columns."""
_WIDE = 100
"""Columns from which there is room for everything in one line."""
_BAR_CELLS = 40
_FAULTS_SHOWN = 6
_SENTENCES_SHOWN = 6

_STATE_STYLE = {
    State.WAITING: "dim",
    State.RESERVE: "dim",
    State.STARTING: "cyan",
    State.COMPILING: "cyan",
    State.JOINING: "bold cyan",
    State.STEPPING: "green",
    State.SUSPECTED: "bold yellow",
    State.PAUSED: "bold yellow",
    State.DROPPED: "bold yellow",
    State.DEAD: "bold red",
    State.REJOINING: "bold cyan",
    State.LEFT: "dim",
    State.ENDED: "dim",
    State.SERVING: "green",
    State.BLOCKED: "bold red",
}
_TONE_STYLE = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.BAD: "red", Tone.FAULT: "magenta"}


class Screen(Protocol):
    """An observer that owns a part of the terminal while the run goes on."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def see(self, event: Event) -> None:
        """Called once for each event of the run."""
        ...

    def await_twin(self, failed: Sequence[str]) -> None:
        """Called if the fault-free twin is made now; `failed`: checks that failed without it."""
        ...


def screen(stream: TextIO, story: RunStory) -> Screen:
    """The live view if `stream` is a terminal that can draw it, plain lines otherwise."""
    console = Console(file=stream, emoji=False, highlight=False)
    can_draw = console.is_terminal and not console.is_dumb_terminal
    if can_draw and (console.encoding or "").lower().replace("-", "") == "utf8":
        return Live(console, story)
    return Plain(stream, story)


class Live:
    """One lane per learner, the faults on a time axis, the last sentences; redrawn in place."""

    def __init__(self, console: Console, story: RunStory) -> None:
        self.story = story
        self._begin(console)

    def _begin(self, console: Console) -> None:
        self._live = RichLive(console=console, auto_refresh=False, redirect_stdout=False)
        self._drawn_s = -_REFRESH_S

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()
        self._live.stop()

    def see(self, event: Event) -> None:
        """Take it in; redraw if the picture is old enough."""
        if event.kind is Kind.RUN_STARTED and self.story.plan:
            self._keep_picture()
        self.story.see(event)
        if event.time_s - self._drawn_s >= _REFRESH_S:
            self._drawn_s = event.time_s
            self._draw()

    def await_twin(self, failed: Sequence[str]) -> None:
        """Show it below the picture."""
        self.story.await_twin(failed)
        self._draw()

    def _draw(self) -> None:
        self._live.update(draw(self.story, width=self._live.console.width), refresh=True)

    def _keep_picture(self) -> None:
        """The last picture of one run stays; that of the next is drawn below it."""
        self.__exit__()
        self._begin(self._live.console)
        self._live.start()


class Plain:
    """One line per notable event, and one of progress every few seconds: made for CI logs."""

    def __init__(self, stream: TextIO, story: RunStory) -> None:
        self.story = story
        self._stream = stream
        self._progress_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.flush()

    def see(self, event: Event) -> None:
        """Print what it is worth, if anything."""
        if event.kind is Kind.RUN_STARTED:
            self._progress_s = 0.0
        for sentence in self.story.see(event):
            self._print(sentence.time_s, sentence.text)
        if event.time_s - self._progress_s >= _PROGRESS_EVERY_S:
            self._progress_s = event.time_s
            self._print(event.time_s, _progress(self.story))

    def await_twin(self, failed: Sequence[str]) -> None:
        """Print it."""
        said = self.story.await_twin(failed)
        self._print(said.time_s, said.text)

    def _print(self, time_s: float, text: str) -> None:
        self._stream.write(f"{time_s:8.2f} s  {text}\n")
        self._stream.flush()


# ------------------------------------------------------------------------------- the picture


def draw(story: RunStory, width: int = _WIDE) -> RenderableType:
    """The whole picture of this moment, for a terminal of `width` columns."""
    parts: list[RenderableType] = [_header(story, width), _lanes(story, width)]
    if story.faults:
        parts.append(_timeline(story, width))
    parts.extend(
        beside(f"{sentence.time_s:7.1f} s", sentence.text, _TONE_STYLE[sentence.tone])
        for sentence in list(story.sentences)[-_SENTENCES_SHOWN:]
    )
    return Group(*parts)


def beside(time: str, text: str, style: str) -> Table:
    """A sentence beside its time; long text continues in its own column."""
    row = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    row.add_column(no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(Text(time, style=style), Text(text, style=style))
    return row


def _headline(story: RunStory) -> str:
    """State of the run as a whole, in one line."""
    rate = story.rounds.tokens_per_s
    parts = [
        story.moment or "start",
        plural(story.rounds.merged, "round"),
        f"{rate:,.0f} {story.counted}/s" if rate is not None else "no rate yet",
    ]
    if story.rounds.longest_gap_s:
        parts.append(f"longest gap {seconds(story.rounds.longest_gap_s)}")
    if story.progress is not None:
        parts.append(f"{story.progress:.0%}")
    if story.unreadable:
        parts.append(f"{story.unreadable} unreadable events")
    return " · ".join(parts)


def _counts(story: RunStory) -> str:
    """Number of learners in each state; empty before they were first counted."""
    compiling = story.nodes.compiling
    shown = [f"{name} {number}" for name, number in story.counts.items() if number or not compiling]
    return ", ".join([*shown, *([f"compiling {compiling}"] if compiling else [])])


def _progress(story: RunStory) -> str:
    """Progress of the run, in one line of a log; what does not fit is left out, the last first."""
    rounds, compiling, stepping = story.rounds, story.nodes.compiling, story.counts.get("stepping")
    parts = [plural(rounds.merged, "round")]
    if story.unreadable:
        parts.append(f"{story.unreadable} unreadable events")
    if rounds.longest_gap_s:
        parts.append(f"gap {seconds(rounds.longest_gap_s)}")
    if stepping or (stepping is not None and not compiling):
        parts.append(f"{stepping} stepping")
    if compiling:
        parts.append(f"{compiling} compiling")
    if rounds.tokens_per_s is not None:
        parts.append(f"{rounds.tokens_per_s:,.0f} {story.counted}/s")
    share = "" if story.progress is None else f" {story.progress:.0%}"
    line = f"{story.moment or 'start'}{share}: {parts[0]}"
    for part in parts[1:]:
        if len(line) + len(part) + 2 <= _PROGRESS_CHARS:
            line += f", {part}"
    return line


def _header(story: RunStory, width: int) -> RenderableType:
    title = Text.assemble(
        (f" {story.plan or 'chaoslab'} ", "bold reverse"),
        f"  seed {story.seed} · fleet {story.fleet} · {story.now_s:.1f} s\n",
        f"{_headline(story)}\n",
        _counts(story),
    )
    if story.progress is None:
        return title
    bar = ProgressBar(total=1.0, completed=story.progress, width=min(_BAR_CELLS * 2, width))
    return Group(title, bar)


def _lanes(story: RunStory, width: int) -> Table:
    is_wide = width >= _WIDE
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1 if is_wide else 0, 0, 1), pad_edge=False)
    table.add_column(story.who, no_wrap=True, overflow="fold")
    table.add_column("state", min_width=9, no_wrap=True)
    least = 7 if is_wide else None
    for title in ("incarnation" if is_wide else "incar-\nnation", "step", "steps/s", "loss",
                  "last merged" if is_wide else "last\nmerged"):  # fmt: skip
        table.add_column(title, justify="right", min_width=least, no_wrap=True)
    table.add_column("under", overflow="fold")
    for lane in story.nodes.learners:
        under = ", ".join(bar.fault for bar in story.faults_on(lane.name))
        table.add_row(*_cells(lane, story.now_s), Text(under, style="magenta"))
    return table


def _cells(lane: Node, now_s: float) -> Sequence[RenderableType]:
    age = None if lane.contributed_s is None else now_s - lane.contributed_s
    return (
        lane.name,
        Text(lane.state.value, style=_STATE_STYLE[lane.state]),
        str(lane.incarnation or "-"),
        "-" if lane.step is None else f"{lane.step:,}",
        f"{1 / lane.step_s:.1f}" if lane.step_s else "-",
        "-" if lane.loss is None else f"{lane.loss:.3f}",
        "-" if age is None else f"{age:.1f} s ago",
    )


def _timeline(story: RunStory, width: int) -> Table:
    cells = _BAR_CELLS if width >= _WIDE else _BAR_CELLS // 2
    table = Table(box=None, pad_edge=False, show_header=False)
    for bar in list(story.faults.values())[-_FAULTS_SHOWN:]:
        table.add_row(
            bar.injection,
            Text(bar.fault, style="magenta"),
            ", ".join(bar.targets),
            fault_bar(bar, story.now_s, cells),
            bar.status,
        )
    return table


def fault_bar(bar: Fault, now_s: float, cells: int = _BAR_CELLS) -> Text:
    """The run so far as `cells` characters, the part under the fault filled."""
    span_s = max(now_s, 1e-9)
    first = min(cells - 1, int(bar.from_s / span_s * cells))
    end_s = now_s if bar.healed_s is None else bar.healed_s
    after = min(cells, max(first + 1, round(end_s / span_s * cells)))
    return Text.assemble(
        ("─" * first, "dim"),
        ("█" * (after - first), "red" if bar.is_open else "magenta"),
        ("─" * (cells - after), "dim"),
    )
