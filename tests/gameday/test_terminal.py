"""The screen of a game-day: over a real pseudo-terminal, and in lines without one."""

import io
import os
import pty
import re
import termios
from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest
from rich.console import Console

from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import Action, FaultInjected, OperatorNoted
from chaoslab.gameday.keyboard import unbuffered
from chaoslab.gameday.orders import Room
from chaoslab.gameday.script import Script
from chaoslab.gameday.terminal import COMMANDS, CTRL_C, KEPT, Printed, Terminal, gameday_screen
from chaoslab.report.view import ViewModel
from chaoslab.run.operators import Ask, Inbox, Note, Order
from tests.gameday_room import SECOND, plan_of
from tests.stage import HALF, Stage, ending

LIMIT_S = 60.0
PLAN = plan_of()


class Watched(Inbox):
    """Tells when an order has come."""

    def __init__(self, *, keep: bool = False) -> None:
        super().__init__(keep=keep)
        self.has_come = Flag()

    def put(self, order: Order) -> bool:
        is_taken = super().put(order)
        self.has_come.set()
        return is_taken

    def next(self) -> list[Order]:
        """What has come, as soon as something has."""
        assert self.has_come.wait(LIMIT_S)
        self.has_come.clear()
        return list(self.take())


class Tty:
    """A keyboard that is a terminal, and a picture that is kept."""

    def __init__(self, inbox: Inbox, *, height: int) -> None:
        self.fingers, self.fd = pty.openpty()
        self.before = termios.tcgetattr(self.fd)
        self.drawn = io.StringIO()
        console = Console(file=self.drawn, force_terminal=True, width=120, height=height)
        room = Room(plan=PLAN, by="Ann", inbox=inbox)
        self.terminal = Terminal(console, ViewModel(PLAN.training.stop), room, self.fd)

    def press(self, keys: bytes) -> None:
        os.write(self.fingers, keys)

    def picture(self) -> str:
        """What was drawn last, without colours."""
        last = self.drawn.getvalue().rpartition("\x1b[2K")[2]
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", last)


@pytest.fixture
def inbox(request: pytest.FixtureRequest) -> Watched:
    """Of a run that is kept, if the parameter of a test says so."""
    return Watched(keep=getattr(request, "param", False))


@pytest.fixture
def tty(inbox: Watched, request: pytest.FixtureRequest) -> Iterator[Tty]:
    """As high as the parameter of a test says."""
    made = Tty(inbox, height=getattr(request, "param", 60))
    yield made
    os.close(made.fingers)
    os.close(made.fd)


def told(time_s: float, kind: Kind, **data: Any) -> Event:
    return Event(seq=0, time_s=time_s, source="test", kind=kind, data=data)


HELD = told(9.0, Kind.FAULT_HELD, spec="half-dies", fault="process.kill", trigger="at round 20",
            injections=1, targets=["learner-1", "learner-3"])  # fmt: skip


def test_what_is_typed_reaches_the_run_and_the_terminal_is_put_back(
    tty: Tty, inbox: Watched
) -> None:
    with tty.terminal:
        assert not termios.tcgetattr(tty.fd)[3] & (termios.ECHO | termios.ICANON)
        assert termios.tcgetattr(tty.fd)[3] & termios.ISIG, "Ctrl-C stays a signal"
        tty.press(b"go half-dies\n")
        assert inbox.next() == [Ask(by="Ann", action=Action.GO, spec="half-dies")]
        tty.press(b"Bo> note sl")
        tty.press(b"ow\r")
        assert inbox.next() == [Note(by="Bo", text="slow")]
    assert termios.tcgetattr(tty.fd) == tty.before


def test_the_terminal_is_put_back_after_an_error(tty: Tty) -> None:
    with pytest.raises(ZeroDivisionError), tty.terminal:
        raise ZeroDivisionError
    assert termios.tcgetattr(tty.fd) == tty.before


def test_the_terminal_is_put_back_if_it_cannot_be_drawn_on(
    tty: Tty, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("chaoslab.gameday.terminal.Reader.__enter__", broken)
    with pytest.raises(OSError, match="no space"), tty.terminal:
        pass
    assert termios.tcgetattr(tty.fd) == tty.before


def test_a_keyboard_that_goes_away_leaves_the_run_alone(inbox: Watched) -> None:
    tty = Tty(inbox, height=60)
    with tty.terminal:
        os.close(tty.fingers)
        tty.terminal.see(HELD)
    os.close(tty.fd)


def test_no_key_but_ctrl_c_stops_the_harness(tty: Tty) -> None:
    with unbuffered(tty.fd):
        mode = termios.tcgetattr(tty.fd)
    assert not mode[0] & termios.IXON, "Ctrl-S"
    for name in ("VSUSP", "VDSUSP", "VQUIT"):  # Ctrl-Z, Ctrl-Y, Ctrl-\\
        if place := getattr(termios, name, None):
            assert ord(mode[6][place]) == os.fpathconf(tty.fd, "PC_VDISABLE"), name
    assert mode[6][termios.VINTR] == tty.before[6][termios.VINTR]


def test_the_screen_shows_what_waits_how_to_decide_and_what_was_decided(tty: Tty) -> None:
    acted = {"by": "Bo", "spec": "half-dies"}
    waits = ("process.kill on 2 nodes", "training goes on", COMMANDS, CTRL_C, "Ann>")
    with tty.terminal as screen:
        screen.see(HELD)
        assert [part for part in waits if part not in tty.picture()] == []
        screen.see(told(10, Kind.OPERATOR_ACTED, action="milder", reason="learner-1", **acted))
        assert "milder: learner-1" in tty.picture()
        screen.see(told(11, Kind.OPERATOR_ACTED, action="go", **acted))
        gone = tty.picture()
    assert "Bo: go half-dies" in gone
    assert "training goes on" not in gone


@pytest.mark.parametrize("inbox", [True], indirect=True)
def test_a_kept_run_says_how_it_ends(tty: Tty) -> None:
    with tty.terminal as screen:
        screen.see(told(9, Kind.PHASE_ENTERED, phase="inject"))
        assert KEPT in tty.picture()
        screen.see(told(10, Kind.OPERATOR_ACTED, by="Bo", action="end"))
        assert KEPT not in tty.picture()


def test_mistakes_help_and_choices_stand_below_the_editor(tty: Tty, inbox: Watched) -> None:
    with tty.terminal as screen:
        screen.type(b"goo half-dies\r")
        screen.type(b"ski")
        assert "`go`" in tty.picture()
        screen.type(b"p\t")
        assert "skip FAULT" in tty.picture()
        screen.type(b"\x15h\t")
        assert "heal   help" in tty.picture()
        screen.type(b"lp\r")
        assert "NAME> COMMAND" in tty.picture()
    assert list(inbox.take()) == []


@pytest.mark.parametrize("tty", [10], indirect=True)
def test_the_input_line_is_seen_on_a_low_terminal(tty: Tty) -> None:
    learners = [f"learner-{number}" for number in range(20)]
    with tty.terminal as screen:
        screen.see(told(0, Kind.RUN_STARTED, plan="many", seed=7, fleet="local",
                        algorithm="decoupled", version="1", learners=learners))  # fmt: skip
        screen.see(HELD)
        shown = tty.picture()
    assert all(part in shown for part in (CTRL_C, "Ann>", "many"))
    assert "learner-19" not in shown


def test_a_run_goes_on_under_the_terminal(tmp_path: Path, tty: Tty, inbox: Watched) -> None:
    """A typist lets faults go when the screen shows that they wait."""

    class Typist:
        def see(self, event: Event) -> None:
            if event.kind is Kind.FAULT_HELD:
                tty.press(b"go\r")
                assert inbox.has_come.wait(LIMIT_S)
                inbox.has_come.clear()

    with tty.terminal as screen:
        history = Stage(
            tmp_path, (HALF, SECOND), plan=PLAN, inbox=inbox, observers=[screen, Typist()]
        ).execute()
    assert len(history.of(FaultInjected)) == 2
    assert ending(history)[0] == "completed"
    assert termios.tcgetattr(tty.fd) == tty.before


# ---------------------------------------------------------------- without a terminal


def printed(text: str, inbox: Inbox, stream: io.StringIO) -> tuple[Printed, Script]:
    script = Script(inbox, by="Ann", holds=sorted(PLAN.held))
    screen = gameday_screen(
        io.StringIO(text), stream, ViewModel(PLAN.training.stop),
        Room(plan=PLAN, by="Ann", inbox=inbox), script,
    )  # fmt: skip
    assert isinstance(screen, Printed)
    return screen, script


def test_without_a_terminal_lines_of_a_pipe_are_orders_and_waits(tmp_path: Path) -> None:
    inbox, stream = Inbox(), io.StringIO()
    text = "wait half-dies held\nBo> go half-dies\nhlep\nhelp\nwait half-dies healed\nnote back"
    screen, script = printed(text, inbox, stream)
    with screen:
        history = Stage(
            tmp_path, (HALF, SECOND), plan=PLAN, inbox=inbox, observers=[screen, script]
        ).execute()
    lines = stream.getvalue()
    assert len(history.of(FaultInjected)) == 1
    assert [event.payload.text for event in history.of(OperatorNoted)] == ["back"]
    told = ("half-dies waits", "training goes on", "line 3: ", "`hlep`", "NAME> COMMAND")
    assert [part for part in told if part not in lines] == []
    assert "\x1b" not in lines


def test_lines_of_a_pipe_are_taken_as_they_come() -> None:
    inbox, stream = Watched(), io.StringIO()
    end, begin = os.pipe()
    script = Script(inbox, by="Ann")
    room = Room(plan=PLAN, by="Ann", inbox=inbox)
    with open(end) as keyboard, Printed(keyboard, stream, ViewModel(), room, script):
        os.write(begin, b"go half-dies\nnote ha")
        assert inbox.next() == [Ask(by="Ann", action=Action.GO, spec="half-dies")]
        os.write(begin, "lf ☃\n".encode())
        assert inbox.next() == [Note(by="Ann", text="half ☃")]
        os.write(begin, b"heal")
        os.close(begin)  # the last line needs no end
        assert inbox.next() == [Ask(by="Ann", action=Action.HEAL)]


def test_a_silent_pipe_does_not_keep_the_run() -> None:
    end, begin = os.pipe()
    script = Script(Inbox(), by="Ann")
    room = Room(plan=PLAN, by="Ann", inbox=Inbox())
    with open(end) as keyboard, Printed(keyboard, io.StringIO(), ViewModel(), room, script):
        pass
    os.close(begin)
