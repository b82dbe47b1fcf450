"""Sealed faults before they come: no file, page or terminal tells of them."""

import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import FaultInjecting
from chaoslab.gameday.live.access import Denied, Role
from chaoslab.gameday.live.bodies import Remark
from chaoslab.gameday.live.picture import Picture, RoleMessages
from chaoslab.gameday.orders import Names, OperatorConsole
from chaoslab.gameday.script import Script, read_script
from chaoslab.gameday.terminal import Printed
from chaoslab.plan.model import Injection
from chaoslab.prepare.plans import Prepared
from chaoslab.record.journal import Observer
from chaoslab.record.journal_file import JOURNAL
from chaoslab.report.story import RunStory
from chaoslab.run.judged_run import JudgedRun, run_and_judge
from chaoslab.run.operators import Inbox
from tests.sealed_day import DAY, call, drawn, history_of, prepared, within

pytestmark = pytest.mark.usefixtures("folder")


@dataclass
class Spy:
    """What of a run could be known just before the first sealed fault came."""

    plan: Prepared
    stream: io.StringIO
    directory: Path = Path()
    picture: Picture = field(init=False)
    files: dict[str, bytes] = field(default_factory=dict)
    """Content by name."""
    told: list[RoleMessages] = field(default_factory=list)
    shown: str = ""
    events: list[Event] = field(default_factory=list)
    is_over: bool = False

    def __post_init__(self) -> None:
        self.picture = Picture(self.plan.plan, is_kept=False)

    def see(self, event: Event) -> None:
        if self.is_over or self._is_sealed(event):
            self.is_over = True
            return
        self.events.append(event)
        self.told += self.picture.see(event)
        if event.kind is Kind.COUNTS_SAMPLED:  # once a second
            self.files = {
                str(path.relative_to(self.directory)): path.read_bytes()
                for path in self.directory.rglob("*")
                if path.is_file()
            }
            roles = {role: self.picture.to_json(role) for role in Role}
            said = {role: [one.to(role) for one in self.told] for role in Role}
            self.shown = json.dumps([roles, said, self.stream.getvalue()])

    def ended(self) -> None:
        """Of the journal, all that stood in it before the fault is known now."""
        lines = (self.directory / JOURNAL).read_bytes().split(b"\n")
        first = next(number for number, line in enumerate(lines) if b'"sealed-1"' in line)
        assert b"fault.injecting" in lines[first]
        self.files[JOURNAL] = b"\n".join(lines[:first])

    def _is_sealed(self, event: Event) -> bool:
        return event.kind is Kind.FAULT_INJECTING and event.payload.spec.startswith("sealed-")


def spied() -> tuple[Spy, Sequence[Injection], JudgedRun]:
    """A game-day in which nobody is told anything, watched by its files, its page, its terminal."""
    plan = prepared()
    sealed = drawn(plan)
    inbox = Inbox(sealed=sealed)
    lines = read_script(DAY, source="day", by="Ann", names=Names.of(plan.plan))
    script = Script(inbox, lines, by="Ann", holds=plan.plan.held)
    spy = Spy(plan, io.StringIO())
    room = OperatorConsole(plan=plan.plan, by="Ann", inbox=inbox)
    terminal = Printed(None, spy.stream, RunStory(plan.plan.training.stop), room, script)
    script.end()
    watching: list[Observer] = [spy, terminal, script]

    def made(path: Path) -> None:
        spy.directory = path

    judged = run_and_judge(plan, Path.cwd() / "runs", watching, remember=made, inbox=inbox)
    spy.ended()
    return spy, sealed, judged


def traces(sealed: Sequence[Injection]) -> set[bytes]:
    """What would tell of the faults, wherever it stood."""
    found = {b"sealed-1"}
    for one in sealed:
        name = one.targets[0]
        found |= {f"{one.trigger.time_s}".encode(), f'"targets":["{name}"]'.encode()}
        found |= {one.spec.encode(), f"{one.fault} on {name}".encode(), one.id.encode()}
    return found


def tells(content: bytes, trace: bytes) -> bool:
    """Whether it stands there, and not as a part of a longer number or of a time of day."""
    return re.search(rb"(?<![\d.])(?<!\d:)" + re.escape(trace) + rb"(?!\d)", content) is not None


def test_times_of_day_and_longer_numbers_do_not_tell_of_a_time() -> None:
    assert not tells(
        b'{"began": "2026-11-28T05:07:36.812Z", "digest": "36.81", "x": 136.8}', b"36.8"
    )
    assert all(tells(one, b"36.8") for one in (b'"time_s":36.8,', b"at 36.8s", b"36.8"))


@pytest.fixture(scope="module")
def spied_day(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Spy, Sequence[Injection], JudgedRun]:
    with within(tmp_path_factory.mktemp("spied")):
        return spied()


def test_before_it_comes_nothing_in_files_on_the_page_or_in_the_terminal_tells_of_it(
    spied_day: tuple[Spy, Sequence[Injection], JudgedRun],
) -> None:
    spy, sealed, judged = spied_day
    assert "one-dies" in spy.shown
    assert {"plan.resolved.yaml", "schedule.jsonl", "run.json", JOURNAL} <= spy.files.keys()
    places = {**spy.files, "page and terminal": spy.shown.encode()}
    allowed = b'"targets":["' + prepared().schedule.injections[0].targets[0].encode() + b'"]'
    found = [
        (name, trace)
        for name, content in places.items()
        for trace in traces(sealed) - {allowed}
        if tells(content, trace)
    ]
    assert found == []
    afterwards = (spy.directory / JOURNAL).read_bytes()
    assert all(one.spec.encode() in afterwards for one in sealed)
    assert "sealed-1" in spy.stream.getvalue() or "injection-1" in spy.stream.getvalue()
    assert {one.id for one in judged.verdict.injections} >= {one.id for one in sealed}


def test_the_charter_says_how_many_and_of_which_kinds_and_no_more() -> None:
    found = drawn(prepared())
    page = call("one_dies.yaml", "--charter").stdout
    assert "| drawn from | process.kill, process.pause |" in page
    assert "sealed-1" not in page
    assert [one.id for one in found if one.id in page] == []
    assert not Path("runs").exists()


def test_it_has_a_card_on_the_page_once_it_has_come_and_orders_can_name_it(day: Path) -> None:
    plan, history = prepared().plan, history_of(day)
    picture = Picture(plan, is_kept=False)
    first = next(e.seq for e in history.of(FaultInjecting) if e.payload.spec == "sealed-1")

    def cards() -> list[str]:
        return [str(one["spec"]) for one in picture.to_json(Role.VIEWER)["faults"]]

    for event in history.events[:first]:
        picture.see(event)
    assert cards() == ["one-dies"]
    for event in history.events[first:]:
        picture.see(event)
    assert cards() == ["one-dies", "sealed-1", "sealed-2"]
    assert Remark(text="slow", fault="sealed-2").order("Bo", Names.of(plan)).spec == "sealed-2"
    with pytest.raises(Denied, match="sealed-3 is not in the plan"):
        Remark(text="slow", fault="sealed-3").order("Bo", Names.of(plan))
