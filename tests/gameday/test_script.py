"""Scripts of game-days, over a whole run on a fake fleet and a virtual clock."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import (
    Action,
    FaultHealed,
    FaultHeld,
    FaultInjected,
    FaultSkipped,
    OperatorActed,
    OperatorNoted,
    OperatorPredicted,
    OperatorRefused,
)
from chaoslab.gameday.orders import Names
from chaoslab.gameday.script import Lines, Script, is_ended_by, read_script
from chaoslab.plan.model import Injection
from chaoslab.record.journal import History, Observer
from chaoslab.run.operators import Ask, Inbox, Note, Order
from tests.gameday_room import SECOND, Room, kind, plan_of
from tests.stage import HALF, Stage, ending

PLAN = plan_of()
NAMES = Names.of(PLAN)


def read(text: str) -> Lines:
    return read_script(text, source="day.txt", by="Ann", names=NAMES)


def played(
    folder: Path,
    text: str,
    *,
    is_alone: bool = True,
    half: Injection = HALF,
    timeout_s: float = PLAN.limits.timeout_s,
    others: Sequence[tuple[Callable[[Event], bool], Order]] = (),
) -> tuple[History, Script]:
    lines = read(text)
    inbox = Inbox(keep=is_ended_by(lines))
    script = Script(inbox, lines, by="Ann", holds=sorted(PLAN.held))
    if is_alone:
        script.end()
    watching: list[Observer] = [script, Room(inbox, list(others))]
    plan = replace(PLAN, limits=replace(PLAN.limits, timeout_s=timeout_s))
    stage = Stage(folder, (half, SECOND), plan=plan, inbox=inbox, observers=watching)
    return stage.execute(), script


def times(history: History, kind: Kind, spec: str = "half-dies") -> list[float]:
    return [event.time_s for event in history.of(kind) if event.data.get("spec") == spec]


def test_a_whole_game_day_goes_by_its_script(tmp_path: Path) -> None:
    history, script = played(
        tmp_path,
        """
        # two faults, one after the other
        wait half-dies held
        Bo> predict half-dies gap=2s hit=learner-1
        wait 3s
        go half-dies
        wait half-dies injected
        note half-dies: two are gone

        wait half-dies healed
        wait 2s
        go other
        wait other healed
        note done
        """,
    )
    half_s = [times(history, kind)[0] for kind in
              (Kind.FAULT_HELD, Kind.FAULT_INJECTED, Kind.FAULT_HEALED)]  # fmt: skip
    other_s = times(history, Kind.FAULT_INJECTED, "other")[0]
    noted = [(event.payload.spec, event.payload.text) for event in history.of(OperatorNoted)]
    assert [(e.payload.by, e.payload.gap_s) for e in history.of(OperatorPredicted)] == [("Bo", 2.0)]
    assert half_s[0] + 3.0 <= half_s[1] < half_s[0] + 4.5
    assert half_s[2] + 2.0 <= other_s < half_s[2] + 3.5
    assert noted == [("half-dies", "two are gone"), ("", "done")]
    assert (ending(history)[0], script.left()) == ("completed", ())


def test_faults_are_left_out_when_nobody_is_left_to_decide(tmp_path: Path) -> None:
    history, script = played(tmp_path, "wait half-dies held\ngo half-dies")
    assert len(history.of(FaultInjected)) == 1
    (skipped,) = history.of(FaultSkipped)
    reasons = {event.payload.action: event.payload.reason for event in history.of(OperatorActed)}
    assert skipped.payload.spec == "other"
    assert reasons == {Action.GO: "", Action.SKIP: "nobody is left to decide"}
    assert ending(history)[0] == "completed"
    assert script.left() == ()


def test_a_fault_that_was_just_let_go_is_not_left_out(tmp_path: Path) -> None:
    history, _ = played(tmp_path, "wait inject\nwait other held\ngo")
    assert len(history.of(FaultInjected)) == 2
    assert not history.of(FaultSkipped)


def test_what_waits_for_what_never_comes_is_told_with_its_line(tmp_path: Path) -> None:
    history, script = played(
        tmp_path, "wait inject\nskip other\nskip half-dies\nwait half-dies held\nwait 1h\nnote x\n"
    )
    assert not history.of(FaultHeld)
    assert [str(line) for line in script.left()] == ["day.txt:5: wait 1h", "day.txt:6: note x"]


def test_a_wait_is_over_as_well_when_the_fault_is(tmp_path: Path) -> None:
    """A fault that was left out is neither held nor injected, and the script goes on."""
    history, script = played(
        tmp_path, "wait inject\nskip half-dies\nwait half-dies injected\nnote left out\nskip other"
    )
    assert len(history.of(OperatorNoted)) == 1
    assert script.left() == ()


def test_a_repeated_fault_is_waited_for_once_more(tmp_path: Path) -> None:
    history, _ = played(
        tmp_path,
        "skip other\nwait half-dies held\ngo half-dies\nwait half-dies healed\n"
        "repeat half-dies\nwait half-dies healed\nnote twice\nend",
    )
    noted = history.of(OperatorNoted)[0]
    healed = [event for event in history.of(FaultHealed) if event.seq < noted.seq]
    assert len(healed) == 2


def test_a_refused_repetition_is_not_waited_for(tmp_path: Path) -> None:
    history, script = played(
        tmp_path,
        "wait inject\nskip other\nskip half-dies\nwait half-dies healed\nrepeat half-dies\n"
        "wait half-dies healed\nnote it was refused\nend",
    )
    assert len(history.of(Kind.OPERATOR_REFUSED)) == 1
    assert len(history.of(OperatorNoted)) == 1
    assert script.left() == ()


def test_what_others_repeat_is_waited_for_once_more(tmp_path: Path) -> None:
    repeat = Ask(by="Bo", action=Action.REPEAT, spec="half-dies")
    history, _ = played(
        tmp_path,
        "skip other\nwait half-dies held\ngo half-dies\nwait half-dies healed\nnote once\nwait 1s\n"
        "wait half-dies healed\nnote twice\nend",
        others=[(kind(Kind.OPERATOR_NOTED), repeat)],
    )
    once, twice = history.of(OperatorNoted)
    first, second = history.of(FaultHealed)
    assert first.seq < once.seq < second.seq < twice.seq


# ---------------------------------------------------------------- waits that are never met


def test_a_wait_that_is_never_met_is_given_up_and_the_run_ends(tmp_path: Path) -> None:
    history, script = played(
        tmp_path,
        "wait half-dies held\ngo half-dies\nwait half-dies healed\nnote back\nend",
        half=replace(HALF, for_s=None),
        timeout_s=1800.0,
    )
    begun_s = times(history, Kind.FAULT_INJECTED)[0]
    (skipped,) = history.of(FaultSkipped)
    assert [line.text for line in script.left()] == ["wait half-dies healed", "note back", "end"]
    assert skipped.payload.spec == "other"
    assert 600 < skipped.time_s - begun_s < 610
    assert ending(history)[0] == "completed"
    assert history.events[-1].time_s - begun_s < 660
    assert not history.of(OperatorNoted)


def test_where_others_decide_the_run_goes_on_after_a_wait_was_given_up() -> None:
    inbox = Inbox(keep=True)
    lines = read("wait half-dies held\nnote it waits")
    script = Script(inbox, lines, by="Ann", holds=PLAN.held, has_others=True)
    script.end()
    for time_s in (0.0, 599.0, 600.0, 700.0):
        script.see(replace(_started(), time_s=time_s))
    script.see(Event(seq=9, time_s=701.0, source="t", kind=Kind.FAULT_HELD, data={
        "spec": "half-dies", "fault": "process.kill", "trigger": "", "injections": 1,
        "targets": []}))  # fmt: skip
    assert list(inbox.take()) == []
    assert len(script.left()) == 2


def test_a_wait_for_a_time_lasts_as_long_as_it_says() -> None:
    inbox = Inbox()
    script = Script(inbox, read("wait 15m\nnote late"), by="Ann")
    for time_s in (0.0, 601.0, 899.0):
        script.see(replace(_started(), time_s=time_s))
    assert list(inbox.take()) == []
    script.see(replace(_started(), time_s=900.0))
    assert list(inbox.take()) == [Note(by="Ann", text="late")]


def test_the_end_of_a_script_ends_a_run_that_is_kept(tmp_path: Path) -> None:
    """Its own `end` is refused, because a fault waits still: nobody could repeat it."""
    history, _ = played(tmp_path, "wait half-dies held\ngo half-dies\nend")
    assert [event.payload.asked for event in history.of(OperatorRefused)] == ["end"]
    assert ending(history)[0] == "completed"
    assert len(history.of(FaultInjected)) == 1


def test_a_note_after_an_abort_is_on_record(tmp_path: Path) -> None:
    history, script = played(tmp_path, "wait inject\nabort enough\nBo> note gone since 12:03")
    assert [e.payload.text for e in history.of(OperatorNoted)] == ["gone since 12:03"]
    assert ending(history) == ("aborted", "an operator: Ann aborted it: enough")
    assert not history.of(OperatorRefused)
    assert not script.left()


def test_what_a_run_does_not_take_any_more_is_left() -> None:
    inbox = Inbox()
    script = Script(inbox, read("wait 5s\nnote late\nnote later"), by="Ann")
    inbox.close()
    script.see(replace(_started(), time_s=9.0))
    assert [line.text for line in script.left()] == ["note late", "note later"]


def test_a_script_is_blind_to_the_run_that_follows() -> None:
    inbox = Inbox()
    script = Script(inbox, read("wait 5s\nnote late"), by="Ann")
    script.see(Event(seq=0, time_s=1.0, source="t", kind=Kind.RUN_FINISHED,
                     data={"outcome": "completed", "reason": ""}))  # fmt: skip
    script.see(replace(_started(), time_s=9.0))
    assert list(inbox.take()) == []
    assert len(script.left()) == 2


def _started() -> Event:
    return Event(seq=1, time_s=0.0, source="t", kind=Kind.COUNTS_SAMPLED,
                 data={"alive": 1, "believed": 1, "stepping": 1, "contributing": 1})  # fmt: skip


def test_all_mistakes_are_told_with_file_and_line() -> None:
    with pytest.raises(PlanError) as caught:
        read("go half-dies\n\n# x\ngoo half-dies\nwait half-die held\nwait half-dies hold\n"
             "wait 5\nwait half-dies\nwait\nBo> predict other gap=3\nhelp")  # fmt: skip
    assert [line.partition(": ")[0] for line in caught.value.message.splitlines()] == [
        f"day.txt:{number}" for number in (4, 5, 6, 7, 8, 9, 10, 11)
    ]
