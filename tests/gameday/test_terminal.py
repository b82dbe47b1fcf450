"""The lines of a game-day: over a real pseudo-terminal, and in a pipe without one."""

import io
import os
import pty
import termios
from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import Action, FaultInjected, OperatorNoted
from chaoslab.gameday import terminal
from chaoslab.gameday.orders import OperatorConsole
from chaoslab.gameday.script import Script
from chaoslab.gameday.terminal import COMMANDS, CTRL_C, KEPT, Printed
from chaoslab.report.story import RunStory
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


def printed(keyboard: Any, inbox: Inbox) -> tuple[Printed, Script, io.StringIO]:
    """The lines, the script that those of people belong to, and what is shown."""
    script, shown = Script(inbox, by="Ann", holds=sorted(PLAN.held)), io.StringIO()
    room = OperatorConsole(plan=PLAN, by="Ann", inbox=inbox)
    return Printed(keyboard, shown, RunStory(PLAN.training.stop), room, script), script, shown


class Tty:
    """A keyboard that is a terminal, of a run that is kept."""

    def __init__(self) -> None:
        self.fingers, fd = pty.openpty()
        self.keyboard = open(fd)  # noqa: SIM115  # closed by the fixture
        self.before = termios.tcgetattr(fd)
        self.inbox = Watched(keep=True)
        self.lines, self.script, self.shown = printed(self.keyboard, self.inbox)

    def press(self, keys: bytes) -> None:
        os.write(self.fingers, keys)


@pytest.fixture
def tty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tty]:
    monkeypatch.setattr(terminal, "is_at_hand", lambda _: True)  # of this session it is not
    made = Tty()
    yield made
    os.close(made.fingers)
    made.keyboard.close()


def test_what_is_typed_reaches_the_run_and_the_terminal_stays_as_it_is(tty: Tty) -> None:
    with tty.lines:
        tty.press(b"go half-dies\n")
        assert tty.inbox.next() == [Ask(by="Ann", action=Action.GO, spec="half-dies")]
        tty.press(b"Bo> note slap\x7f\x7fow\n")
        assert tty.inbox.next() == [Note(by="Bo", text="slow")]
        assert termios.tcgetattr(tty.keyboard.fileno()) == tty.before
    assert [part for part in (COMMANDS, CTRL_C, KEPT) if part not in tty.shown.getvalue()] == []


def test_ctrl_d_ends_nothing(tty: Tty) -> None:
    with tty.lines:
        tty.press(b"\x04")
        tty.press(b"heal\n")
        assert tty.inbox.next() == [Ask(by="Ann", action=Action.HEAL)]


def test_a_terminal_that_goes_away_leaves_the_run_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal, "is_at_hand", lambda _: True)
    tty, is_ended, has_come = Tty(), [], Flag()
    take = tty.lines.type
    monkeypatch.setattr(tty.script, "end", lambda: is_ended.append(True))
    monkeypatch.setattr(tty.lines, "type", lambda data: (take(data), has_come.set()))
    with tty.lines:
        os.close(tty.fingers)
        assert has_come.wait(LIMIT_S)
    tty.keyboard.close()
    assert not is_ended


def test_a_run_goes_on_under_the_terminal(tmp_path: Path, tty: Tty) -> None:
    """A typist lets faults go when the record shows that they wait, and ends it."""

    class Typist:
        def see(self, event: Event) -> None:
            if event.kind is Kind.FAULT_HELD:
                self.type(b"go\n")
            if event.kind is Kind.FAULT_HEALED and event.data["spec"] == "other":
                self.type(b"end\n")

        def type(self, line: bytes) -> None:
            tty.inbox.has_come.clear()
            tty.press(line)
            assert tty.inbox.has_come.wait(LIMIT_S)

    with tty.lines as lines:
        history = Stage(
            tmp_path, (HALF, SECOND), plan=PLAN, inbox=tty.inbox,
            observers=[lines, tty.script, Typist()],
        ).execute()  # fmt: skip
    assert len(history.of(FaultInjected)) == 2
    assert ending(history)[0] == "completed"
    assert "expected: training goes on" in tty.shown.getvalue()


# ---------------------------------------------------------------- without a terminal


def test_without_a_terminal_lines_of_a_pipe_are_orders_and_waits(tmp_path: Path) -> None:
    inbox = Inbox()
    text = "wait half-dies held\nBo> go half-dies\nhlep\nhelp\nwait half-dies healed\nnote back"
    screen, script, shown = printed(io.StringIO(text), inbox)
    with screen:
        history = Stage(
            tmp_path, (HALF, SECOND), plan=PLAN, inbox=inbox, observers=[screen, script]
        ).execute()
    lines = shown.getvalue()
    assert len(history.of(FaultInjected)) == 1
    assert [event.payload.text for event in history.of(OperatorNoted)] == ["back"]
    told = ("half-dies waits", "training goes on", "line 3: ", "`hlep`", "NAME> COMMAND")
    assert [part for part in told if part not in lines] == []
    assert COMMANDS not in lines
    assert "\x1b" not in lines


def test_lines_of_a_pipe_are_taken_as_they_come() -> None:
    inbox = Watched()
    end, begin = os.pipe()
    with open(end) as keyboard, printed(keyboard, inbox)[0]:
        os.write(begin, b"go half-dies\nnote ha")
        assert inbox.next() == [Ask(by="Ann", action=Action.GO, spec="half-dies")]
        os.write(begin, "lf ☃\n".encode())
        assert inbox.next() == [Note(by="Ann", text="half ☃")]
        os.write(begin, b"heal")
        os.close(begin)  # the last line needs no end
        assert inbox.next() == [Ask(by="Ann", action=Action.HEAL)]


def test_a_silent_pipe_does_not_keep_the_run() -> None:
    end, begin = os.pipe()
    with open(end) as keyboard, printed(keyboard, Inbox())[0]:
        pass
    os.close(begin)
