"""Moot: a fault that found nothing to break, because another fault of the plan had it already."""

import pytest

from chaoslab.checks.answer_checks import Injections, TrainingContinues
from chaoslab.checks.answers import Injected
from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict, judge
from chaoslab.core.events import Json, Kind
from tests.checks.cases import Tell
from tests.histories import Story


def judged(story: Story) -> Verdict:
    return judge(story.history(), (TrainingContinues(),))


def of(verdict: Verdict, injection: str) -> Injected:
    return next(one for one in verdict.injections if one.id == injection)


def freeze_in_outage(idle: str, *, proved: bool = True) -> Story:
    """The syncer is killed; while it is down, a link is frozen that carries nothing."""
    story = Story().baseline().lose_syncer().stall(1).touch("learner-2", fault="network.partition")
    story.stall(3).heal(spec="touch", idle=idle, status="failed").stall(1).regain_syncer()
    if not proved:
        story.altered(
            Kind.EVIDENCE_MEASURED,
            lambda event: {"status": "weak"} if event.payload.target == "syncer" else {},
        )
    return story.train(12).end()


@pytest.mark.parametrize("idle", ["at_start", "throughout"])
def test_a_freeze_of_a_link_that_a_syncer_kill_had_silenced_is_moot_and_no_doubt(idle: str) -> None:
    verdict = judged(freeze_in_outage(idle))
    assert verdict.outcome is Outcome.PASS
    assert of(verdict, "injection-1").status == "moot"
    assert verdict.injection_counts == {"proved": 1, "weak": 0, "failed": 0, "moot": 1}


def alone(idle: str) -> Story:
    story = (
        Story().baseline().touch("learner-2", fault="network.partition").train(3).heal(idle=idle)
    )
    return story.train(9).end()


def outlasts(idle: str) -> Story:
    """A link is cut, then delayed as well; the delay goes on for long after the cut is healed."""
    story = Story().baseline().cut("learner-2").train(3)
    story.touch("learner-2", fault="network.latency").train(3).heal(spec="cut").train(9)
    return story.heal(spec="touch", idle=idle).train(9).end()


def on_the_way_back(rejoin_s: float) -> Story:
    story = Story(rejoin_s=rejoin_s).baseline().kill("learner-2").train(6).heal().train(1)
    story.touch("learner-2", fault="network.latency").train(2).heal(idle="throughout")
    return story.train(12).end()


@pytest.mark.parametrize(
    ("tell", "is_moot"),
    [
        (lambda: freeze_in_outage(""), False),
        (lambda: freeze_in_outage("at_start", proved=False), False),
        (lambda: alone("at_start"), False),
        (lambda: alone("throughout"), False),
        (lambda: outlasts("at_start"), True),
        (lambda: outlasts("throughout"), False),
        (lambda: on_the_way_back(9.0), True),
        (lambda: on_the_way_back(1.0), False),
    ],
    ids=[
        "it does not say that nothing was to break", "the cover is not proved", "no cover at start",
        "no cover throughout", "covered at the start", "not covered to the end",
        "a victim not back yet", "a victim that is back",
    ],
)  # fmt: skip
def test_a_lack_needs_an_explanation(tell: Tell, is_moot: bool) -> None:
    verdict = judged(tell())
    assert verdict.injections[-1].status == ("moot" if is_moot else "failed")
    assert verdict.outcome is (Outcome.PASS if is_moot else Outcome.UNKNOWN)


# ---------------------------------------------------------------- skipped


def skipped(*names: str, obstacle: str) -> Story:
    story = Story().baseline().kill("learner-1").train(3).skip(*names, obstacle=obstacle)
    return story.train(3).heal().train(12).end()


def died_by_itself() -> Story:
    story = Story().baseline().strike("learner-2").train(1)
    return story.skip("learner-2", obstacle="not_alive").train(9).end()


@pytest.mark.parametrize(
    ("names", "obstacle", "is_moot"),
    [
        (["learner-1"], "under_fault", True),
        (["learner-1"], "not_alive", True),
        (["learner-1"], "no_trigger", False),
        (["learner-1"], "limits", False),
        (["learner-1"], "", False),
        (["learner-1", "learner-2"], "under_fault", False),
        (["learner-2"], "not_alive", False),
        ([], "under_fault", False),
    ],
)
def test_a_skip_is_moot_only_if_another_fault_holds_all_its_targets(
    names: list[str], obstacle: str, is_moot: bool
) -> None:
    verdict = judged(skipped(*names, obstacle=obstacle))
    assert verdict.outcome is (Outcome.PASS if is_moot else Outcome.UNKNOWN)
    assert of(verdict, "injection-1").status == ("moot" if is_moot else "failed")


def test_a_learner_that_died_by_itself_is_no_excuse() -> None:
    assert of(judged(died_by_itself()), "injection-0").status == "failed"


# ---------------------------------------------------------------- what moot ones do not count for


def test_an_entry_whose_every_injection_is_moot_never_took_place() -> None:
    entries: list[Json] = [
        {"spec": "crash", "fault": "process.kill", "injections": 1},
        {"spec": "touch", "fault": "network.partition", "injections": 1},
    ]
    story = freeze_in_outage("at_start").altered(Kind.RUN_STARTED, lambda _: {"entries": entries})
    verdict = judged(story)
    assert verdict.outcome is Outcome.UNKNOWN
    (finding,) = [one for one in verdict.findings if one.outcome is Outcome.UNKNOWN]
    assert (finding.check, finding.culprits) == ("entries", ("touch",))


def test_a_soak_that_wants_more_proved_than_there_are_is_unknown() -> None:
    history = freeze_in_outage("at_start").history()
    assert Injections(min_proved=1).judge(history).outcome is Outcome.PASS
    assert Injections(min_proved=2).judge(history).outcome is Outcome.UNKNOWN
