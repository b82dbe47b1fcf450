"""Terminal of a game-day: the picture of the run, what waits for a decision, and an input line.

    events ──────► see ──┐                 ┌─► picture (`report.console`), waiting, last words
                         ├─► what is shown ┤
    keys ─► LineEditor ──┘       │         └─► help, input line, what is wrong with the last one
                                 └─► Room.tell ─► the run

Where no keys can be read one by one, or nothing can be drawn, lines are read and printed instead.
Neither changes the run otherwise than by orders.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from threading import RLock
from typing import Final, Self, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Kind, MalformedEvent
from chaoslab.core.payloads import Action, FaultHeld, OfInjection, OperatorActed
from chaoslab.core.units import plural
from chaoslab.gameday.keyboard import Reader, is_at_hand, unbuffered
from chaoslab.gameday.line_editor import LineEditor
from chaoslab.gameday.orders import FORMS, HELP, Room, completed, help_lines, said, usage
from chaoslab.gameday.script import Script, line_of
from chaoslab.plan.file.document import printable
from chaoslab.report.console import Plain, Screen, beside, draw
from chaoslab.report.sentences import Sentence
from chaoslab.report.view import ViewModel

COMMANDS: Final = " · ".join((*FORMS, HELP))
CTRL_C: Final = "Ctrl-C aborts and heals everything"
KEPT: Final = "no fault waits for you: training goes on until somebody types `end`"
_REFRESH_S = 0.33
_WORDS_SHOWN = 3
_FORGET = frozenset({Kind.FAULT_INJECTING, Kind.FAULT_SKIPPED})
_OPERATORS = "operator."


def gameday_screen(
    keyboard: TextIO, stream: TextIO, view: ViewModel, room: Room, script: Script
) -> Screen:
    """The live picture with an input line if both streams are terminals, lines otherwise."""
    console = Console(file=stream, emoji=False, highlight=False)
    fd = _fd(keyboard)
    can_draw = console.is_terminal and not console.is_dumb_terminal
    is_utf8 = (console.encoding or "").lower().replace("-", "") == "utf8"
    if fd is not None and is_at_hand(fd) and can_draw and is_utf8:
        return Terminal(console, view, room, fd)
    return Printed(keyboard, stream, view, room, script)


class Waiting:
    """Entries of the plan that wait for an operator now, and what is expected of them."""

    def __init__(self, room: Room) -> None:
        self.hypotheses: Mapping[str, str] = room.plan.charter.hypotheses
        self.entries: dict[str, FaultHeld] = {}
        self.changes: dict[str, str] = {}
        """By entry: how it was made milder or stronger."""
        self.is_kept = room.inbox.keep
        """Whether training goes on until somebody asks for the end."""

    def see(self, event: Event) -> None:
        """Take it in."""
        if event.kind not in {Kind.FAULT_HELD, Kind.OPERATOR_ACTED, *_FORGET}:
            return
        match event.payload:
            case FaultHeld() as held:
                self.entries[held.spec] = held
            case OperatorActed(action=Action.MILDER | Action.STRONGER as action) as acted:
                self.changes[acted.spec] = f"{action}: {acted.reason}"
            case OperatorActed(action=Action.GO | Action.SKIP, spec=spec):
                self.entries.pop(spec, None)
            case OperatorActed(action=Action.END):
                self.is_kept = False
            case OfInjection(spec=spec):
                self.entries.pop(spec, None)

    def told(self, spec: str) -> Sequence[str]:
        """What may be known of an entry that waits, a line each: not which nodes are hit."""
        held, hypothesis = self.entries[spec], self.hypotheses.get(spec, "")
        where = f" on {plural(len(held.targets), 'node')}" if held.targets else ""
        lines = [f"{spec}: {held.fault}{where} ({held.trigger})", self.changes.get(spec, "")]
        lines.append(f"expected: {hypothesis}" if hypothesis else "nothing is expected of it")
        return [printable(line) for line in lines if line]


# ---------------------------------------------------------------- a terminal


class Terminal:
    """Implements `report.console.Screen` with an input line below the picture."""

    def __init__(self, console: Console, view: ViewModel, room: Room, keyboard: int) -> None:
        """`keyboard`: the descriptor of a terminal."""
        self._console, self._view, self._room, self._fd = console, view, room, keyboard
        self._waiting = Waiting(room)
        self._words: deque[Sentence] = deque(maxlen=_WORDS_SHOWN)
        self._below: Sequence[str] = ()
        """What the last line led to: a mistake, or help."""
        self._editor = LineEditor(lambda line: completed(line, room.names))
        self._drawn_s = -_REFRESH_S
        self._live = self._new_live()
        self._lock = RLock()
        self._entered = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(unbuffered(self._fd))
            self._live.start()
            stack.callback(self._end_picture)
            stack.enter_context(Reader(self._fd, self.type))
            self._entered = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.close()

    def see(self, event: Event) -> None:
        """Take it in; redraw if the picture is old enough, or somebody is to decide."""
        with self._lock:
            if event.kind is Kind.RUN_STARTED and self._view.plan:
                self._keep_picture()
            sentences = self._view.see(event)
            if event.kind.startswith(_OPERATORS):
                self._words.extend(sentences)
            _seen(self._waiting, event)
            is_old = event.time_s - self._drawn_s >= _REFRESH_S or event.time_s < self._drawn_s
            if is_old or event.kind is Kind.FAULT_HELD:
                self._drawn_s = event.time_s
                self._draw()

    def type(self, data: bytes) -> None:
        """Take typed bytes in, from any thread."""
        with self._lock:
            for line in self._editor.feed(data):
                self._submit(line)
            self._draw()

    def _submit(self, line: str) -> None:
        self._below = ()
        if said(line, by="").word == HELP:
            self._below = help_lines()
            return
        try:
            self._room.tell(line)
        except PlanError as error:
            self._below = (error.message,)

    # ---------------------------------------------------------------- the picture

    def _new_live(self) -> Live:
        return Live(console=self._console, auto_refresh=False, redirect_stdout=False)

    def _draw(self) -> None:
        picture = draw(self._view, width=self._console.width)
        self._live.update(_Fitting(picture, Group(*self._decisions(), *self._typing())),
                          refresh=True)  # fmt: skip

    def _end_picture(self) -> None:
        with self._lock:
            picture = draw(self._view, width=self._console.width)
            self._live.update(Group(picture, *self._decisions()), refresh=True)
            self._live.stop()

    def _keep_picture(self) -> None:
        """The last picture of one run stays; that of the next is drawn below it."""
        self._end_picture()
        self._words.clear()
        self._live, self._drawn_s = self._new_live(), -_REFRESH_S
        self._live.start()

    def _decisions(self) -> Sequence[RenderableType]:
        """What waits, and what was said last."""
        waits = [
            beside(f"{'' if number else 'waits':9}", line, "" if number else "bold magenta")
            for spec in self._waiting.entries
            for number, line in enumerate(self._waiting.told(spec))
        ]
        if not waits and self._waiting.is_kept and self._view.phase == "inject":
            waits = [beside(f"{'':9}", KEPT, "bold")]
        words = [beside(f"{one.time_s:7.1f} s", one.text, "cyan") for one in self._words]
        return [*waits, *words]

    def _typing(self) -> Sequence[RenderableType]:
        """Help, the input line, and what is below it."""
        typed = Text.assemble(
            (f"{printable(self._room.by)}> ", "bold"), self._editor.text, (" ", "reverse")
        )
        below, style = self._hint()
        return [
            Text(f"{COMMANDS}   (Tab completes)", style="dim"),
            Text(CTRL_C, style="dim"),
            typed,
            *(Text(line, style=style) for line in below),
        ]

    def _hint(self) -> tuple[Sequence[str], str]:
        """What stands below the input line, and its style."""
        if choices := self._editor.choices:
            return ["   ".join(choices)], "dim"
        if form := usage(self._editor.text):
            return [form], "dim"
        return self._below, "red" if len(self._below) == 1 else "dim"


class _Fitting:
    """The picture above what must always be seen, cut at its end where the terminal is too low."""

    def __init__(self, picture: RenderableType, below: RenderableType) -> None:
        self._picture, self._below = picture, below

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.size.height - 1
        below = console.render_lines(self._below, options, pad=False)[-height:]
        picture = console.render_lines(self._picture, options, pad=False)
        lines = [*picture[: height - len(below)], *below]
        for number, line in enumerate(lines):
            if number:
                yield Segment.line()
            yield from line


# ---------------------------------------------------------------- no terminal


class Printed:
    """Implements `report.console.Screen` in lines: those of the run, and orders from a pipe."""

    def __init__(
        self, keyboard: TextIO | None, stream: TextIO, view: ViewModel, room: Room, script: Script
    ) -> None:
        """`keyboard`: where lines of the script come from as it goes on; None: nowhere."""
        self._keyboard, self._stream, self._room, self._script = keyboard, stream, room, script
        self._plain, self._waiting = Plain(stream, view), Waiting(room)
        self._rest = b""
        self._number = 0
        self._lock = RLock()
        self._entered = ExitStack()

    def __enter__(self) -> Self:
        fd = None if self._keyboard is None else _fd(self._keyboard)
        if fd is not None:
            self._entered.enter_context(Reader(fd, self.type))
        elif self._keyboard is not None:  # a stream without a file holds all that will come
            self.type(self._keyboard.read().encode())
            self.type(b"")
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.close()

    def see(self, event: Event) -> None:
        """Print what it is worth."""
        with self._lock:
            self._plain.see(event)
            _seen(self._waiting, event)
            if event.kind is Kind.FAULT_HELD and (waiting := list(self._waiting.entries)):
                self._print(self._waiting.told(waiting[-1])[-1])

    def type(self, data: bytes) -> None:
        """Take bytes of lines in, from any thread; no bytes: nothing more comes."""
        *lines, self._rest = (self._rest + (data or b"\n")).split(b"\n")
        for line in lines:
            self._number += 1
            self._take(line.decode(errors="replace"))
        if not data:
            self._script.end()

    def _take(self, written: str) -> None:
        if said(written, by="").word == HELP:
            self._print("\n".join(help_lines()))
            return
        where = f"line {self._number}"
        try:
            line = line_of(written, where=where, by=self._room.by, names=self._room.names)
        except PlanError as error:
            self._print(str(error))
            return
        if line is not None:
            self._script.add(line)

    def _print(self, text: str) -> None:
        with self._lock:
            self._stream.write("".join(f"{'':12}{line}\n" for line in text.splitlines()))
            self._stream.flush()


def _seen(waiting: Waiting, event: Event) -> None:
    try:
        waiting.see(event)
    except MalformedEvent:
        return  # the picture counts it


def _fd(stream: TextIO) -> int | None:
    """The descriptor of a stream; None if it has none."""
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None
