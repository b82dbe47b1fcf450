"""One run from start to end, on a fake fleet: phases, their order, and every kind of trouble."""

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from chaoslab.clock import VirtualClock
from chaoslab.errors import FleetError
from chaoslab.events import Event, Kind
from chaoslab.journal import History, Journal
from chaoslab.plan import (
    AbortRule,
    Baseline,
    Control,
    FaultPlan,
    Injection,
    Limits,
    Stop,
    Training,
    Trigger,
)
from chaoslab.record import RunDirectory
from chaoslab.run import Run
from chaoslab.watch import Interrupts, Outcome

from .fakes import FakeFleet, FakeKill, FakePause, Troubles

PLAN = FaultPlan(
    name="fake",
    training=Training(learners=4, stop=Stop(rounds=80)),
    baseline=Baseline(warmup_rounds=2, window_rounds=8),
    settle_s=10.0,
)
HALF = Injection(
    number=0,
    spec="half-dies",
    fault="process.kill",
    settings=FakeKill(),
    targets=("learner-1", "learner-3"),
    trigger=Trigger(round=20),
    for_s=5.0,
)


class Stage:
    """A run that is ready to go, with its parts in reach."""

    def __init__(
        self,
        folder: Path,
        injections: Iterable[Injection] = (),
        *,
        plan: FaultPlan = PLAN,
        troubles: Troubles | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.fleet = FakeFleet(self.clock, troubles)
        self.directory = RunDirectory.create(folder, plan.name, self.clock)
        self.interrupts = Interrupts()
        self.journal = Journal(self.directory.path, self.clock)
        self.run = Run(
            plan,
            injections,
            fleet=self.fleet,
            journal=self.journal,
            directory=self.directory,
            interrupts=self.interrupts,
        )

    def execute(self) -> History:
        """Carry it out; the history that was written, read back from disk."""
        with self.journal:
            self.run.execute()
        return History.read(self.directory.path)


def the(history: History, kind: Kind) -> Event:
    """The only event of a kind."""
    (event,) = history.of(kind)
    return event


def ending(history: History) -> tuple[str, str]:
    """How the run says it ended, in its very last event."""
    last = history.events[-1]
    assert last.kind is Kind.RUN_FINISHED
    return last.text("outcome"), last.text("reason")


# ---------------------------------------------------------------- when all goes well


def test_a_run_enters_its_phases_in_order_and_finishes(tmp_path: Path) -> None:
    history = Stage(tmp_path, [HALF]).execute()

    phases = [event.text("phase") for event in history.of(Kind.PHASE_ENTERED)]
    assert phases == ["start", "baseline", "inject", "settle", "stop"]
    assert history.events[0].kind is Kind.RUN_STARTED
    assert history.learners == ("learner-0", "learner-1", "learner-2", "learner-3")
    assert ending(history) == ("completed", "")


def test_learners_start_only_when_the_syncer_is_ready(tmp_path: Path) -> None:
    history = Stage(tmp_path).execute()

    started = history.of(Kind.NODE_STARTED)
    assert started[0].text("node") == "syncer"
    assert started[1].seq > the(history, Kind.SYNCER_READY).seq
    assert {event.text("node") for event in started[1:]} == set(PLAN.training.learner_names)


def test_the_baseline_is_measured_before_anything_is_injected(tmp_path: Path) -> None:
    history = Stage(tmp_path, [HALF]).execute()

    baseline = the(history, Kind.BASELINE_MEASURED)
    assert baseline.flag("is_steady")
    assert baseline.number("gap_s_median") == pytest.approx(0.5)
    assert baseline.number("variation") == pytest.approx(0.0)
    assert baseline.mapping("step_s") == dict.fromkeys(PLAN.training.learner_names, 0.1)
    assert baseline.seq < the(history, Kind.FAULT_INJECTING).seq


def test_an_injection_leaves_its_whole_story_in_order(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [HALF])
    history = stage.execute()

    told = [
        (event.kind, event.data.get("node") or event.data.get("target"))
        for event in history.events
        if event.kind.startswith(("fault.", "evidence.", "node.probed"))
    ]
    assert told == [
        (Kind.FAULT_INJECTING, None),
        (Kind.FAULT_INJECTED, None),
        (Kind.NODE_PROBED, "learner-1"),
        (Kind.NODE_PROBED, "learner-3"),
        (Kind.NODE_PROBED, "learner-1"),
        (Kind.NODE_PROBED, "learner-3"),
        (Kind.EVIDENCE_MEASURED, "learner-1"),
        (Kind.EVIDENCE_MEASURED, "learner-3"),
        (Kind.FAULT_HEALING, None),
        (Kind.FAULT_HEALED, None),
    ]
    (story,) = history.faults
    assert story.status == "proved"
    assert story.injecting.data["trigger"] == "at round 20"
    assert story.injecting.data["for_s"] == 5.0
    assert story.takes_away


def test_an_injection_happens_when_its_round_is_merged_and_heals_on_time(tmp_path: Path) -> None:
    history = Stage(tmp_path, [HALF]).execute()

    (story,) = history.faults
    round_20 = history.of(Kind.ROUND_MERGED)[19]
    assert story.injected is not None
    assert story.healed is not None
    assert story.injected.time_s == round_20.time_s == story.injecting.number("asked_s")
    assert story.healed.time_s - story.injected.time_s == pytest.approx(5.0)


def test_victims_of_one_fault_are_hit_at_the_same_moment(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [HALF])
    stage.execute()

    kills = [(when, name) for when, verb, name in stage.fleet.calls if verb == "SIGKILL"]
    assert [name for _, name in kills] == ["learner-1", "learner-3"]
    assert kills[0][0] == kills[1][0]


def test_evidence_is_filed_beside_the_journal(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [HALF])
    stage.execute()

    filed = json.loads((stage.directory.evidence / "injection-0.json").read_text())
    assert [piece["status"] for piece in filed["evidence"]] == ["proved", "proved"]
    assert filed["injection"]["targets"] == ["learner-1", "learner-3"]
    assert {probe["state"] for probe in filed["probes"]} == {"gone"}


def test_the_run_settles_once_the_victims_contribute_again(tmp_path: Path) -> None:
    history = Stage(tmp_path, [HALF]).execute()

    settled = the(history, Kind.RUN_SETTLED)
    assert settled.flag("is_settled")
    back = [
        event.time_s
        for event in history.of(Kind.ROUND_MERGED)
        if {"learner-1", "learner-3"} <= _second_lives(event)
    ]
    assert settled.time_s >= back[0]


def _second_lives(merged: Event) -> set[str]:
    return {
        str(contributor["learner"])
        for contributor in merged.items("contributors")
        if isinstance(contributor, dict) and contributor["incarnation"] == 2
    }


def test_the_four_counts_are_sampled_every_second_and_differ_under_a_fault(tmp_path: Path) -> None:
    pause = replace(HALF, settings=FakePause(), fault="process.pause", for_s=7.0)
    history = Stage(tmp_path, [pause]).execute()

    samples = history.of(Kind.COUNTS_SAMPLED)
    gaps = {round(b.time_s - a.time_s, 6) for a, b in pairwise(samples)}
    assert gaps == {1.0}
    (story,) = history.faults
    assert story.injected is not None
    late = next(sample for sample in samples if sample.time_s > story.injected.time_s + 6.2)
    assert late.data == {"alive": 4, "believed": 2, "stepping": 2, "contributing": 2}


def test_every_node_that_started_has_exited_before_the_last_event(tmp_path: Path) -> None:
    history = Stage(tmp_path, [HALF]).execute()

    started = [(e.text("node"), e.integer("incarnation")) for e in history.of(Kind.NODE_STARTED)]
    exited = [(e.text("node"), e.integer("incarnation")) for e in history.of(Kind.NODE_EXITED)]
    assert sorted(started) == sorted(exited)
    assert ("learner-3", 2) in exited


def test_snapshots_are_evaluated_when_a_twin_will_be_compared(tmp_path: Path) -> None:
    history = Stage(tmp_path, plan=replace(PLAN, control=Control.TWIN)).execute()

    assert len(history.of(Kind.EVALUATION_MEASURED)) == 3
    assert ending(history) == ("completed", "")


def test_the_same_run_gives_the_same_journal(tmp_path: Path) -> None:
    first = Stage(tmp_path / "a", [HALF])
    second = Stage(tmp_path / "b", [HALF])
    first.execute()
    second.execute()

    journals = [stage.directory.path / "journal.jsonl" for stage in (first, second)]
    assert journals[0].read_bytes() == journals[1].read_bytes()


# ---------------------------------------------------------------- triggers and beats


def test_faults_by_time_keep_their_distances_when_the_baseline_took_longer(tmp_path: Path) -> None:
    first = replace(HALF, targets=("learner-1",), trigger=Trigger(time_s=1.0), for_s=1.0)
    second = replace(
        first, number=1, spec="other", targets=("learner-2",), trigger=Trigger(time_s=4.5)
    )
    history = Stage(tmp_path, [first, second]).execute()

    asked = [story.injecting.number("asked_s") for story in history.faults]
    done = [story.injected.time_s for story in history.faults if story.injected]
    assert asked[0] > 1.0
    assert asked[1] - asked[0] == pytest.approx(3.5)
    assert done == pytest.approx(asked, abs=1e-6)


def test_a_fault_after_another_waits_for_its_heal_and_the_offset(tmp_path: Path) -> None:
    second = replace(
        HALF, number=1, spec="again", targets=("learner-0",),
        trigger=Trigger(after="half-dies", offset_s=2.0),
    )  # fmt: skip
    history = Stage(tmp_path, [HALF, second]).execute()

    earlier, later = history.faults
    assert earlier.healed is not None
    assert later.injecting.time_s == pytest.approx(earlier.healed.time_s + 2.0, abs=1e-6)


def test_beats_are_carried_out_at_their_offsets_until_the_heal(tmp_path: Path) -> None:
    loop = replace(HALF, settings=FakeKill(beat_offsets=(1.0, 2.5, 60.0)))
    history = Stage(tmp_path, [loop]).execute()

    (story,) = history.faults
    assert story.injected is not None
    stepped = history.of(Kind.FAULT_STEPPED)
    offsets = [event.time_s - story.injected.time_s for event in stepped]
    assert offsets == pytest.approx([1.0, 2.5])
    assert [event.integer("beat") for event in stepped] == [0, 1]


def test_a_trigger_that_never_comes_is_skipped_with_its_reason(tmp_path: Path) -> None:
    never = replace(HALF, trigger=Trigger(loss=0.001))
    history = Stage(tmp_path, [never]).execute()

    skipped = the(history, Kind.FAULT_SKIPPED)
    assert skipped.text("injection") == "injection-0"
    assert "at loss 0.001" in skipped.text("reason")
    assert "training ended" in skipped.text("reason")
    assert not history.faults


# ---------------------------------------------------------------- how long faults last


def test_a_fault_for_the_rest_is_measured_but_never_healed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [replace(HALF, for_s=None)])
    history = stage.execute()

    (story,) = history.faults
    assert story.healed is None
    assert story.status == "proved"
    assert not [verb for _, verb, _ in stage.fleet.calls if verb == "restart"]
    assert ending(history) == ("completed", "")


def test_a_fault_still_open_when_training_ends_is_measured_and_healed_then(tmp_path: Path) -> None:
    history = Stage(tmp_path, [replace(HALF, trigger=Trigger(round=76), for_s=60.0)]).execute()

    (story,) = history.faults
    assert story.status == "proved"
    assert story.healed is not None
    assert story.healed.text("because") == "training ended"
    settled = the(history, Kind.RUN_SETTLED)
    assert not settled.flag("is_settled")
    assert "learner-1 is still under a fault" in settled.names("pending")


# ---------------------------------------------------------------- trouble in the fleet


def test_a_victim_that_does_not_come_back_is_named_as_pending(tmp_path: Path) -> None:
    troubles = Troubles(not_back=frozenset({"learner-3"}))
    history = Stage(tmp_path, [HALF], troubles=troubles).execute()

    settled = the(history, Kind.RUN_SETTLED)
    assert not settled.flag("is_settled")
    (pending,) = settled.names("pending")
    assert pending.startswith("learner-3 has not contributed")


def test_a_fault_without_effect_has_no_proof(tmp_path: Path) -> None:
    troubles = Troubles(immortal=frozenset({"learner-1"}))
    history = Stage(tmp_path, [HALF], troubles=troubles).execute()

    (story,) = history.faults
    assert story.status == "failed"
    statuses = {event.text("target"): event.text("status") for event in story.evidence}
    assert statuses == {"learner-1": "failed", "learner-3": "proved"}


def test_a_fault_that_the_world_refuses_is_failed_and_half_of_it_undone(tmp_path: Path) -> None:
    troubles = Troubles(refuses=frozenset({("SIGKILL", "learner-3")}))
    history = Stage(tmp_path, [HALF], troubles=troubles).execute()

    (story,) = history.faults
    assert story.status == "failed"
    assert story.failed is not None
    assert "learner-3" in story.failed.text("reason")
    assert story.injected is None
    assert story.healed is not None
    assert story.healed.time_s == story.injecting.time_s
    assert ending(history)[0] == "completed"


def test_a_heal_that_the_world_refuses_breaks_the_run_and_is_tried_again(tmp_path: Path) -> None:
    other = replace(HALF, number=1, spec="other", targets=("learner-2",))
    troubles = Troubles(refuses=frozenset({("restart", "learner-1")}))
    stage = Stage(tmp_path, [HALF, other], troubles=troubles)

    with pytest.raises(FleetError, match="injection-0 could not be healed"):
        stage.execute()

    history = History.read(stage.directory.path)
    assert ending(history)[0] == "broken"
    tried = [name for _, verb, name in stage.fleet.calls if verb == "restart"]
    assert tried.count("learner-1") == 2
    assert history.faults[1].healed is not None
    assert not stage.fleet.alive


def test_a_learner_that_crashes_at_the_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    stage = Stage(tmp_path, troubles=Troubles(crash_at_start=frozenset({"learner-2"})))
    log = stage.directory.nodes / "learner-2" / "1" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.write_text("ValueError: there is no data here\n")

    with pytest.raises(FleetError, match="did not join and step") as why:
        stage.execute()

    assert "learner-2: exit code 1" in str(why.value)
    assert "there is no data here" in str(why.value)
    assert "learner-1: " not in str(why.value)
    history = History.read(stage.directory.path)
    assert ending(history)[0] == "broken"
    assert not stage.fleet.alive


def test_a_learner_that_never_joins_is_waited_for_only_so_long(tmp_path: Path) -> None:
    stage = Stage(tmp_path, troubles=Troubles(mute=frozenset({"learner-0"})))

    with pytest.raises(FleetError, match="learner-0 did not join and step"):
        stage.execute()

    assert stage.clock.now_s() < 200


def test_a_syncer_that_does_not_start_ends_the_run_at_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, troubles=Troubles(crash_at_start=frozenset({"syncer"})))

    with pytest.raises(FleetError, match="syncer did not report"):
        stage.execute()


def test_a_learner_killed_by_a_third_party_stays_dead_and_the_run_goes_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.fleet.at(9.0, lambda: stage.fleet.strike("learner-2"))
    history = stage.execute()

    exited = [e for e in history.of(Kind.NODE_EXITED) if e.data["signal"] == "SIGKILL"]
    assert [event.text("node") for event in exited] == ["learner-2"]
    assert not [verb for _, verb, _ in stage.fleet.calls if verb == "restart"]
    assert len(history.of(Kind.ROUND_MERGED)) == 80
    assert ending(history)[0] == "completed"


def test_a_dead_syncer_ends_the_run_at_once_and_heals_what_is_open(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [replace(HALF, for_s=30.0)])
    stage.fleet.at(14.0, lambda: stage.fleet.strike("syncer"))
    history = stage.execute()

    abort = the(history, Kind.ABORT_FIRED)
    assert abort.time_s == pytest.approx(14.0)
    assert "syncer is gone (SIGKILL)" in abort.text("observed")
    assert history.faults[0].healed is not None
    assert ending(history)[0] == "aborted"
    assert not stage.fleet.alive


def test_a_run_whose_learners_are_all_gone_for_good_does_not_wait(tmp_path: Path) -> None:
    everyone = replace(HALF, targets=PLAN.training.learner_names, for_s=None)
    plan = replace(PLAN, limits=Limits(min_alive=0))
    history = Stage(tmp_path, [everyone], plan=plan).execute()

    assert "no learner is left" in the(history, Kind.ABORT_FIRED).text("observed")
    assert history.faults[0].status == "proved"
    assert ending(history)[0] == "aborted"


def test_a_run_whose_learners_all_come_back_goes_on(tmp_path: Path) -> None:
    everyone = replace(HALF, targets=PLAN.training.learner_names)
    plan = replace(PLAN, limits=Limits(min_alive=0))
    history = Stage(tmp_path, [everyone], plan=plan).execute()

    assert ending(history) == ("completed", "")
    assert the(history, Kind.RUN_SETTLED).flag("is_settled")


def test_a_node_that_does_not_end_by_itself_is_named_and_ended(tmp_path: Path) -> None:
    stage = Stage(tmp_path, troubles=Troubles(lingering=frozenset({"learner-1"})))
    history = stage.execute()

    outcome, reason = ending(history)
    assert outcome == "completed"
    assert "learner-1 still ran" in reason
    assert ("SIGTERM", "learner-1") in {(verb, name) for _, verb, name in stage.fleet.calls}


def test_an_evaluator_that_fails_is_named_in_the_record(tmp_path: Path) -> None:
    plan = replace(PLAN, control=Control.TWIN)
    history = Stage(tmp_path, plan=plan, troubles=Troubles(evaluator_exit=3)).execute()

    assert "the evaluator failed: exit code 3" in ending(history)[1]


# ---------------------------------------------------------------- the baseline


def test_nothing_is_injected_when_the_baseline_is_never_steady(tmp_path: Path) -> None:
    def wild(number: int) -> float:
        return 0.1 if number // 2 % 2 else 2.0

    history = Stage(tmp_path, [HALF], troubles=Troubles(round_s=wild)).execute()

    windows = history.of(Kind.BASELINE_MEASURED)
    assert len(windows) == 3
    assert not any(window.flag("is_steady") for window in windows)
    assert not history.faults
    assert "half-dies" in the(history, Kind.FAULT_SKIPPED).text("spec")
    outcome, reason = ending(history)
    assert outcome == "aborted"
    assert "nothing was injected" in reason


def test_an_unsteady_window_is_measured_again(tmp_path: Path) -> None:
    def settles_late(number: int) -> float:
        return 2.0 if number == 4 else 0.5

    plan = replace(PLAN, baseline=replace(PLAN.baseline, max_variation=0.2))
    stage = Stage(tmp_path, [HALF], plan=plan, troubles=Troubles(round_s=settles_late))
    history = stage.execute()

    steady = [window.flag("is_steady") for window in history.of(Kind.BASELINE_MEASURED)]
    assert steady == [False, True]
    assert history.faults[0].status == "proved"


def test_training_that_ends_during_the_baseline_is_not_steady(tmp_path: Path) -> None:
    plan = replace(PLAN, training=Training(stop=Stop(rounds=5)))
    history = Stage(tmp_path, [HALF], plan=plan).execute()

    assert not history.faults
    assert "training ended after 5 of" in history.of(Kind.BASELINE_MEASURED)[-1].text("reason")
    assert ending(history)[0] == "aborted"


# ---------------------------------------------------------------- limits and abort rules


def test_an_injection_beyond_the_limits_is_skipped_at_the_last_moment(tmp_path: Path) -> None:
    plan = replace(PLAN, limits=Limits(min_alive=3))
    history = Stage(tmp_path, [HALF], plan=plan).execute()

    reason = the(history, Kind.FAULT_SKIPPED).text("reason")
    assert reason == "2 learners would be left, and min_alive is 3"
    assert ending(history)[0] == "completed"


def test_a_learner_under_a_fault_is_not_hit_again(tmp_path: Path) -> None:
    again = replace(HALF, number=1, spec="again", targets=("learner-1",), trigger=Trigger(round=22))
    history = Stage(tmp_path, [HALF, again]).execute()

    skipped = the(history, Kind.FAULT_SKIPPED)
    assert skipped.text("reason") == "learner-1: still under an earlier fault"


def test_a_silent_run_is_aborted_and_healed(tmp_path: Path) -> None:
    everyone = replace(HALF, settings=FakePause(), targets=PLAN.training.learner_names, for_s=60.0)
    plan = replace(
        PLAN, limits=Limits(min_alive=0), abort=(AbortRule(no_round_for_s=4.0),)
    )  # fmt: skip
    stage = Stage(tmp_path, [everyone], plan=plan)
    history = stage.execute()

    abort = the(history, Kind.ABORT_FIRED)
    last_round = history.of(Kind.ROUND_MERGED)[-1]
    assert abort.text("rule") == "no_round_for: 4s"
    assert abort.time_s - last_round.time_s == pytest.approx(4.0)
    resumed = {name for _, verb, name in stage.fleet.calls if verb == "resume"}
    assert resumed == set(PLAN.training.learner_names)
    assert ending(history)[0] == "aborted"


def test_a_run_that_takes_too_long_is_aborted(tmp_path: Path) -> None:
    plan = replace(PLAN, limits=Limits(timeout_s=20.0))
    history = Stage(tmp_path, [HALF], plan=plan).execute()

    abort = the(history, Kind.ABORT_FIRED)
    assert abort.text("rule") == "limits.timeout"
    assert abort.time_s == pytest.approx(20.0)
    assert ending(history)[0] == "aborted"


# ---------------------------------------------------------------- interrupts


def test_an_interrupt_in_mid_fault_heals_ends_every_node_and_finishes(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [HALF])
    stage.fleet.at(13.0, lambda: _interrupt(stage))
    history = stage.execute()

    (story,) = history.faults
    assert story.injected is not None
    assert story.healed is not None
    assert story.status == "proved"
    assert ending(history) == ("interrupted", "interrupted by a signal")
    assert not stage.fleet.alive
    assert stage.run.outcome is Outcome.INTERRUPTED


def _interrupt(stage: Stage) -> None:
    stage.interrupts.count += 1


def test_a_second_interrupt_skips_the_waiting_but_still_heals(tmp_path: Path) -> None:
    stubborn = frozenset({"learner-0"})
    patient = Stage(tmp_path / "once", [HALF], troubles=Troubles(immortal=stubborn))
    hurried = Stage(tmp_path / "twice", [HALF], troubles=Troubles(immortal=stubborn))
    for stage in (patient, hurried):
        stage.fleet.at(13.0, partial(_interrupt, stage))
    hurried.fleet.at(13.5, lambda: _interrupt(hurried))
    histories = [stage.execute() for stage in (patient, hurried)]

    assert all(history.faults[0].healed for history in histories)
    assert all(ending(history)[0] == "interrupted" for history in histories)
    assert histories[1].end_s < histories[0].end_s - 2.0


def test_an_interrupt_before_anything_started_ends_the_run(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [HALF])
    stage.interrupts.count = 1
    history = stage.execute()

    assert ending(history)[0] == "interrupted"
    assert not history.faults


@pytest.mark.parametrize("moment", [0.05, 1.0, 6.0, 12.5, 18.0, 40.9])
def test_whenever_the_interrupt_comes_the_record_is_complete(tmp_path: Path, moment: float) -> None:
    stage = Stage(tmp_path, [HALF], plan=replace(PLAN, control=Control.TWIN))
    stage.fleet.at(moment, lambda: _interrupt(stage))
    history = stage.execute()

    assert ending(history)[0] == "interrupted"
    assert all(story.healed for story in history.faults)
    started = [(e.text("node"), e.integer("incarnation")) for e in history.of(Kind.NODE_STARTED)]
    exited = [(e.text("node"), e.integer("incarnation")) for e in history.of(Kind.NODE_EXITED)]
    assert sorted(started) == sorted(exited)
