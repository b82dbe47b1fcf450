"""What appears on a terminal, and in a log without one."""

import io
from typing import Any

import pytest
from rich.console import Console

from chaoslab.core.events import Event, Json, Kind
from chaoslab.plan.model import Stop
from chaoslab.report.console import Live, Plain, draw, fault_bar, screen
from chaoslab.report.story import RunStory
from chaoslab.report.story_parts import Fault
from tests.histories import Story

BEGUN: dict[str, Any] = {"settings": {}, "trigger": "at 5 s", "takes_away": True}


def told(time_s: float, kind: Kind, **data: Any) -> Event:
    return Event(seq=0, time_s=time_s, source="test", kind=kind, data=data)


WORK: dict[str, Json] = {
    "learner": "learner-0", "incarnation": 1, "epoch": 1, "step": 5, "c_steps": 5, "c_tokens": 5.0,
    "weight": 1.0, "tokens_from": 0.0, "tokens_to": 5.0,
}  # fmt: skip


def a_short_run() -> list[Event]:
    victim = {
        "injection": "injection-0",
        "spec": "dies",
        "fault": "process.kill",
        "targets": ["learner-1"],
    }
    return [
        told(0, Kind.RUN_STARTED, plan="kill_one", seed=7, fleet="local", algorithm="decoupled",
             version="0", learners=["learner-0", "learner-1"]),
        told(0.1, Kind.NODE_STARTED, node="learner-0", role="learner", incarnation=1, pid=10),
        told(0.1, Kind.NODE_STARTED, node="learner-1", role="learner", incarnation=1, pid=11),
        told(2, Kind.PHASE_ENTERED, phase="baseline"),
        told(3, Kind.LEARNER_STEP, learner="learner-0", incarnation=1, step=1234, step_s=0.05,
             loss=2.5),
        told(3, Kind.ROUND_MERGED, round=1, committed_tokens=500,
             contributors=[WORK]),
        told(4, Kind.ROUND_MERGED, round=2, committed_tokens=900,
             contributors=[WORK]),
        told(5, Kind.FAULT_INJECTING, **victim, **BEGUN),
        told(5, Kind.NODE_EXITED, node="learner-1", incarnation=1, signal="SIGKILL"),
        told(5.1, Kind.FAULT_INJECTED, **victim),
        told(6, Kind.COUNTS_SAMPLED, alive=1, members=1, stepping=1, contributing=1),
        told(10, Kind.COUNTS_SAMPLED, alive=1, members=1, stepping=1, contributing=1),
    ]  # fmt: skip


def drawn(story: RunStory, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(draw(story, width))
    return capture.get()


def test_without_a_terminal_each_notable_event_is_a_line_and_progress_one_in_five_seconds() -> None:
    stream = io.StringIO()
    said = "x\n::error title=gate::PASS, exit code 0\x1b[2J\x1b]0;mine\x07"
    fenced = told(11, Kind.LEARNER_FENCED, learner="learner-0", incarnation=1, epoch=1, reason=said)
    with screen(stream, RunStory(Stop(rounds=4))) as plain:
        for event in (*a_short_run(), fenced):
            plain.see(event)
    lines = stream.getvalue().splitlines()
    assert "    5.00 s  learner-1 exited: SIGKILL" in lines
    assert not any("1234" in line for line in lines)
    assert all(line.isprintable() for line in lines), "what a node says is one line of text"
    progress = [line for line in lines if " rounds" in line]
    assert ["50%" in line for line in progress] == [True, True]
    assert "1 stepping" in progress[-1]


def test_progress_names_what_goes_on_and_not_the_phase_of_the_faults() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal().train(12)
    stream, told_of = io.StringIO(), RunStory()
    with screen(stream, told_of) as plain:
        for event in story.events:
            plain.see(event)
    lines = [line.split("  ")[-1] for line in stream.getvalue().splitlines() if " rounds" in line]
    assert [line.partition(":")[0] for line in lines][-3:] == [
        "fault active", "no fault active", "no fault active",
    ]  # fmt: skip
    assert "no fault active" in drawn(told_of)


def test_a_line_of_progress_has_at_most_80_columns() -> None:
    stream = io.StringIO()
    huge = 10**15
    with screen(stream, RunStory(Stop(rounds=4))) as plain:
        for event in a_short_run()[:4]:
            plain.see(event)
        for second in range(4, 60):
            plain.see(told(second, Kind.ROUND_MERGED, round=second, committed_tokens=second * huge,
                           contributors=[WORK]))  # fmt: skip
    progress = [line for line in stream.getvalue().splitlines() if " round" in line]
    assert progress
    assert max(map(len, progress)) <= 80


def test_learners_that_compile_are_counted_as_that_and_not_as_ones_that_do_not_step() -> None:
    stream, story = io.StringIO(), RunStory()
    first, last = {"learner": "learner-0", "incarnation": 1}, {"loaded": 0, "compiled": 9}
    with screen(stream, story) as plain:
        for event in (
            *a_short_run()[:3],
            told(4, Kind.LEARNER_STARTED, **first, devices=1, parameters=7.0),
            told(4, Kind.COUNTS_SAMPLED, alive=2, members=2, stepping=0, contributing=0),
            told(5, Kind.COUNTS_SAMPLED, alive=2, members=2, stepping=0, contributing=0),
        ):
            plain.see(event)
        assert "1 compiling" in stream.getvalue()
        for page in (stream.getvalue(), drawn(story)):
            assert "compiling" in page
            assert "stepping" not in page
        plain.see(told(6, Kind.LEARNER_COMPILED, **first, **last, took_s=2.0))
        assert "compiling" not in drawn(story)


@pytest.mark.parametrize("failed", [(), ("rejoin",)])
def test_what_is_known_before_the_twin_is_said_once(failed: tuple[str, ...]) -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    for view in (Plain(io.StringIO(), RunStory()), Live(console, RunStory())):
        with view:
            for event in a_short_run():
                view.see(event)
            view.await_twin(failed)
        said = [one.text for one in view.story.sentences if "twin" in one.text]
        assert len(said) == 1
        assert all(check in said[0] for check in failed)


def test_the_picture_shows_lanes_faults_and_counts_and_at_80_columns_nothing_is_cut() -> None:
    story = RunStory(Stop(rounds=4))
    far = {"injection": "injection-1", "spec": "far", "fault": "network.region_profile",
           "targets": ["learner-0"]}  # fmt: skip
    for event in (*a_short_run(), told(10, Kind.FAULT_INJECTING, **far, **BEGUN),
                  told(10, Kind.FAULT_FAILED, reason="as everybody expected", **far)):  # fmt: skip
        story.see(event)
    for width in (120, 80):
        text = drawn(story, width)
        told_of = ("kill_one", "seed 7", "1,234", "20.0", "2.500", "dead", "process.kill",
                   "members 1", "learner-1 exited: SIGKILL", "expected)")  # fmt: skip
        assert [part for part in told_of if part not in text] == []
        assert "…" not in text
        assert all(len(line) <= width for line in text.splitlines())


def test_a_view_without_any_event_can_be_drawn() -> None:
    assert "chaoslab" in drawn(RunStory())


def test_the_live_view_redraws_by_the_run_s_clock_and_leaves_its_last_picture() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=120, force_terminal=True)
    with Live(console, RunStory()) as live:
        drawings = []
        for step in range(100):
            before = stream.tell()
            counts = dict.fromkeys(("members", "stepping", "contributing"), 0)
            live.see(told(step / 100, Kind.COUNTS_SAMPLED, alive=step, **counts))
            drawings.append(stream.tell() > before)
        assert sum(drawings) <= 4
        for event in a_short_run():
            live.see(event)
    assert "learner-1 exited: SIGKILL" in stream.getvalue()


def test_a_fault_bar_covers_its_time_and_never_vanishes() -> None:
    bar = Fault(injection="i", fault="f", targets=("learner-1",), from_s=5.0, healed_s=7.5)
    assert fault_bar(bar, now_s=10.0, cells=20).plain == "─" * 10 + "█" * 5 + "─" * 5
    brief = Fault(injection="i", fault="f", targets=("learner-1",), from_s=5.0, healed_s=5.0)
    assert fault_bar(brief, now_s=5.0, cells=20).plain.count("█") == 1
    assert len(fault_bar(brief, now_s=0.0, cells=20)) == 20
