"""Participation: every member works, from the baseline or from its return to the end."""

from collections.abc import Mapping

from chaoslab.checks.codes import Code
from chaoslab.checks.participation import Participation
from chaoslab.core.events import Event, Json, Kind
from tests.checks.cases import Case, all_slow, doubts, each, fails, passes, rewritten, sampled
from tests.histories import Story
from tests.model_training import Pace

CHECK = Participation()
TOO_LITTLE = Code.WORKED_TOO_LITTLE
MOST = ("learner-1", "learner-2", "learner-3")


def back() -> Story:
    """learner-1 was killed, is back, and has contributed three times."""
    return Story().baseline().kill("learner-1").train(6).heal().train(4)


def joined() -> Story:
    return Story(reserve=("learner-4",)).baseline().bring_in("learner-4").train(4)


def without_fragment(story: Story, learner: str, from_s: float) -> Story:
    """From then on no round of fragment 1 holds anything of a learner."""

    def others(event: Event) -> dict[str, Json]:
        given = event.data["contributors"]
        assert isinstance(given, list)
        return {"contributors": [one for one in given if one["learner"] != learner]}

    return rewritten(
        story,
        Kind.ROUND_MERGED,
        others,
        lambda event: event.time_s > from_s and event.data["fragment"] == 1,
    )


def lent() -> Story:
    """learner-4 was lent for six seconds, and left in order."""
    return joined().train(6).heal()


def lent_again() -> Story:
    return lent().train(20).bring_in("learner-4").train(4)


def left_and_back() -> Story:
    """learner-1 was asked to leave, and its next life is back."""
    return Story().baseline().leave("learner-1").restart("learner-1").train(4)


def stormed() -> Story:
    """learner-1 was killed, and its fault itself brought it back long before the heal."""
    return Story().baseline().kill("learner-1", for_s=60.0).train(4).restart("learner-1").train(4)


def says_that_it_was_asked() -> Story:
    """learner-2 says that somebody asked it to leave, and runs on without any work."""
    story = Story().baseline().train(4)
    who = story.learners["learner-2"].who
    return story.say(Kind.LEARNER_LEFT, "learner-2", **who, step=100, reason="asked").freeze(
        "learner-2"
    )


def outage() -> Story:
    return Story().baseline().lose_syncer().stall(6).regain_syncer().train(20)


def outrun(by: float, *, idle: float = 0.0, contributes: bool = True) -> Story:
    """learner-0 makes two of the others' five steps, learner-1 `by` times as many as they, and
    rounds go without learner-0, but for a quarter of them.
    """
    story = Story().baseline().slow("learner-0", 2.5).slow("learner-1", 1 / by)
    for tick in range(80):
        story.learners["learner-0"].is_mute = tick % 4 > 0 or not contributes
        story.train(0.25)
        if tick % 4 == 3:
            sampled(story, idle=idle)
    return story.end()


def short_of_cores(story: Story, given: float | None = None) -> Story:
    """Twenty seconds on a machine that is full; what it gave to learner-0."""
    for _ in range(20):
        shares = {} if given is None else {"learner-0": given}
        sampled(story.train(1.0), idle=0.0, given=shares)
    return story.end()


def elsewhere(slowdown: float) -> Story:
    """learner-0 is slower than in the baseline, on a machine that nobody watches."""
    story = Story(pace=Pace(steps=20)).baseline().slow("learner-0", slowdown)
    for _ in range(20):
        sampled(story.train(1.0), idle=1.9)
    return rewritten(story.end(), Kind.MACHINE_SAMPLED, lambda _: {"nodes": 0})


def given(before: float, after: float, *, slowdown: float) -> Story:
    """learner-0 is slower than in the baseline; what it was given of a full machine."""
    story = Story(pace=Pace(steps=20)).start()
    for for_s in (0.0, 1.0, 1.0):
        sampled(story.train(for_s), idle=0.0, given={"learner-0": before})
    return short_of_cores(story.measure().slow("learner-0", slowdown), after)


def with_a_third_of_the_weight(merged: Event) -> Mapping[str, Json]:
    """A round after the baseline in which learner-0 weighs a third of what it did."""
    parts = [dict(part) for part in merged.data["contributors"]]
    for part in parts:
        if part["learner"] == "learner-0" and merged.time_s > 5.0:
            part["weight"] /= 3
    return {"contributors": parts}


def touched(
    *,
    idle: bool = False,
    slowdown: float = 1,
    measured: float | None = None,
    silences: bool = False,
    for_s: float = 20.0,
    pace: Pace | None = None,
) -> Story:
    """learner-1 under a fault: what it does then, and what is known of that."""
    story = Story(pace=pace or Pace()).baseline()
    story.touch("learner-1", for_s=for_s).slow("learner-1", slowdown)
    story.learners["learner-1"].is_mute = idle
    story.train(for_s)
    story.learners["learner-1"].is_mute = False
    story.slow("learner-1", 1).heal().train(9).end()
    shown: Mapping[str, Json] = {} if measured is None else {"step_ratio": measured}
    story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"measured": shown})
    return rewritten(story, Kind.FAULT_INJECTING, lambda _: {"may_silence": silences})


def hardly_there(step_s: float = 1) -> Story:
    """learner-2 gives one round in four from the start; `step_s`: its step time by the others'."""
    story = Story().start()
    for tick in range(160):
        story.learners["learner-2"].is_mute = tick % 4 > 0
        story.train(0.25)
        if tick == 60:
            story.measure()
    own = {who: story.pace.step_s * (step_s if who == "learner-2" else 1) for who in story.learners}
    return story.end().altered(Kind.BASELINE_MEASURED, lambda _: {"step_s": own})


CASES = {
    "one that works on under a fault that leaves it at work": passes(CHECK, touched),
    "one that contributes to nothing under it": fails(
        CHECK, lambda: touched(idle=True), TOO_LITTLE, of=("learner-1",)
    ),
    "one that hardly steps under it": fails(
        CHECK, lambda: touched(slowdown=4), TOO_LITTLE, of=("learner-1",)
    ),
    "one that is as slow as its evidence measured": passes(
        CHECK, lambda: touched(slowdown=3, measured=3.0)
    ),
    "one that contributes to nothing while it is slow": fails(
        CHECK, lambda: touched(idle=True, slowdown=1.5, measured=1.5), TOO_LITTLE, of=("learner-1",)
    ),
    "one that contributes to nothing while it is slow, for as short as can tell": fails(
        CHECK,
        lambda: touched(
            idle=True, slowdown=2, measured=2, for_s=6.0, pace=Pace(tick_s=0.05, steps=1)
        ),
        TOO_LITTLE,
        of=("learner-1",),
    ),
    "one that contributes to nothing while it is slow, for too short a time to tell": doubts(
        CHECK, lambda: touched(idle=True, slowdown=2, measured=2, for_s=8.0), Code.TOO_FEW_SAMPLES
    ),
    "one that is slow, for too short a time to tell": passes(
        CHECK, lambda: touched(slowdown=2, measured=2, for_s=8.0)
    ),
    "one that a fault may silence": passes(CHECK, lambda: touched(idle=True, silences=True)),
    "one that hardly contributes from the start": doubts(
        CHECK, hardly_there, Code.BASELINE_UNEVEN
    ),
    "an older chip that hardly contributes from the start": passes(CHECK, lambda: hardly_there(3)),
    "a run without faults": passes(CHECK, lambda: Story().baseline().train(20).end()),
    "one that is back and works on": passes(CHECK, lambda: back().train(20).end()),
    "one that joined": passes(CHECK, lambda: joined().train(20).end()),
    "one that was asked to leave": passes(
        CHECK, lambda: Story().baseline().train(10).leave("learner-2").train(20).end()
    ),
    "one that left, and works on": passes(CHECK, lambda: left_and_back().train(20).end()),
    "one that is lent twice": passes(CHECK, lambda: lent_again().train(9).heal().train(20).end()),
    "one that its fault gave back": passes(
        CHECK, lambda: stormed().train(20).heal(restarts=False).train(9).end()
    ),
    "an outage of the syncer": passes(CHECK, lambda: outage().end()),
    "one that is slow under its fault": passes(
        CHECK,
        lambda: (
            Story().baseline().touch("learner-1").slow("learner-1", 4).train(6)
            .slow("learner-1", 1).heal().train(20).end()
        ),
    ),
    "all slow at once on a machine that is full": passes(
        CHECK, lambda: all_slow(Story().baseline()).train_on_full_machine(30).end()
    ),
    "all slow at once": fails(
        CHECK, lambda: all_slow(Story().baseline()).train(30).end(), TOO_LITTLE
    ),
    "all slower than their step time": fails(
        CHECK, lambda: all_slow(Story().baseline(is_paced=True)).train(30).end(), TOO_LITTLE
    ),
    "all slower than their step time, on a machine that could not keep it": doubts(
        CHECK,
        lambda: all_slow(Story().baseline(is_paced=True)).overrun().train(30).end(),
        TOO_LITTLE,
        Code.STEP_TIME_NOT_KEPT,
    ),
    "a majority of rejoiners that are slower than their step time": fails(
        CHECK,
        lambda: (
            Story().baseline(is_paced=True).kill(*MOST).train(6).heal().train(2)
            .slow(MOST[0], 4).slow(MOST[1], 4).slow(MOST[2], 4).train(20).end()
        ),
        TOO_LITTLE,
        of=MOST,
    ),
    "one that contributes no more after its return": fails(
        CHECK, lambda: back().mute("learner-1").train(20).end(), TOO_LITTLE, of=("learner-1",)
    ),
    "one that contributes no more, and no fault touched it": fails(
        CHECK,
        lambda: Story().baseline().train(10).mute("learner-2").train(20).end(),
        TOO_LITTLE,
        of=("learner-2",),
    ),
    "one that no fault touched, suspected and never back": fails(
        CHECK,
        lambda: Story().baseline().train(4).freeze("learner-3").train(20).end(),
        TOO_LITTLE,
        of=("learner-3",),
    ),
    "one at a quarter of its pace": fails(
        CHECK,
        lambda: Story().baseline().slow("learner-0", 4).train(20).end(),
        TOO_LITTLE,
        of=("learner-0",),
    ),
    "one at a quarter of its step time, which it alone does not keep": fails(
        CHECK,
        lambda: (
            Story().baseline(is_paced=True).slow("learner-0", 4).overrun("learner-0", lost=9)
            .train(20).end()
        ),
        TOO_LITTLE,
        of=("learner-0",),
    ),
    "one that joined and contributes no more": fails(
        CHECK, lambda: joined().mute("learner-4").train(20).end(), TOO_LITTLE, of=("learner-4",)
    ),
    "one that left, came back, and contributes no more": fails(
        CHECK,
        lambda: left_and_back().mute("learner-1").train(20).end(),
        TOO_LITTLE,
        of=("learner-1",),
    ),
    "one that is lent twice, and works the first time only": fails(
        CHECK,
        lambda: lent_again().mute("learner-4").train(20).heal().train(9).end(),
        TOO_LITTLE,
        of=("learner-4",),
    ),
    "one that its fault gave back, and that contributes no more": fails(
        CHECK,
        lambda: stormed().mute("learner-1").train(20).heal(restarts=False).train(1).end(),
        TOO_LITTLE,
        of=("learner-1",),
    ),
    "one that says that it was asked to leave, and stays": fails(
        CHECK, lambda: says_that_it_was_asked().train(20).end(), TOO_LITTLE, of=("learner-2",)
    ),
    "one that is back, and gives one of two fragments only": fails(
        CHECK,
        lambda: without_fragment(back().train(20).end(), "learner-1", from_s=15.0),
        TOO_LITTLE,
        of=("learner-1",),
    ),
    "one that never gave one of two fragments": passes(
        CHECK, lambda: without_fragment(Story().baseline().train(20).end(), "learner-1", from_s=0.0)
    ),
    "one that is not heard again after an outage": fails(
        CHECK,
        lambda: (
            Story().baseline().lose_syncer().stall(6).regain_syncer(without=("learner-2",))
            .train(60).end()
        ),
        TOO_LITTLE,
        of=("learner-2",),
    ),
    "one that is outrun on a full machine": passes(CHECK, lambda: outrun(by=1)),
    "one that is outrun by far on a full machine": passes(CHECK, lambda: outrun(by=10)),
    "one that is outrun though cores are idle": fails(
        CHECK, lambda: outrun(by=1, idle=1.0), TOO_LITTLE, of=("learner-0",)
    ),
    "one that contributes no more on a full machine": fails(
        CHECK, lambda: outrun(by=1, contributes=False), TOO_LITTLE, of=("learner-0",)
    ),
    "one whose steps weigh a third on a full machine": fails(
        CHECK,
        lambda: rewritten(
            short_of_cores(Story().baseline()), Kind.ROUND_MERGED, with_a_third_of_the_weight
        ),
        TOO_LITTLE,
        of=("learner-0",),
    ),
    "one at a third of its pace on a full machine, in windows shorter than its samples": passes(
        CHECK,
        lambda: short_of_cores(
            Story(pace=Pace(tick_s=0.05, steps=9)).baseline().slow("learner-0", 3)
        ),
    ),
    "one at a tenth of its pace that was given a tenth": passes(
        CHECK, lambda: given(before=0.8, after=0.08, slowdown=10)
    ),
    "one at a third of its pace that was given as much as before": fails(
        CHECK,
        lambda: given(before=0.4, after=0.4, slowdown=3),
        TOO_LITTLE,
        of=("learner-0",),
    ),
    "one at its pace that was given more than before": passes(
        CHECK, lambda: given(before=0.2, after=0.9, slowdown=1)
    ),
    "one at a third of its pace on a machine that nobody watches": passes(
        CHECK, lambda: elsewhere(3)
    ),
    "one at a tenth of its pace on a machine that nobody watches": fails(
        CHECK, lambda: elsewhere(10), TOO_LITTLE, of=("learner-0",)
    ),
    "one at a tenth of its pace on a full machine": fails(
        CHECK,
        lambda: short_of_cores(Story(pace=Pace(steps=20)).baseline().slow("learner-0", 10)),
        TOO_LITTLE,
        of=("learner-0",),
    ),
    "no baseline": doubts(CHECK, lambda: Story().start().train(20).end(), Code.NO_BASELINE),
    "too few rounds": doubts(
        CHECK, lambda: Story().baseline().train(1).end(), Code.TOO_FEW_SAMPLES
    ),
    "silent for a moment before the end": doubts(
        CHECK,
        lambda: (
            back().train(12).kill("learner-1").train(6).heal().train(1.5).mute("learner-1")
            .train(1).end()
        ),
        Code.TOO_FEW_SAMPLES,
    ),
}  # fmt: skip


@each(CASES)
def test_participation(case: Case) -> None:
    case.hold()


def test_the_window_and_what_was_done_instead_are_named() -> None:
    story = back().mute("learner-1").train(20).end()
    found = CHECK.judge(story.history())
    assert "learner-1 contributed to" in found.reason
    assert "rounds did without it" in found.reason or "did not answer" in found.reason
    least = found.numbers["least_share"]
    assert isinstance(least, dict)
    assert least["learner-1"] == 0.0
    assert least["learner-0"] > 0.8
