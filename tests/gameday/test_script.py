"""Scripts of game-days, over a whole run on a fake fleet and a virtual clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import (
    Action,
    FaultSkipped,
    OperatorNoted,
    OperatorPredicted,
)
from chaoslab.gameday.orders import Names
from chaoslab.gameday.script import Lines, Script, is_ended_by, read_script
from chaoslab.plan.model import Injection
from chaoslab.record.history import History
from chaoslab.record.journal import Observer
from chaoslab.run.operators import Ask, Inbox, Note, Order
from tests.gameday_room import SECOND, OperatorConsole, kind, plan_of
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
    watching: list[Observer] = [script, OperatorConsole(inbox, list(others))]
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


TOLD_BY = {
    Kind.FAULT_INJECTED: "spec",
    Kind.FAULT_HEALED: "spec",
    Kind.FAULT_SKIPPED: "spec",
    Kind.OPERATOR_NOTED: "text",
    Kind.OPERATOR_REFUSED: "asked",
    Kind.RUN_FINISHED: "outcome",
}


@dataclass(kw_only=True)
class Case:
    """A script, what the record then tells in this order, and which lines are left."""

    script: str
    told: str
    left: Sequence[str] = ()
    others: Sequence[tuple[Callable[[Event], bool], Order]] = ()


@pytest.mark.parametrize(
    "case",
    [
        Case(  # nobody is left to decide on the other one
            script="wait half-dies held; go half-dies",
            told="injected half-dies; skipped other; healed half-dies; finished completed",
        ),
        Case(  # one that was just let go is not left out
            script="wait inject; wait other held; go",
            told="injected half-dies; injected other; healed other; healed half-dies; "
            "finished completed",
        ),
        Case(
            script="wait inject; skip other; skip half-dies; wait half-dies held; wait 1h; note x",
            told="skipped other; skipped half-dies; finished completed",
            left=["day.txt:5: wait 1h", "day.txt:6: note x"],
        ),
        Case(  # a fault that was left out is neither held nor injected, and the script goes on
            script="wait inject; skip half-dies; wait half-dies injected; note out; skip other",
            told="skipped half-dies; noted out; skipped other; finished completed",
        ),
        Case(
            script="skip other; wait half-dies held; go half-dies; wait half-dies healed; "
            "repeat half-dies; wait half-dies healed; note twice; end",
            told="skipped other; injected half-dies; healed half-dies; injected half-dies; "
            "healed half-dies; noted twice; finished completed",
        ),
        Case(
            script="wait inject; skip other; skip half-dies; wait half-dies healed; "
            "repeat half-dies; wait half-dies healed; note refused; end",
            told="skipped other; skipped half-dies; refused repeat half-dies; noted refused; "
            "finished completed",
        ),
        Case(
            script="skip other; wait half-dies held; go half-dies; wait half-dies healed; "
            "note once; wait 1s; wait half-dies healed; note twice; end",
            others=[
                (kind(Kind.OPERATOR_NOTED), Ask(by="Bo", action=Action.REPEAT, spec="half-dies"))
            ],
            told="skipped other; injected half-dies; healed half-dies; noted once; "
            "injected half-dies; healed half-dies; noted twice; finished completed",
        ),
        Case(  # its own end is refused, because a fault waits still: nobody could repeat it
            script="wait half-dies held; go half-dies; end",
            told="refused end; injected half-dies; skipped other; healed half-dies; "
            "finished completed",
        ),
        Case(
            script="wait inject; abort enough; Bo> note gone since 12:03",
            told="noted gone since 12:03; skipped half-dies; skipped other; finished aborted",
        ),
    ],
    ids=lambda case: case.script,
)
def test_a_script_is_carried_out_line_by_line(tmp_path: Path, case: Case) -> None:
    history, script = played(tmp_path, case.script.replace("; ", "\n"), others=case.others)
    told = [event for event in history.events if event.kind in TOLD_BY]
    assert (
        "; ".join(f"{one.kind.partition('.')[2]} {one.data[TOLD_BY[one.kind]]}" for one in told)
        == case.told
    )
    assert [str(line) for line in script.left()] == list(case.left)


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


def test_after_an_abort_nothing_is_left_out_because_nobody_decides() -> None:
    inbox = Inbox(keep=True)
    script = Script(inbox, read("abort"), by="Ann", holds=["half-dies"])
    script.end()
    script.see(_started())
    assert [str(order) for order in inbox.take()] == ["abort"]
    fired = {"rule": "an operator", "observed": "Ann aborted it"}
    script.see(replace(_started(), kind=Kind.ABORT_FIRED, data=fired))
    script.see(replace(_started(), time_s=9.0))
    assert not list(inbox.take())


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
                 data={"alive": 1, "members": 1, "stepping": 1, "contributing": 1})  # fmt: skip


def test_all_mistakes_are_told_with_file_and_line() -> None:
    with pytest.raises(PlanError) as caught:
        read("go half-dies\n\n# x\ngoo half-dies\nwait half-die held\nwait half-dies hold\n"
             "wait 5\nwait half-dies\nwait\nBo> predict other gap=3\nhelp")  # fmt: skip
    assert [line.partition(": ")[0] for line in caught.value.message.splitlines()] == [
        f"day.txt:{number}" for number in (4, 5, 6, 7, 8, 9, 10, 11)
    ]
