"""Game-days in the harness: faults that wait for an operator, and what operators ask for."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Event, Json, Kind
from chaoslab.core.payloads import Action, FaultHeld, OperatorActed, OperatorRefused
from chaoslab.core.protocol import Phase
from chaoslab.plan.model import GameDay, Trigger
from chaoslab.record.history import History
from chaoslab.record.journal_file import JournalFile
from chaoslab.run.operators import Inbox, Note, Order, Predict
from chaoslab.undo.heartbeat import Heartbeat
from tests.fakes import FakeFleet
from tests.gameday_room import (
    GAMEDAY,
    GO,
    SKIP_OTHER,
    SPEC,
    after_round,
    ask,
    kind,
    plan_of,
    played,
    staged,
)
from tests.run.test_phase_triggers import AT_WRITTEN, reaches, words
from tests.stage import HALF, PLAN, Stage, ending, the


def test_a_fault_waits_until_it_is_let_go_and_training_goes_on_beyond_its_stop_rule(
    tmp_path: Path,
) -> None:
    history = played(tmp_path, [(after_round(100), ask(Action.GO, "half-dies")), SKIP_OTHER])
    opened = the(history, Kind.GAMEDAY_OPENED)
    assert opened.seq < history.of(Kind.NODE_STARTED)[1].seq
    assert (opened.payload.owner, opened.payload.holds) == ("Ann", ("half-dies", "other"))
    assert opened.payload.hypotheses == {"half-dies": "training goes on"}
    held, _ = history.of(FaultHeld)
    assert held.payload.targets == ("learner-1", "learner-3")
    injected, rounds = history.faults[0].injected, history.of(Kind.ROUND_MERGED)
    assert injected.time_s >= rounds[99].time_s > held.time_s
    assert len(rounds) > 100 > (PLAN.training.stop.rounds or 0)
    skipped = the(history, Kind.FAULT_SKIPPED).payload
    assert (skipped.spec, skipped.obstacle) == ("other", "operator")
    assert "Ann" in skipped.reason
    assert ending(history) == ("completed", "")


def test_a_fault_can_be_injected_before_its_time(tmp_path: Path) -> None:
    early = (kind(Kind.PHASE_ENTERED), ask(Action.GO, "other"))
    in_inject = (
        lambda event: event.kind is Kind.PHASE_ENTERED and event.data["phase"] == "inject",
        ask(Action.GO, "other"),
    )
    history = played(
        tmp_path,
        [early, in_inject, (kind(Kind.FAULT_HELD, "half-dies"), ask(Action.SKIP, "half-dies"))],
    )
    (refused,) = history.of(OperatorRefused)
    assert refused.payload.asked == "go other"
    (story,) = [one for one in history.faults if one.spec == "other" and one.injected]
    assert story.injected.time_s < history.of(Kind.ROUND_MERGED)[23].time_s


def test_go_without_a_name_lets_all_go_that_wait_and_no_other(tmp_path: Path) -> None:
    nothing = (after_round(15), ask(Action.GO))
    history = played(tmp_path, [nothing, (after_round(30), ask(Action.GO))])
    assert the(history, Kind.OPERATOR_REFUSED).payload.asked == "go"
    assert [event.payload.spec for event in history.of(OperatorActed)] == ["half-dies", "other"]
    assert all(story.healed for story in history.faults)


def test_an_order_waits_for_no_more_than_the_event_with_which_it_came(tmp_path: Path) -> None:
    at_s, order = 5.013, Note(by="Ann", text="the pager is quiet")
    came = (lambda event: event.time_s == at_s, order)
    stage, _ = staged(tmp_path, [came, GO, SKIP_OTHER], plan=plan_of(), injections=[HALF])
    stage.fleet.at(at_s, lambda: stage.fleet._observed.append(stage.fleet.probe("syncer")))
    noted = the(stage.execute(), Kind.OPERATOR_NOTED)
    assert (noted.time_s, noted.payload.text) == (at_s, order.text)


def test_what_is_open_is_healed_before_its_time(tmp_path: Path) -> None:
    heal = (kind(Kind.FAULT_INJECTED, "half-dies"), ask(Action.HEAL, "half-dies"))
    history = played(tmp_path, [GO, heal, SKIP_OTHER])
    story = history.faults[0]
    assert story.healed.time_s - story.injected.time_s < 1.0
    assert story.healed.payload.because == "Ann asked for it"


def test_an_abort_heals_what_is_open_and_ends_the_run(tmp_path: Path) -> None:
    when = kind(Kind.FAULT_INJECTED, "half-dies")
    note = Note(by="Bo", text="both are gone since 12:03", spec="half-dies")
    abort = ask(Action.ABORT, reason="pager")
    orders = [GO, (when, abort), (when, note), (when, ask(Action.GO, "other"))]
    history = played(tmp_path, orders)
    assert ending(history) == ("aborted", "an operator: Ann aborted it: pager")
    assert history.faults[0].healed is not None
    fired = the(history, Kind.ABORT_FIRED)
    assert fired.payload.rule == "an operator"
    noted, refused = the(history, Kind.OPERATOR_NOTED), the(history, Kind.OPERATOR_REFUSED)
    assert (noted.payload.text, refused.payload.asked) == (note.text, "go other")
    assert refused.seq < fired.seq


def test_what_comes_while_nodes_are_ended_is_noted_or_refused(tmp_path: Path) -> None:
    when = kind(Kind.NODE_EXITED)
    note = Note(by="Bo", text="learner-1 is gone")
    late = [note, Predict(by="Bo", spec="other", gap_s=1.0), ask(Action.END), ask(Action.ABORT)]
    orders = [(after_round(12), ask(Action.ABORT)), *((when, order) for order in late)]
    history = played(tmp_path, orders)
    noted = the(history, Kind.OPERATOR_NOTED)
    assert noted.payload.came_s == history.of(Kind.NODE_EXITED)[0].time_s <= noted.time_s
    refused = [event.payload.asked for event in history.of(OperatorRefused)]
    assert refused == ["predict other", "end", "abort"]
    assert ending(history)[0] == "aborted"


def _residue_takes_a_minute(folder: Path, inbox: Inbox, order: Order) -> Stage:
    """A game-day with an order that comes while somebody looks for what is left."""

    def residue() -> Iterator[Mapping[str, Json]]:
        assert inbox.put(order)
        stage.clock.advance_to(stage.clock.now_s() + 60.0)
        yield {"what": "a namespace", "where": "here", "remedy": "delete it"}

    heartbeat = Heartbeat(residue=residue)
    stage = Stage(folder, plan=plan_of([], GameDay()), heartbeat=heartbeat, inbox=inbox)
    return stage


def test_what_comes_last_is_on_record_and_nothing_is_taken_after_it(tmp_path: Path) -> None:
    inbox, note = Inbox(), Note(by="Bo", text="it is quiet now")
    history = _residue_takes_a_minute(tmp_path, inbox, note).execute()
    found, noted, _ = history.events[-3:]
    assert found.kind is Kind.RESIDUE_FOUND
    assert (noted.kind, noted.payload.text) == (Kind.OPERATOR_NOTED, note.text)
    assert noted.time_s - noted.payload.came_s == pytest.approx(60.0)
    assert ending(history) == ("completed", "")
    assert not inbox.put(note)


def test_a_run_that_fails_before_it_begins_keeps_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = Note(by="Bo", text="the engine does not answer")
    stage, _ = staged(tmp_path, [(kind(Kind.RUN_STARTED), note)], plan=plan_of(), injections=[])

    def enter(_: FakeFleet) -> FakeFleet:
        raise FleetError("no engine")

    monkeypatch.setattr(FakeFleet, "__enter__", enter)
    with pytest.raises(FleetError, match="no engine"):
        stage.execute()
    kinds = [event.kind for event in History.read(stage.directory.path).events]
    assert kinds == [Kind.RUN_STARTED, Kind.OPERATOR_NOTED, Kind.RUN_FINISHED]


def test_a_disk_that_refuses_a_late_note_is_the_error_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = _residue_takes_a_minute(tmp_path, Inbox(), Note(by="Bo", text="it is quiet now"))
    append = JournalFile.append

    def refused(file: JournalFile, line: str) -> None:
        if "it is quiet" in line:
            raise OSError(ENOSPC, "no space left")
        append(file, line)

    monkeypatch.setattr(JournalFile, "append", refused)
    with pytest.raises(FleetError, match="journal cannot be written"):
        stage.execute()
    history = History.read(stage.directory.path)
    assert history.events[-1].kind is Kind.RESIDUE_FOUND
    assert len(history.of(Kind.NODE_EXITED)) == len(history.of(Kind.NODE_STARTED))


HELD, INJECTED = kind(Kind.FAULT_HELD, "half-dies"), kind(Kind.FAULT_INJECTED, "half-dies")
LATE = Predict(by="Cy", spec="half-dies", back_s=9.0)


@pytest.mark.parametrize(
    ("when", "order", "asked", "why"),
    [
        (after_round(12), ask(Action.GO, "half-die"), "go half-die", "half-dies, other"),
        (after_round(12), ask(Action.HEAL), "heal", ""),
        (after_round(12), ask(Action.HEAL, "other"), "heal other", "other"),
        (after_round(12), ask(Action.SKIP), "skip", "half-dies"),
        (INJECTED, ask(Action.REPEAT, "half-dies"), "repeat half-dies", "learner-1, learner-3"),
        (INJECTED, LATE, "predict half-dies", ""),
        (kind(Kind.SYNCER_STOPPED), ask(Action.REPEAT, "half-dies"), "repeat half-dies", ""),
        (HELD, ask(Action.END), "end", ""),
    ],
    ids=[
        "go unknown", "heal nothing", "heal other", "skip nothing", "repeat under a fault",
        "predict too late", "repeat after training", "end while a fault waits",
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(
    tmp_path: Path, when: Callable[[Event], bool], order: Order, asked: str, why: str
) -> None:
    history = played(tmp_path, [(when, order), GO, SKIP_OTHER])
    refused = the(history, Kind.OPERATOR_REFUSED).payload
    assert refused.asked == asked
    assert why in refused.reason
    assert [one.injection for one in history.faults if one.injected] == ["injection-0"]


def test_predictions_and_notes_are_on_record(tmp_path: Path) -> None:
    first = Predict(by="Bo", spec="half-dies", continues=True, gap_s=2.0, hit=("learner-1",))
    note = Note(by="Cy", text="learner-1 is gone")
    history = played(tmp_path, [(after_round(12), first), GO, (INJECTED, note), SKIP_OTHER])
    predicted = the(history, Kind.OPERATOR_PREDICTED).payload
    assert (predicted.by, predicted.continues, predicted.gap_s) == ("Bo", True, 2.0)
    assert (predicted.hit, predicted.back_s) == (("learner-1",), None)
    noted = the(history, Kind.OPERATOR_NOTED).payload
    assert (noted.by, noted.text) == ("Cy", "learner-1 is gone")


def test_one_that_waits_can_be_made_milder_and_stronger(tmp_path: Path) -> None:
    held = kind(Kind.FAULT_HELD, "half-dies")
    milder = [(held, ask(Action.MILDER, "half-dies"))] * 2
    history = played(
        tmp_path, [*milder, (after_round(30), ask(Action.GO, "half-dies")), SKIP_OTHER]
    )
    said = [event.payload.reason for event in history.of(OperatorActed)]
    assert said[:2] == ["learner-1 for 5 s", "learner-1 for 2.5 s"]
    story = history.faults[0]
    assert story.targets == ("learner-1",)
    assert story.injecting.payload.for_s == 2.5


def test_stronger_adds_targets_as_far_as_the_limits_allow_and_then_time(tmp_path: Path) -> None:
    held = kind(Kind.FAULT_HELD, "other")
    stronger = [(held, ask(Action.STRONGER, "other"))] * 3
    history = played(
        tmp_path,
        [
            (kind(Kind.FAULT_HELD, "half-dies"), ask(Action.SKIP, "half-dies")),
            *stronger,
            (after_round(40), ask(Action.GO)),
        ],
    )
    said = [event.payload.reason for event in history.of(OperatorActed)][1:4]
    assert [text.count("learner-") for text in said] == [2, 3, 3]  # one must be left
    assert [text.rpartition(" for ")[2] for text in said] == ["3 s", "3 s", "6 s"]
    story = next(one for one in history.faults if one.spec == "other" and one.injected)
    assert len(story.targets) == 3


def test_what_was_injected_can_be_repeated_while_the_room_keeps_the_run(tmp_path: Path) -> None:
    healed = kind(Kind.FAULT_HEALED, "half-dies")
    again = (healed, ask(Action.REPEAT, "half-dies"))
    at_the_end = (after_round(130), ask(Action.END))
    history = played(tmp_path, [GO, again, SKIP_OTHER, at_the_end], keep=True)
    stories = [one for one in history.faults if one.injected]
    assert [one.injection for one in stories] == ["injection-0", "injection-2"]
    assert {one.targets for one in stories} == {("learner-1", "learner-3")}
    assert all(one.healed for one in stories)
    assert ending(history) == ("completed", "")
    assert len(history.of(Kind.ROUND_MERGED)) > 130


def test_a_repetition_of_one_at_a_phase_comes_at_once_and_holds_nobody(tmp_path: Path) -> None:
    again = (kind(Kind.FAULT_HEALED, "at-written"), ask(Action.REPEAT, "at-written"))
    orders = [again, (after_round(90), ask(Action.END))]
    plan = plan_of([replace(SPEC, id="at-written", at=AT_WRITTEN.trigger)], GameDay())
    stage, _ = staged(tmp_path, orders, plan=plan, injections=[AT_WRITTEN], keep=True)
    reaches(stage, 20.0, "syncer", "written", round=30)
    history = stage.execute()
    _, second = history.faults
    assert second.injected.time_s - history.of(OperatorActed)[0].time_s < 1.0
    assert second.injecting.payload.trigger.startswith("at ")
    assert len(words(stage, "syncer")) == 2  # asked and let go, for the first of them alone


def test_the_rest_of_arrivals_keeps_its_times_when_it_is_made_milder(tmp_path: Path) -> None:
    times = (9.0, 15.0, 21.0)
    at = [
        replace(HALF, number=n, trigger=Trigger(time_s=s), for_s=2.0) for n, s in enumerate(times)
    ]
    milder = (kind(Kind.FAULT_INJECTED, "half-dies"), ask(Action.MILDER, "half-dies"))
    late = (kind(Kind.FAULT_HEALED, "half-dies"), LATE)
    orders = [(after_round(40), ask(Action.GO, "half-dies")), milder, late]
    history = played(tmp_path, orders, injections=at, specs=[SPEC])
    asked_s = [story.injecting.payload.asked_s or 0.0 for story in history.faults]
    assert [one - asked_s[0] for one in asked_s] == pytest.approx([0.0, 6.0, 12.0])
    assert [len(story.targets) for story in history.faults] == [2, 1, 1]
    assert the(history, Kind.OPERATOR_REFUSED).payload.asked == "predict half-dies"
    held = the(history, Kind.FAULT_HELD)
    assert (held.payload.injections, held.time_s < asked_s[0]) == (3, True)


def test_nothing_grows_longer_than_the_run_may_take(tmp_path: Path) -> None:
    held = kind(Kind.FAULT_HELD, "half-dies")
    stronger = [(held, ask(Action.STRONGER, "half-dies"))] * 10
    history = played(tmp_path, [*stronger, (held, ask(Action.SKIP, "half-dies")), SKIP_OTHER])
    said = [event.payload.reason for event in history.of(OperatorActed)]
    assert said[-2 - 1].endswith("for 320 s")
    refused = {event.payload.asked for event in history.of(OperatorRefused)}
    assert refused == {"stronger half-dies"}


def test_only_the_named_faults_wait(tmp_path: Path) -> None:
    history = played(
        tmp_path,
        [(kind(Kind.FAULT_HELD, "other"), ask(Action.GO, "other"))],
        gameday=GameDay(holds=("other",)),
    )
    first = history.faults[0]
    assert first.injected.time_s == history.of(Kind.ROUND_MERGED)[19].time_s
    assert [event.payload.spec for event in history.of(FaultHeld)] == ["other"]


def test_without_operators_nothing_waits(tmp_path: Path) -> None:
    plan = replace(PLAN, faults=(SPEC,), gameday=GAMEDAY)
    history = Stage(tmp_path, [HALF], plan=plan).execute()
    assert not history.of(Kind.FAULT_HELD)
    assert not history.of(Kind.GAMEDAY_OPENED)
    assert not [event for event in history.events if event.kind.startswith("operator.")]
    assert history.events[-2].kind is Kind.NODE_EXITED
    assert history.faults[0].healed is not None


def test_a_fault_at_a_phase_never_waits() -> None:
    at_phase = replace(SPEC, id="phase", at=Trigger(phase=Phase.PUSH))
    plan = replace(PLAN, faults=(SPEC, at_phase))
    assert plan.held == {"half-dies"}
