"""Phase triggers: who is asked, what counts as an answer, and who is let go."""

import json
from dataclasses import replace
from pathlib import Path

from chaoslab.core.events import Event, Json, Kind
from chaoslab.core.protocol import Phase
from chaoslab.plan.model import Injection, Trigger
from chaoslab.record.history import History
from tests.fake_faults import FakeKill
from tests.stage import PLAN, Stage, ending, the

LEARNERS = PLAN.training.learner_names
AT_WRITTEN = Injection(
    number=0,
    spec="at-written",
    fault="process.kill",
    settings=FakeKill(),
    targets=("learner-1",),
    trigger=Trigger(phase=Phase.WRITTEN, wait_s=5.0),
    for_s=3.0,
    watched=("syncer",),
)
WHO_DONATES = replace(
    AT_WRITTEN, targets=(), watched=LEARNERS, trigger=Trigger(phase=Phase.DONATE, after_round=24)
)


def reaches(stage: Stage, time_s: float, node: str, phase: str, **facts: Json) -> None:
    """Let a node announce a phase at a time."""
    who: dict[str, Json] = {"node": node} if node == "syncer" else {"learner": node}
    said: dict[str, Json] = {**who, "incarnation": 1, "phase": phase, "is_waiting": True, **facts}
    stage.fleet.at(time_s, lambda: stage.fleet._say(node, Kind.PHASE_REACHED, said))


def words(stage: Stage, node: str) -> list[tuple[float, dict[str, Json]]]:
    """What a node was told to do, and when."""
    return [
        (time_s, json.loads(call.removeprefix("tell watch ")))
        for time_s, call, name in stage.fleet.calls
        if name == node and call.startswith("tell watch")
    ]


def injecting(history: History) -> Event:
    return the(history, Kind.FAULT_INJECTING)


def test_the_syncer_is_asked_once_the_baseline_is_known_and_let_go_after_the_fault(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, [AT_WRITTEN])
    reaches(stage, 20.013, "syncer", "written", round=30)
    history = stage.execute()

    (asked_s, asked), (let_go_s, let_go) = words(stage, "syncer")
    assert (asked, let_go) == ({"phase": "written", "wait_s": 5.0}, {})
    assert asked_s >= the(history, Kind.BASELINE_MEASURED).time_s
    assert not any(words(stage, name) for name in LEARNERS)
    reached, begun = the(history, Kind.PHASE_REACHED), injecting(history)
    assert let_go_s >= begun.time_s == reached.time_s == 20.013, "where nothing else is said"
    assert (begun.data["reached"], begun.seq) == (reached.seq, reached.seq + 1)
    assert ending(history) == ("completed", "")


def test_the_syncer_is_asked_with_the_next_event_whatever_that_is(tmp_path: Path) -> None:
    def asked_s(*said_s: float) -> tuple[float, float]:
        stage = Stage(tmp_path / str(len(said_s)), [AT_WRITTEN])
        reaches(stage, 20.0, "syncer", "written", round=30)
        for time_s in said_s:
            stage.fleet.at(
                time_s, lambda: stage.fleet._observed.append(stage.fleet.probe("syncer"))
            )
        history = stage.execute()
        return the(history, Kind.BASELINE_MEASURED).time_s, words(stage, "syncer")[0][0]

    known_s, _ = asked_s()
    assert asked_s(known_s + 0.001) == (known_s, known_s + 0.001)


def test_whoever_announces_it_after_the_round_of_the_plan_becomes_the_victim(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, [WHO_DONATES])
    reaches(stage, 25.0, "learner-2", "donate")
    history = stage.execute()

    assert injecting(history).payload.targets == ("learner-2",)
    assert history.faults[0].status == "proved"
    merged_s = history.of(Kind.ROUND_MERGED)[23].time_s
    assert min(words(stage, name)[0][0] for name in LEARNERS) >= merged_s
    assert all(words(stage, name)[-1][1] == {} for name in LEARNERS if name != "learner-2")


def test_an_answer_that_nobody_asked_for_is_none(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [replace(WHO_DONATES, watched=("learner-0", "learner-1"))])
    reaches(stage, 2.0, "learner-0", "donate")
    reaches(stage, 25.0, "learner-3", "donate")
    reaches(stage, 26.0, "learner-0", "push")
    history = stage.execute()

    assert not history.faults
    assert the(history, Kind.FAULT_SKIPPED).payload.obstacle == "no_trigger"


def test_who_starts_again_is_asked_again(tmp_path: Path) -> None:
    first = replace(AT_WRITTEN, spec="dies", trigger=Trigger(round=20), watched=(), for_s=2.0)
    waits = replace(
        WHO_DONATES, number=1, watched=("learner-1",), trigger=Trigger(phase=Phase.ADOPT)
    )
    stage = Stage(tmp_path, [first, waits])
    history = stage.execute()

    asked_s = [time_s for time_s, facts in words(stage, "learner-1") if facts]
    assert len(asked_s) == 2
    assert asked_s[1] >= history.faults[0].injecting.time_s + 2.0
