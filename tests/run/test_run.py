"""One run from start to end, on a fake fleet: its phases, their order, and when faults happen."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from chaoslab.core.events import Event, Kind
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.pod import PodDelete
from chaoslab.faults.process import ProcessCrashLoop
from chaoslab.fleet.base import Node, NodeSpec
from chaoslab.plan.model import ROUNDS_AFTER, Trigger
from chaoslab.record.history import History
from tests.fake_faults import FakeKill, FakePause
from tests.fake_nodes import FakeNode
from tests.stage import HALF, PLAN, Stage, ending, the

STOP_ROUNDS = PLAN.training.stop.rounds or 0

# ---------------------------------------------------------------- when all goes well


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A whole run in which half of the learners die."""
    stage = Stage(tmp_path_factory.mktemp("run"), [HALF])
    stage.execute()
    return stage


@pytest.fixture(scope="module")
def history(stage: Stage) -> History:
    return History.read(stage.directory.path)


def test_a_run_enters_its_phases_in_order_and_finishes(history: History) -> None:
    phases = [event.payload.phase for event in history.of(Kind.PHASE_ENTERED)]
    assert phases == ["start", "baseline", "inject", "settle", "stop"]
    assert history.events[0].kind is Kind.RUN_STARTED
    assert history.learners == PLAN.training.learner_names
    assert ending(history) == ("completed", "")


def test_learners_start_only_when_the_syncer_is_ready_and_every_node_exits(
    history: History,
) -> None:
    first, *others = history.of(Kind.NODE_STARTED)
    assert first.payload.node == "syncer"
    assert others[0].seq > the(history, Kind.SYNCER_READY).seq
    started = [(event.payload.node, event.payload.incarnation) for event in (first, *others)]
    exited = [(e.payload.node, e.payload.incarnation) for e in history.of(Kind.NODE_EXITED)]
    assert sorted(started) == sorted(exited)
    assert {("learner-3", 2), ("learner-0", 1)} <= set(exited)


def test_the_baseline_is_measured_before_anything_is_injected(history: History) -> None:
    baseline = the(history, Kind.BASELINE_MEASURED)
    assert baseline.payload.is_steady
    assert baseline.payload.gap_s_median == pytest.approx(0.5)
    assert baseline.payload.step_s == dict.fromkeys(PLAN.training.learner_names, 0.1)
    assert baseline.seq < the(history, Kind.FAULT_INJECTING).seq


def test_an_injection_leaves_its_whole_story_in_order(stage: Stage, history: History) -> None:
    told = [
        (event.kind, event.data.get("node") or event.data.get("target"))
        for event in history.events
        if event.kind.startswith(("fault.", "evidence.", "node.probed"))
    ]
    probes = [(Kind.NODE_PROBED, "learner-1"), (Kind.NODE_PROBED, "learner-3")]
    assert told == [
        (Kind.FAULT_INJECTING, None),
        (Kind.FAULT_INJECTED, None),
        *probes,
        *probes,
        (Kind.EVIDENCE_MEASURED, "learner-1"),
        (Kind.EVIDENCE_MEASURED, "learner-3"),
        (Kind.FAULT_HEALING, None),
        *probes,
        (Kind.FAULT_HEALED, None),
    ]
    filed = json.loads((stage.directory.evidence / "injection-0.json").read_text())
    assert [piece["status"] for piece in filed["evidence"]] == ["proved", "proved"]
    assert filed["injection"]["targets"] == ["learner-1", "learner-3"]
    assert {probe["state"] for probe in filed["probes"]} == {"gone"}


def test_an_injection_happens_when_its_round_is_merged_and_heals_on_time(
    stage: Stage, history: History
) -> None:
    (story,) = history.faults
    round_20 = history.of(Kind.ROUND_MERGED)[19]
    assert story.injected.time_s == round_20.time_s == story.injecting.payload.asked_s
    assert story.healed.time_s - story.injected.time_s == pytest.approx(5.0)
    assert (story.status, story.takes_away) == ("proved", True)
    (first_s, first), (second_s, second) = (
        (when, name) for when, verb, name in stage.fleet.calls if verb == "SIGKILL"
    )
    assert (first, second, first_s) == ("learner-1", "learner-3", second_s)


def test_the_run_settles_once_the_victims_contribute_again(history: History) -> None:
    settled = the(history, Kind.RUN_SETTLED)
    assert settled.payload.is_settled
    back = next(
        event.time_s
        for event in history.of(Kind.ROUND_MERGED)
        if {"learner-1", "learner-3"} <= _second_lives(event)
    )
    assert settled.time_s >= back


def _second_lives(merged: Event) -> set[str]:
    return {one.learner for one in merged.payload.contributors if one.incarnation == 2}


def test_the_four_counts_are_sampled_every_second_and_differ_under_a_fault(tmp_path: Path) -> None:
    pause = replace(HALF, settings=FakePause(), fault="process.pause", for_s=7.0)
    history = Stage(tmp_path, [pause]).execute()

    samples = history.of(Kind.COUNTS_SAMPLED)
    gaps = {round(b.time_s - a.time_s, 6) for a, b in pairwise(samples)}
    assert gaps == {1.0}
    (story,) = history.faults
    late = next(sample for sample in samples if sample.time_s > story.injected.time_s + 6.2)
    assert late.data == {"alive": 4, "members": 2, "stepping": 2, "contributing": 2}


def test_the_same_run_gives_the_same_journal(tmp_path: Path, stage: Stage) -> None:
    again = Stage(tmp_path, [HALF])
    again.execute()
    journals = [one.directory.path / "journal.jsonl" for one in (stage, again)]
    assert journals[0].read_bytes() == journals[1].read_bytes()


# ---------------------------------------------------------------- triggers and steps


def test_beats_are_carried_out_at_their_offsets_until_the_heal(tmp_path: Path) -> None:
    loop = replace(HALF, settings=FakeKill(beat_offsets=(1.0, 2.5, 60.0)))
    history = Stage(tmp_path, [loop]).execute()

    (story,) = history.faults
    stepped = history.of(Kind.FAULT_STEPPED)
    offsets = [event.time_s - story.injected.time_s for event in stepped]
    assert offsets == pytest.approx([1.0, 2.5])
    assert [event.payload.step for event in stepped] == [0, 1]


def test_a_beat_waits_for_a_target_that_was_started_and_does_not_run_yet(tmp_path: Path) -> None:
    crashes = ProcessCrashLoop(times=2, lives_s=1.0)
    loop = replace(HALF, settings=crashes, targets=("learner-1",), for_s=20.0)
    stage = Stage(tmp_path, [loop])
    begin, fleet = stage.fleet._begin, stage.fleet

    def begin_late(spec: NodeSpec, *, incarnation: int) -> Node:
        if incarnation == 1:
            return begin(spec, incarnation=incarnation)
        fleet._fakes[spec.name] = FakeNode(spec=spec, incarnation=incarnation)
        fleet._later(3.0, lambda: begin(spec, incarnation=incarnation))
        return fleet.nodes[spec.name]

    fleet._begin = begin_late  # type: ignore[method-assign]
    history = stage.execute()
    injected_s = the(history, Kind.FAULT_INJECTED).time_s
    offsets = [event.time_s - injected_s for event in history.of(Kind.FAULT_STEPPED)]
    assert offsets == pytest.approx([3.0, 6.0], abs=0.25)
    samples_s = [one.time_s for one in history.of(Kind.COUNTS_SAMPLED)]
    assert max(late - early for early, late in pairwise(samples_s)) < 1.5, "nothing stalled"


@pytest.mark.parametrize(("takes_s", "healed_s"), [(0.2, 1.0), (6.0, 6.0), (600.0, 31.0)])
def test_a_heal_waits_for_pods_that_the_cluster_is_ending_but_not_for_ever(
    tmp_path: Path, takes_s: float, healed_s: float
) -> None:
    gone = replace(
        HALF, fault=PodDelete.name, settings=PodDelete(), targets=("learner-1",), for_s=1.0
    )
    stage = Stage(tmp_path, [gone])
    fleet = stage.fleet

    def delete_pod(*names: str) -> None:
        for name in names:
            fleet._fakes[name].is_ending = True
            fleet._later(takes_s, lambda name=name: fleet._end(name, signal="SIGKILL"))

    fleet.delete_pod = fleet.evict_pod = delete_pod  # type: ignore[method-assign]
    (story,) = stage.execute().faults
    assert story.healing.time_s - story.injected.time_s == pytest.approx(healed_s, abs=0.3)
    (evidence,) = story.evidence
    assert (evidence.payload.code == Code.STILL_RUNNING) is (takes_s > 30.0)


@pytest.mark.parametrize(
    "at", [Trigger(loss=0.001), Trigger(round=STOP_ROUNDS + 200)], ids=["loss", "round"]
)
def test_a_trigger_that_never_comes_is_skipped_and_not_waited_for(
    tmp_path: Path, at: Trigger
) -> None:
    history = Stage(tmp_path, [replace(HALF, trigger=at)]).execute()

    skipped = the(history, Kind.FAULT_SKIPPED).payload
    assert (skipped.injection, skipped.obstacle) == ("injection-0", "no_trigger")
    assert not history.faults
    assert len(history.of(Kind.ROUND_MERGED)) <= STOP_ROUNDS + ROUNDS_AFTER + 2
    assert ending(history) == ("completed", "")


# ---------------------------------------------------------------- how long faults last


def test_a_fault_for_the_rest_is_measured_but_never_healed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [replace(HALF, for_s=None)])
    history = stage.execute()

    (story,) = history.faults
    assert story.healed is None
    assert story.status == "proved"
    assert not [verb for _, verb, _ in stage.fleet.calls if verb == "restart"]
    assert ending(history) == ("completed", "")


@pytest.mark.parametrize(
    "at",
    [Trigger(round=STOP_ROUNDS - 4), Trigger(time_s=90.0), Trigger(round=STOP_ROUNDS + 3)],
    ids=str,
)
def test_training_goes_on_beyond_its_stop_rule_until_a_fault_had_its_whole_time(
    tmp_path: Path, at: Trigger
) -> None:
    history = Stage(tmp_path, [replace(HALF, trigger=at, for_s=60.0)]).execute()

    (story,) = history.faults
    settled = the(history, Kind.RUN_SETTLED)
    assert (story.status, settled.payload.is_settled) == ("proved", True)
    assert story.healed.time_s - story.injected.time_s == pytest.approx(60.0)
    assert the(history, Kind.SYNCER_STOP_RULE_MET).time_s < story.healed.time_s - 50.0
    assert story.healed.payload.because == ""
    after = [e for e in history.of(Kind.ROUND_MERGED) if e.time_s > story.healed.time_s]
    assert len(after) >= PLAN.baseline.window, "as many as before the fault"
    assert ending(history) == ("completed", "")


def test_without_faults_training_ends_by_its_stop_rule_alone(tmp_path: Path) -> None:
    history = Stage(tmp_path).execute()

    assert not history.of(Kind.SYNCER_STOP_RULE_MET)
    assert len(history.of(Kind.ROUND_MERGED)) == STOP_ROUNDS
