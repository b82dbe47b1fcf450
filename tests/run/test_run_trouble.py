"""Every kind of trouble a run can meet: it is healed, ended, recorded, and says what happened."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from chaoslab.checks import base
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.rules import always_judged
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.core.payloads import HarnessStalled, PhaseEntered, RunOutcome
from chaoslab.fleet.base import probed
from chaoslab.plan.model import (
    SYNCER,
    AbortRule,
    Injection,
    Limits,
    Script,
    Stop,
    Training,
    Trigger,
)
from chaoslab.record.history import History
from chaoslab.undo.heartbeat import Heartbeat, Silence
from tests.fake_faults import FakePause
from tests.fake_nodes import Troubles
from tests.stage import HALF, PLAN, Stage, ending, the

REFUSED = ("restart", "learner-1")

# ---------------------------------------------------------------- trouble in the fleet


def test_a_victim_that_does_not_come_back_is_named_as_pending(tmp_path: Path) -> None:
    troubles = Troubles(not_back=frozenset({"learner-3"}))
    history = Stage(tmp_path, [HALF], troubles=troubles).execute()

    (pending,) = the(history, Kind.RUN_SETTLED).payload.pending
    assert pending.startswith("learner-3 has not contributed")


def test_a_fault_without_effect_has_no_proof(tmp_path: Path) -> None:
    troubles = Troubles(immortal=frozenset({"learner-1"}))
    history = Stage(tmp_path, [HALF], troubles=troubles).execute()

    (story,) = history.faults
    assert story.status == "failed"
    statuses = {event.payload.target: event.payload.status for event in story.evidence}
    assert statuses == {"learner-1": "failed", "learner-3": "proved"}


def test_a_fault_that_the_world_refuses_is_failed_and_half_of_it_undone(tmp_path: Path) -> None:
    troubles = Troubles(refuses=frozenset({("SIGKILL", "learner-3")}))
    history = Stage(tmp_path, [HALF], troubles=troubles).execute()

    (story,) = history.faults
    assert story.status == "failed"
    assert "learner-3" in story.failed.payload.reason
    assert story.injected is None
    assert story.healed.time_s == story.injecting.time_s
    assert ending(history)[0] == "completed"


def test_a_heal_that_the_world_refuses_is_tried_again_to_the_end(tmp_path: Path) -> None:
    other = replace(HALF, number=1, spec="other", targets=("learner-2",))
    troubles = Troubles(refuses=frozenset({REFUSED}))
    stage = Stage(tmp_path, [HALF, other], troubles=troubles)

    history = stage.execute()

    tried_s = sorted({at_s for at_s, verb, name in stage.fleet.calls if (verb, name) == REFUSED})
    assert len(tried_s) > 5
    assert {round(late - early, 3) for early, late in pairwise(tried_s[:5])} == {1.0}
    (said,) = history.of(Kind.FAULT_HEAL_FAILED)
    assert "learner-1" in said.payload.reason
    assert history.faults[0].healing is not None
    assert history.faults[0].healed is None
    assert history.faults[1].healed is not None
    assert "restart learner-3" in {f"{verb} {name}" for _, verb, name in stage.fleet.calls}
    assert Rejoin(within_s=4.0, contributions=1).judge(history).culprits == ("learner-1",)
    assert not stage.fleet.alive
    (finding,) = [one for one in always_judged(history) if one.check == "heal"]
    assert finding.outcome is base.Outcome.UNKNOWN
    assert finding.culprits == ("injection-0",)


def test_a_refused_heal_of_one_target_is_tried_once_at_a_time(tmp_path: Path) -> None:
    troubles = Troubles(refuses=frozenset({REFUSED}))
    stage = Stage(tmp_path, [replace(HALF, targets=("learner-1",))], troubles=troubles)
    stage.execute()
    tried_s = [at_s for at_s, verb, name in stage.fleet.calls if (verb, name) == REFUSED][:6]
    assert len(set(tried_s)) == 6


def test_what_was_out_of_reach_until_the_end_is_on_record(tmp_path: Path) -> None:
    stage, stalled = Stage(tmp_path, [HALF]), HarnessStalled(silent_s=20.0, since_s=1.0, host="far")
    told = [Observation.of("harness", stalled)]

    def hear_out() -> None:
        stage.fleet._observed += told
        told.clear()

    vars(stage.fleet).update(hear_out=hear_out)
    history = stage.execute()
    assert the(history, Kind.HARNESS_STALLED).payload.host == "far"
    assert ending(history)[0] == "completed"


def test_a_heal_that_works_at_last_is_healed(tmp_path: Path) -> None:
    troubles = Troubles(refuses=frozenset({REFUSED}))
    stage = Stage(tmp_path, [HALF], troubles=troubles)
    stage.fleet.at(16.0, lambda: setattr(stage.fleet, "troubles", Troubles()))
    history = stage.execute()

    (story,) = history.faults
    (failed,) = history.of(Kind.FAULT_HEAL_FAILED)
    assert story.healed.time_s > max(16.0, failed.time_s)
    assert not [one for one in always_judged(history) if one.check == "heal"]


def test_what_the_fleet_says_of_a_heal_is_not_believed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [replace(HALF, targets=("learner-1",))])
    probe, restarted = stage.fleet.probe, ("restart", "learner-1")

    def gone_since(name: str) -> Observation:
        is_started = any(call[1:] == restarted for call in stage.fleet.calls)
        return probed(name, incarnation=2, pid=1) if is_started else probe(name)

    stage.fleet.probe = gone_since  # type: ignore[method-assign]
    history = stage.execute()
    assert history.faults[0].healed is None
    (said,) = history.of(Kind.FAULT_HEAL_FAILED)
    assert said.payload.reason == "learner-1 has no process"


PAUSE = replace(HALF, settings=FakePause(), fault="process.pause", targets=("learner-1",))


def test_a_target_that_stays_stopped_is_not_healed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [PAUSE])
    vars(stage.fleet).update(resume=lambda name: None)
    history = stage.execute()
    assert history.faults[0].healed is None
    (said,) = history.of(Kind.FAULT_HEAL_FAILED)
    assert said.payload.reason == "learner-1 is still stopped"


def test_a_target_of_which_the_undo_log_tells_that_it_is_stopped_is_named_once(
    tmp_path: Path,
) -> None:
    heartbeat = Heartbeat(due_within=lambda _: nullcontext(lambda: [("learner-1", "is stopped")]))
    stage = Stage(tmp_path, [PAUSE], heartbeat=heartbeat)
    vars(stage.fleet).update(resume=lambda name: None)
    (said,) = stage.execute().of(Kind.FAULT_HEAL_FAILED)
    assert said.payload.reason == "is stopped"


def test_a_learner_whose_peer_cannot_be_resumed_is_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [replace(PAUSE, targets=("learner-1", "learner-3"))])
    resume = stage.fleet.resume

    def refused(name: str) -> None:
        if name == "learner-1":
            raise FleetError(f"{name} cannot be resumed")
        resume(name)

    vars(stage.fleet).update(resume=refused)
    history = stage.execute()
    assert history.faults[0].healed is None
    assert Rejoin(within_s=4.0, contributions=1).judge(history).culprits == ("learner-1",)


def test_a_learner_that_crashes_at_the_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    stage = Stage(tmp_path, troubles=Troubles(crash_at_start=frozenset({"learner-2"})))
    log = stage.directory.nodes / "learner-2" / "1" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"{'{...} ' * 1000}\nValueError: there is no data here\n\n------\n")

    with pytest.raises(FleetError) as why:
        stage.execute()

    said = str(why.value)
    assert "learner-2: exit code 1" in said
    assert said.endswith("there is no data here")
    assert str(log) in said
    assert len(said) < 600
    assert "learner-1: " not in said
    assert ending(History.read(stage.directory.path))[0] == "broken"
    assert not stage.fleet.alive


def test_a_learner_that_never_joins_is_waited_for_only_so_long(tmp_path: Path) -> None:
    stage = Stage(tmp_path, troubles=Troubles(mute=frozenset({"learner-0"})))
    with pytest.raises(FleetError, match="learner-0"):
        stage.execute()
    assert stage.clock.now_s() < 200


@pytest.mark.parametrize(
    ("printed", "least_s", "most_s"), [("epoch 1, loss 2.5", 59, 70), ("loading", 115, 125)]
)
def test_a_script_whose_lines_nothing_matches_is_refused_with_those_that_came_nearest(
    printed: str, least_s: float, most_s: float, tmp_path: Path
) -> None:
    script = Script(command="train", progress=r"step (?P<step>\d+)")
    plan = replace(PLAN, training=Training(script=script))
    stage = Stage(tmp_path, plan=plan, troubles=Troubles(mute=frozenset(script.names)))
    log = stage.directory.nodes / "worker-0" / "1" / "stdout.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"{printed}\n")
    with pytest.raises(FleetError) as why:
        stage.execute()
    assert printed in str(why.value)
    assert least_s < stage.clock.now_s() < most_s


@pytest.mark.parametrize(
    ("names", "written", "named", "least_s", "most_s"),
    [
        ({}, '{"epoch": 1}\n' * 3, "epoch=1", 59, 70),
        ({"step": "stp"}, '{"loss": 1, "step": 2}\n' * 3, "mean step? It has step=2, ", 59, 70),
        ({}, "", "no file matches", 115, 125),
    ],
)
def test_a_script_whose_file_says_nothing_is_refused_with_what_it_has_or_lacks(
    names: dict[str, str], written: str, named: str, least_s: float, most_s: float, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.jsonl"
    place = {"json_lines": str(file), **names}
    script = Script(command="train", progress=r"(?P<step>\d+)", from_=place)
    plan = replace(PLAN, training=Training(script=script))
    stage = Stage(tmp_path, plan=plan, troubles=Troubles(mute=frozenset(script.names)))
    if written:
        stage.fleet.at(5.0, lambda: file.write_text(written))
    with pytest.raises(FleetError) as why:
        stage.execute()
    assert named in str(why.value)
    assert least_s < stage.clock.now_s() < most_s


def test_a_learner_killed_by_a_third_party_stays_dead_and_the_run_goes_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.fleet.at(9.0, lambda: stage.fleet.strike("learner-2"))
    history = stage.execute()

    exited = [e for e in history.of(Kind.NODE_EXITED) if e.data["signal"] == "SIGKILL"]
    assert [event.payload.node for event in exited] == ["learner-2"]
    assert not [verb for _, verb, _ in stage.fleet.calls if verb == "restart"]
    assert len(history.of(Kind.ROUND_MERGED)) == 80
    assert ending(history)[0] == "completed"


def test_a_dead_syncer_ends_the_run_at_once_and_heals_what_is_open(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [replace(HALF, for_s=30.0)])
    stage.fleet.at(14.0, lambda: stage.fleet.strike("syncer"))
    history = stage.execute()

    assert the(history, Kind.ABORT_FIRED).time_s == pytest.approx(14.0)
    assert history.faults[0].healed is not None
    assert ending(history)[0] == "aborted"
    assert not stage.fleet.alive


def test_a_run_goes_on_while_all_that_was_healed_is_still_to_start(tmp_path: Path) -> None:
    everyone = replace(HALF, targets=(SYNCER, *PLAN.training.learner_names), for_s=2.0)
    plan = replace(PLAN, limits=Limits(min_alive=0))
    stage = Stage(tmp_path, [everyone], plan=plan, troubles=Troubles(starts_late_s=3.0))
    history = stage.execute()

    healed = history.faults[0].healed
    back = [event for event in history.of(Kind.NODE_STARTED) if event.time_s > healed.time_s]
    assert {event.payload.node for event in back} >= {*everyone.targets}
    assert not history.of(Kind.ABORT_FIRED)
    assert ending(history)[0] == "completed"


def test_a_run_whose_learners_are_all_gone_for_good_does_not_wait(tmp_path: Path) -> None:
    everyone = replace(HALF, targets=PLAN.training.learner_names, for_s=None)
    plan = replace(PLAN, limits=Limits(min_alive=0))
    history = Stage(tmp_path, [everyone], plan=plan).execute()

    assert the(history, Kind.ABORT_FIRED).time_s < history.faults[0].injected.time_s + 5.0
    assert history.faults[0].status == "proved"
    assert ending(history)[0] == "aborted"


def test_a_node_that_does_not_end_by_itself_is_named_and_ended(tmp_path: Path) -> None:
    stage = Stage(tmp_path, troubles=Troubles(lingering=frozenset({"learner-1"})))
    history = stage.execute()

    outcome, reason = ending(history)
    assert outcome == "completed"
    assert "learner-1 still ran" in reason
    assert ("SIGTERM", "learner-1") in {(verb, name) for _, verb, name in stage.fleet.calls}


def test_a_learner_that_was_still_joining_when_training_ended_is_not_waited_for(
    tmp_path: Path,
) -> None:
    troubles = Troubles(not_back=frozenset({"learner-3"}))
    injections = [replace(HALF, trigger=Trigger(round=70))]
    history = Stage(tmp_path, injections, troubles=troubles).execute()

    exited = {e.payload.node: e for e in history.of(Kind.NODE_EXITED)}
    assert exited["learner-3"].data["signal"] == "SIGTERM"
    assert exited["learner-3"].time_s - the(history, Kind.SYNCER_FINAL).time_s < 10.0
    assert ending(history) == ("completed", "")


TOLD = ("SIGTERM", "syncer")


def test_a_syncer_that_cannot_be_told_to_end_is_told_later(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [HALF], troubles=Troubles(refuses=frozenset({TOLD})))
    stage.fleet.at(43.5, lambda: setattr(stage.fleet, "troubles", Troubles()))
    history = stage.execute()

    tried_s = [at_s for at_s, verb, name in stage.fleet.calls if (verb, name) == TOLD]
    assert tried_s == [pytest.approx(40.1 + tries) for tries in range(5)]
    failed = the(history, Kind.SIGNAL_FAILED)
    assert (failed.payload.signal, failed.payload.node) == TOLD
    assert ending(history) == ("completed", "")


def test_a_syncer_that_can_never_be_told_to_end_is_waited_for_within_the_limits(
    tmp_path: Path,
) -> None:
    plan = replace(PLAN, limits=Limits(timeout_s=90.0))
    stage = Stage(tmp_path, [HALF], plan=plan, troubles=Troubles(refuses=frozenset({TOLD})))
    history = stage.execute()

    abort = the(history, Kind.ABORT_FIRED)
    assert (abort.payload.rule, abort.time_s) == ("limits.timeout", pytest.approx(90.0))
    assert ending(history)[0] == "aborted"
    assert not stage.fleet.alive
    assert [story.status for story in history.faults] == ["proved"]


@pytest.mark.parametrize(
    ("troubles", "why"),
    [
        (Troubles(refuses=frozenset({("start", "evaluator")})), "start evaluator"),
        (Troubles(evaluator_exit=3), "exit code 3"),
    ],
)
def test_an_evaluator_that_does_not_start_or_fails_is_named_in_the_record(
    tmp_path: Path, troubles: Troubles, why: str
) -> None:
    plan = replace(PLAN, twin=True)
    outcome, reason = ending(Stage(tmp_path, plan=plan, troubles=troubles).execute())
    assert (outcome, why in reason) == ("completed", True)


# ---------------------------------------------------------------- the baseline


def test_nothing_is_injected_when_the_baseline_is_never_steady(tmp_path: Path) -> None:
    def wild(number: int) -> float:
        return 0.1 if number // 2 % 2 else 2.0

    history = Stage(tmp_path, [HALF], troubles=Troubles(round_s=wild)).execute()

    steady = [window.payload.is_steady for window in history.of(Kind.BASELINE_MEASURED)]
    assert steady == [False, False, False]
    assert not history.faults
    assert the(history, Kind.FAULT_SKIPPED).payload.spec == "half-dies"
    assert ending(history)[0] == "aborted"


def test_an_unsteady_window_is_measured_again(tmp_path: Path) -> None:
    def settles_late(number: int) -> float:
        return 2.0 if number == 4 else 0.5

    plan = replace(PLAN, baseline=replace(PLAN.baseline, max_variation=0.2))
    stage = Stage(tmp_path, [HALF], plan=plan, troubles=Troubles(round_s=settles_late))
    history = stage.execute()

    steady = [window.payload.is_steady for window in history.of(Kind.BASELINE_MEASURED)]
    assert steady == [False, True]
    assert history.faults[0].status == "proved"


@pytest.mark.parametrize("injections", [(), (replace(HALF, trigger=Trigger(round=4)),)])
def test_training_ends_during_the_baseline_only_without_faults(
    tmp_path: Path, injections: tuple[Injection, ...]
) -> None:
    plan = replace(PLAN, training=Training(stop=Stop(rounds=5)))
    history = Stage(tmp_path, injections, plan=plan).execute()

    assert the(history, Kind.BASELINE_MEASURED).payload.is_steady is bool(injections)
    assert [story.status for story in history.faults] == ["proved"] * len(injections)


# ---------------------------------------------------------------- limits and abort rules


def test_a_silent_run_is_aborted_and_healed(tmp_path: Path) -> None:
    everyone = replace(HALF, settings=FakePause(), targets=PLAN.training.learner_names, for_s=60.0)
    plan = replace(
        PLAN, limits=Limits(min_alive=0), abort=(AbortRule(no_round_for_s=4.0),)
    )  # fmt: skip
    stage = Stage(tmp_path, [everyone], plan=plan)
    history = stage.execute()

    abort = the(history, Kind.ABORT_FIRED)
    last_round = history.of(Kind.ROUND_MERGED)[-1]
    assert abort.payload.rule == "no_round_for: 4s"
    assert abort.time_s - last_round.time_s == pytest.approx(4.0)
    resumed = {name for _, verb, name in stage.fleet.calls if verb == "resume"}
    assert resumed == set(PLAN.training.learner_names)
    assert ending(history)[0] == "aborted"


# ---------------------------------------------------------------- interrupts


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


@pytest.mark.parametrize("moment", [0.0, 0.05, 1.0, 6.0, 12.5, 13.0, 18.0, 40.9])
def test_whenever_the_interrupt_comes_all_is_healed_ended_and_on_record(
    tmp_path: Path, moment: float
) -> None:
    stage = Stage(tmp_path, [HALF], plan=replace(PLAN, twin=True))
    if moment == 0:  # before anything started
        _interrupt(stage)
    stage.fleet.at(moment or 99.0, lambda: _interrupt(stage))
    history = stage.execute()

    assert ending(history) == ("interrupted", "interrupted by a signal")
    assert stage.run.outcome is RunOutcome.INTERRUPTED
    assert [story.status for story in history.faults] == ["proved"] * (moment > 10)
    assert all(story.healed for story in history.faults)
    (cut,) = [e for e in history.of(PhaseEntered) if e.payload.phase == "interrupted"]
    assert all(story.healed.seq > cut.seq for story in history.faults if moment == 13.0)
    started = [(e.payload.node, e.payload.incarnation) for e in history.of(Kind.NODE_STARTED)]
    exited = [(e.payload.node, e.payload.incarnation) for e in history.of(Kind.NODE_EXITED)]
    assert sorted(started) == sorted(exited)
    assert not stage.fleet.alive


# ---------------------------------------------------------------- a harness that stalls


def stalled(folder: Path, for_s: float, *, at_round: int) -> History:
    """A run whose harness learns, once so many rounds are merged, that it stalled."""
    silences = [Silence(for_s=for_s, undone=())]
    stages: list[Stage] = []

    def beat() -> Silence | None:
        is_time = any(stage.run.progress.rounds >= at_round for stage in stages)
        return silences.pop() if is_time and silences else None

    stages.append(Stage(folder, [HALF], heartbeat=Heartbeat(beat=beat)))
    return stages[0].execute()


@pytest.mark.parametrize(
    ("for_s", "at_round", "outcome"),
    [(1.25, 12, "completed"), (5.0, 21, "aborted"), (6.0, 0, "completed")],
    ids=["short", "long", "before training"],
)
def test_a_stall_is_noted_and_ends_the_run_if_training_missed_five_seconds(
    tmp_path: Path, for_s: float, at_round: int, outcome: str
) -> None:
    history = stalled(tmp_path, for_s, at_round=at_round)
    noted = the(history, Kind.HARNESS_STALLED)
    assert noted.payload.silent_s == pytest.approx(for_s)
    assert noted.time_s - noted.payload.since_s == pytest.approx(for_s)
    assert ending(history)[0] == outcome
    assert all(story.healed for story in history.faults)
