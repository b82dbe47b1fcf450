"""What became of each fault of a game-day, and whether the room had expected it."""

from collections.abc import Mapping

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.gameday.effects import Span, bound_s
from chaoslab.gameday.outcomes import FaultOutcome
from chaoslab.gameday.predictions import (
    answers,
    by_person,
    happened,
    mistaken,
    team,
)
from tests.gameday.stories import HALF, VICTIMS, Day, begun, found, of_half, plan_of, spec_of
from tests.histories import Story
from tests.model_training import Pace


def whole() -> Day:
    """The fault waits for 3 s, lasts for 6 s, and its victims need 1 s."""
    return begun().train(3).killed().train(6).heal().over()


def said(outcome: FaultOutcome) -> list[str]:
    """All answers of the only person who predicted."""
    (prediction,) = outcome.predictions
    return [str(answer) for answer in answers(prediction, outcome).values()]


# ---------------------------------------------------------------- what happened


def facts(one: FaultOutcome) -> dict[str, object]:
    """What is told of a fault, decisions and evidence in short."""
    return {
        **{name: getattr(one, name) for name in FaultOutcome.__dataclass_fields__},
        "decisions": [f"{each.by} {each.action} {each.reason}".strip() for each in one.decisions],
        "evidence": [each.status for each in one.evidence],
        "skipped": one.skipped and one.skipped.reason,
    }


TWICE = begun().killed().train(6).heal().train(10).acts("Ann", "repeat", HALF)
STORIES: Mapping[str, tuple[Story, dict[str, object]]] = {
    "let go, from its trigger to the way back": (
        whole(),
        {"spec": HALF, "fault": "process.kill", "hypothesis": "Training goes on.",
         "is_to_wait": True, "held": Span(length_s=3.0), "decisions": ["Ann go"],
         "injected_s": 8.0, "healed_s": 14.0, "hit": VICTIMS, "continued": True,
         "longest_gap": Span(length_s=0.25), "back": Span(length_s=1.0), "evidence": ["proved"],
         "skipped": None, "healed_early": ()},
    ),
    "no rounds for too long": (
        begun().killed().train(2).stall(1.75).train(2).heal().over(),
        {"continued": False, "longest_gap": Span(length_s=2.0)},
    ),
    "a gap on the way back": (
        begun().killed().train(6).heal().stall(3).over(), {"continued": False},
    ),
    "a gap after that": (
        begun().killed().train(6).heal().train(10).stall(5).over(), {"continued": True},
    ),
    "a gap before it": (
        begun().stall(5).train(2).killed().train(6).heal().over(), {"continued": True},
    ),
    "without a syncer nobody merges": (
        begun().lose_syncer(spec=HALF).stall(6).regain_syncer().over(),
        {"hit": ("syncer",), "continued": False, "longest_gap": Span(length_s=6.25),
         "back": Span(length_s=0.25)},
    ),
    "nobody is taken away": (
        begun().touch("learner-1").train(6).heal().over(),
        {"spec": "touch", "continued": True, "back": None},
    ),
    "not back when training ends": (
        begun().killed().train(6).heal(restarts=False).train(20).settle().end(),
        {"back": Span(length_s=20.0, is_whole=False)},
    ),
    "never healed": (
        begun().killed(for_s=None).train(20).prove().settle().end(),
        {"healed_s": None, "continued": True},
    ),
    "waits to the end": (
        begun().train(20).end(),
        {"held": Span(length_s=20.0, is_whole=False), "decisions": [], "injected_s": None},
    ),
    "let go before its trigger": (
        Day().baseline().opened().killed().train(6).heal().over(),
        {"held": None, "is_to_wait": True},
    ),
    "not to wait": (
        Day().baseline().opened().kill("learner-2", spec="touch").train(6).heal().over(),
        {"spec": "touch", "is_to_wait": False, "decisions": [], "hit": ("learner-2",)},
    ),
    "skipped": (
        begun().train(2).left_out("Bo", reason="the pager rings").train(20).end(),
        {"skipped": "the pager rings", "held": Span(length_s=2.0), "evidence": []},
    ),
    "cut short": (
        begun().killed().train(2).acts("Cy", "abort").heal().cut_short(),
        {"continued": None, "longest_gap": Span(length_s=0.25, is_whole=False)},
    ),
    "stopped before it was cut short": (
        begun().killed().stall(3).acts("Cy", "abort").heal().cut_short(), {"continued": False},
    ),
    "injected twice": (
        TWICE.kill(*VICTIMS, spec=HALF).train(6).heal().over(),
        {"injected_s": 5.0, "healed_s": 27.0, "hit": VICTIMS, "evidence": ["proved"] * 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("story", "expected"), STORIES.values(), ids=STORIES)
def test_a_fault_is_told_from_its_trigger_to_the_way_back(
    story: Story, expected: dict[str, object]
) -> None:
    plan = plan_of(spec_of(), spec_of("touch", fault="compute.steal"))
    one = {one.spec: one for one in found(story, plan)}[str(expected.get("spec", HALF))]
    assert {name: facts(one)[name] for name in expected} == expected
    assert all(happened(one).values()), "in words, beside the predictions"


def test_a_heal_of_all_concerns_what_is_open_alone() -> None:
    day = Day().baseline().opened().killed().train(6).heal().train(10)
    day.kill("learner-2", spec="other").train(1).acts("Cy", "heal").heal().over()
    half, other = map(facts, found(day, plan_of(spec_of(), spec_of("other"))))
    assert (half["decisions"], other["decisions"]) == (["Ann go"], ["Cy heal"])
    assert (half["healed_early"], other["healed_early"]) == (
        (),
        ("by Cy after 1.00 s instead of 6 s",),
    )


def test_an_abort_heals_what_is_open_and_ends_what_waits() -> None:
    day = begun().waits("other").killed().train(2).acts("Cy", "abort", reason="smoke").heal()
    half, other = map(facts, found(day.cut_short(), plan_of(spec_of(), spec_of("other"))))
    assert (half["decisions"], other["decisions"]) == (
        ["Ann go", "Cy abort smoke"],
        ["Cy abort smoke"],
    )
    assert other["held"] == Span(length_s=2.0)
    assert half["healed_early"] == ("by Cy after 2.00 s instead of 6 s",)


def test_what_is_usual_is_told_by_the_median_gap_and_never_less_than_a_busy_machine_costs() -> None:
    quick, slow = Story().baseline(), Story(pace=Pace(ticks=4)).baseline(20)
    assert bound_s(quick.history()) == 1.5
    assert bound_s(slow.history()) == 3.0
    assert bound_s(Story().start().history()) is None


# ---------------------------------------------------------------- who noticed


def noted(text: str, spec: str) -> Day:
    """Before and after what Bo notes, others note other things."""
    day = begun().notes("Cy", f"{HALF} is next").killed().train(2).notes("Cy", "coffee")
    day.notes("Cy", f"not-{HALF}").train(1).notes("Bo", text, spec).notes("Cy", HALF)
    return day.train(3).heal().over()


@pytest.mark.parametrize(
    ("text", "spec"), [("two are gone", HALF), (f"look: {HALF}!", ""), (HALF, "other")]
)
def test_the_first_note_that_names_a_fault_notices_it(text: str, spec: str) -> None:
    day = noted(text, spec)
    assert (of_half(day).noticed_s, of_half(day).noticed_by) == (3.0, "Bo")


def test_what_was_written_late_counts_from_when_it_came() -> None:
    day = begun().killed().train(3)
    came_s = day.now_s
    day.train(30)
    before = {"text": "learner-1 is gone", "came_s": came_s - 4.0}
    day.say(Kind.OPERATOR_NOTED, by="Bo", **before, spec=HALF)  # it had not been injected yet
    day.say(Kind.OPERATOR_NOTED, by="Cy", text="two are gone", spec=HALF, came_s=came_s)
    one = of_half(day.heal().over())
    assert (one.noticed_s, one.noticed_by) == (3.0, "Cy")


# ---------------------------------------------------------------- predictions


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ({"continues": True}, "yes: right"),
        ({"continues": False}, "no: wrong"),
        ({"gap_s": 0.9}, "0.90 s: right"),
        ({"gap_s": 0.0}, "less than 0.01 s: right"),
        ({"gap_s": 3.0}, "3.00 s: wrong"),
        ({"hit": ["learner-3", "learner-1"]}, "learner-3, learner-1: right"),
        ({"hit": ["learner-1"]}, "learner-1: 1 of 2"),
        ({"hit": ["learner-1", "learner-0"]},
         "learner-1, learner-0: 1 of 2, and 1 name too many"),
        ({"hit": ["learner-1", "learner-3", "learner-0"]},
         "learner-1, learner-3, learner-0: 2 of 2, and 1 name too many"),
        ({"hit": ["learner-0"]}, "learner-0: wrong"),
        ({"hit": []}, "nobody: wrong"),
        ({"back_s": 0.5}, "0.50 s: right"),
        ({"back_s": 2.0}, "2.00 s: right"),
        ({"back_s": 0.4}, "0.40 s: wrong"),
        ({"back_s": 2.1}, "2.10 s: wrong"),
    ],
)  # fmt: skip
def test_a_prediction_is_held_against_what_happened(expected: dict[str, Json], answer: str) -> None:
    day = begun().predicts("Bo", **expected).killed().train(6).heal().over()
    assert said(of_half(day)) == [answer]


@pytest.mark.parametrize(
    ("back_s", "answer"), [(5.0, "5.00 s: wrong"), (9.9, "9.90 s: wrong"), (10.0, "10.0 s: open")]
)
def test_who_is_not_back_may_still_have_come_in_time(back_s: float, answer: str) -> None:
    day = begun().predicts("Bo", back_s=back_s).killed().train(6).heal(restarts=False)
    assert said(of_half(day.train(20).settle().end())) == [answer]


def test_what_was_not_injected_or_cut_short_leaves_predictions_open() -> None:
    all_four: dict[str, Json] = {
        "continues": True,
        "gap_s": 1.0,
        "hit": ["learner-1"],
        "back_s": 9.0,
    }
    skipped = begun().predicts("Bo", **all_four).left_out("Ann").train(20).end()
    assert {each.rpartition(": ")[2] for each in said(of_half(skipped))} == {"open"}
    cut = begun().predicts("Bo", continues=True, gap_s=1.0).killed().train(2).heal().cut_short()
    assert said(of_half(cut)) == ["yes: open", "1.00 s: open"]


def test_the_latest_word_counts_and_nothing_that_came_after_the_injection() -> None:
    day = begun().predicts("Bo", continues=False, gap_s=3.0).predicts("Bo", continues=True)
    day.predicts("Bo", spec="other", back_s=1.0).killed().predicts("Bo", gap_s=0.25)
    one = of_half(day.predicts("Cy", continues=True).train(6).heal().over())
    assert said(one) == ["yes: right", "3.00 s: wrong"]


def test_scores_are_of_what_the_record_decides() -> None:
    day = begun().predicts("Bo", continues=True, gap_s=3.0).predicts("Cy", continues=True)
    day.predicts("Di", spec="never", continues=True).predicts("Cy", hit=["learner-1"])
    outcomes = found(day.killed().train(6).heal().over(), plan_of(spec_of(), spec_of("never")))
    assert {by: str(score) for by, score in by_person(outcomes).items()} == {
        "Bo": "1 of 2", "Cy": "1 of 2", "Di": "",
    }  # fmt: skip
    assert [str(score) for score in team(outcomes[0]).values()] == [
        "2 of 2",
        "0 of 1",
        "0 of 1",
        "",
    ]


def test_what_more_than_half_got_wrong_is_a_mistake_of_the_room() -> None:
    day = begun().predicts("Bo", continues=True, gap_s=3.0).predicts("Cy", continues=False)
    one = of_half(day.predicts("Di", gap_s=9.0).killed().train(6).heal().over())
    (mistake,) = mistaken(one)
    assert all(part in mistake for part in ("half-dies", "2 of 2", "longest gap", "0.25 s"))
