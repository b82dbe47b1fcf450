"""Injections that wait: when each is due, and what is done beforehand where that is known."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from chaoslab.core.payloads import LearnerStep, RoundMerged
from chaoslab.faults.actions import HitsTogether
from chaoslab.plan.model import Injection, Limits, Trigger
from chaoslab.undo.heartbeat import Heartbeat, StillThere
from tests.fake_faults import FakeKill
from tests.fake_nodes import Troubles
from tests.stage import HALF, PLAN, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedKill(FakeKill):
    """A kill that lets the fleet find its targets beforehand."""

    prepare = HitsTogether.prepare
    unprepare = HitsTogether.unprepare
    to_pause = False


def at(time_s: float, number: int = 0, *, targets: Sequence[str] = ("learner-1",)) -> Injection:
    return replace(
        HALF,
        number=number,
        settings=PreparedKill(),
        targets=tuple(targets),
        trigger=Trigger(time_s=time_s),
        for_s=2.0,
    )


def when(stage: Stage, verb: str) -> list[float]:
    return [round(time_s, 6) for time_s, said, _ in stage.fleet.calls if said == verb]


def test_what_is_due_at_a_known_time_is_prepared_shortly_before_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [at(9.0), at(14.0, 1)])
    story, _ = stage.execute().faults
    first_s, second_s = when(stage, "prepare")
    assert 8.8 <= first_s < 9.0
    assert 13.8 <= second_s < 14.0
    assert when(stage, "SIGKILL")[:2] == [9.0, 14.0]
    assert when(stage, "unprepare") == []
    assert story.injecting.time_s == pytest.approx(9.0 - 0.005)
    assert story.injected.time_s == 9.0 == story.injecting.payload.asked_s
    assert story.injected.seq == story.injecting.seq + 1, "nothing stands between"


def test_what_is_reported_in_that_moment_is_taken_in_after_the_injection(tmp_path: Path) -> None:
    calm = Stage(tmp_path / "calm").execute()
    report = next(event for event in calm.of(LearnerStep) if event.time_s > 9.0)
    hit = Stage(tmp_path / "hit", [at(report.time_s + 0.001, targets=["learner-3"])]).execute()
    (story,) = hit.faults
    assert story.injected.time_s == story.injecting.payload.asked_s
    late = next(event for event in hit.of(LearnerStep) if event.data == report.data)
    assert late.time_s == story.injected.time_s > report.time_s
    assert late.seq > story.injected.seq


def test_a_heal_of_the_same_time_goes_first(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [at(9.0), replace(at(11.0, 1), spec="again")])
    earlier, later = stage.execute().faults
    assert earlier.healed.time_s == 11.0
    assert later.injecting.seq > earlier.healed.seq
    assert later.injected.time_s == 11.0


def test_one_that_waits_for_an_event_is_prepared_once_its_time_is_known(tmp_path: Path) -> None:
    by_round = replace(at(0.0), trigger=Trigger(round=20))
    after = replace(at(0.0, 1), spec="then", trigger=Trigger(after=HALF.spec, offset_s=3.0))
    stage = Stage(tmp_path, [by_round, after])
    earlier, later = stage.execute().faults
    _, prepared_s = when(stage, "prepare")
    by_round_s, after_s = when(stage, "SIGKILL")[:2]
    assert by_round_s < after_s - 0.2 <= prepared_s < after_s
    assert later.injected.time_s == pytest.approx(earlier.healed.time_s + 3.0, abs=1e-6)


def test_one_that_waits_for_a_round_is_prepared_some_rounds_before_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [replace(at(0.0), trigger=Trigger(round=20))])
    history = stage.execute()
    merged_s = [round(event.time_s, 6) for event in history.of(RoundMerged)]
    assert when(stage, "prepare") == [merged_s[16]]
    assert when(stage, "SIGKILL")[:1] == [merged_s[19]]
    assert when(stage, "unprepare") == []


def test_what_was_prepared_for_a_round_that_never_comes_is_undone(tmp_path: Path) -> None:
    far = replace(at(0.0), trigger=Trigger(round=1000))
    last = len(Stage(tmp_path / "calm", [far]).execute().of(RoundMerged))
    stage = Stage(tmp_path / "near", [replace(far, trigger=Trigger(round=last + 1))])
    assert not stage.execute().faults
    assert len(when(stage, "prepare")) == len(when(stage, "unprepare")) == 1


def test_what_was_prepared_and_is_left_out_is_undone(tmp_path: Path) -> None:
    plan = replace(PLAN, limits=Limits(min_alive=3))
    stage = Stage(tmp_path, [at(9.0), at(9.1, 1, targets=["learner-2"])], plan=plan)
    history = stage.execute()
    assert [story.injection for story in history.faults] == ["injection-0"]
    assert len(when(stage, "prepare")) == 2
    assert when(stage, "unprepare") == [9.095]
    assert when(stage, "SIGKILL")[:1] == [9.0]


def test_a_refused_preparation_leaves_the_refusal_to_the_injection(tmp_path: Path) -> None:
    refused = Troubles(refuses=frozenset({("prepare", "learner-1")}))
    stage = Stage(tmp_path, [at(9.0)], troubles=refused)
    history = stage.execute()
    assert when(stage, "SIGKILL")[:1] == [9.0]
    assert [story.status for story in history.faults] == ["proved"]


def test_what_is_prepared_has_an_entry_until_the_heal_and_asked_for_after_it(
    tmp_path: Path,
) -> None:
    due: list[tuple[float, float | None]] = []
    asked: list[float] = []

    def due_within(for_s: float | None) -> AbstractContextManager[StillThere]:
        now_s = stage.clock.now_s()
        due.append((now_s, for_s))
        return nullcontext(lambda: asked.append(now_s) or ())

    stage = Stage(tmp_path, [at(9.0)], heartbeat=Heartbeat(due_within=due_within))
    stage.execute()
    assert [now_s + for_s for now_s, for_s in due if for_s is not None] == pytest.approx([11, 11])
    assert len({now_s for now_s, _ in due}) == 2
    assert sorted(asked) == sorted(now_s for now_s, _ in due)


def test_triggers_by_time_that_the_baseline_overtook_move_later_together(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [at(0.5), at(3.5, 1)])
    stage.execute()
    first_s, second_s = when(stage, "SIGKILL")[:2]
    assert first_s > 0.5
    assert second_s - first_s == pytest.approx(3.0)
