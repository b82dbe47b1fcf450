"""Moot: a fault that found nothing to break, because another fault of the plan had it already."""

import pytest

from chaoslab.checks.answer_checks import TrainingContinues
from chaoslab.checks.answers import Injected
from chaoslab.checks.base import Outcome
from chaoslab.checks.injections import Injections
from chaoslab.checks.verdict import Verdict, judge
from chaoslab.core.events import Json, Kind
from tests.histories import Story


def judged(story: Story) -> Verdict:
    return judge(story.history(), (TrainingContinues(),))


def status(story: Story, injection: str) -> str:
    return of(judged(story), injection).status


def of(verdict: Verdict, injection: str) -> Injected:
    return next(one for one in verdict.injections if one.id == injection)


def freeze_in_outage(lack: str, *, proved: bool = True) -> Story:
    """The syncer is killed; while it is down, a link is frozen that carries nothing."""
    story = Story().baseline().lose_syncer().stall(1).touch("learner-2", fault="network.freeze")
    story.stall(3).heal(spec="touch", lack=lack, status="failed").stall(1).regain_syncer()
    if not proved:
        story.altered(
            Kind.EVIDENCE_MEASURED,
            lambda event: {"status": "weak"} if event.payload.target == "syncer" else {},
        )
    return story.train(12).end()


@pytest.mark.parametrize("lack", ["at_start", "throughout"])
def test_a_freeze_of_a_link_that_a_syncer_kill_had_silenced_is_moot_and_no_doubt(lack: str) -> None:
    verdict = judged(freeze_in_outage(lack))
    assert verdict.outcome is Outcome.PASS
    assert of(verdict, "injection-1").status == "moot"
    assert verdict.injection_counts == {"proved": 1, "weak": 0, "failed": 0, "moot": 1}


def test_without_the_word_that_there_was_nothing_to_break_it_is_a_doubt() -> None:
    assert status(freeze_in_outage(""), "injection-1") == "failed"
    assert judged(freeze_in_outage("")).outcome is Outcome.UNKNOWN


def test_a_cover_that_is_not_proved_itself_explains_nothing() -> None:
    assert status(freeze_in_outage("at_start", proved=False), "injection-1") == "failed"


@pytest.mark.parametrize("lack", ["at_start", "throughout"])
def test_a_lack_that_no_other_fault_explains_is_a_doubt(lack: str) -> None:
    story = Story().baseline().touch("learner-2", fault="network.freeze").train(3).heal(lack=lack)
    assert status(story.train(9).end(), "injection-0") == "failed"


def outlasts(lack: str) -> Story:
    """A link is cut, then delayed as well; the delay goes on for long after the cut is healed."""
    story = Story().baseline().cut("learner-2").train(3)
    story.touch("learner-2", fault="network.latency").train(3).heal(spec="cut").train(9)
    return story.heal(spec="touch", lack=lack).train(9).end()


def test_a_lack_at_the_start_needs_an_explanation_for_the_start_alone() -> None:
    assert status(outlasts("at_start"), "injection-1") == "moot"


def test_a_lack_throughout_needs_one_to_the_end() -> None:
    assert status(outlasts("throughout"), "injection-1") == "failed"


def on_the_way_back(rejoin_s: float) -> Story:
    story = Story(rejoin_s=rejoin_s).baseline().kill("learner-2").train(6).heal().train(1)
    story.touch("learner-2", fault="network.latency").train(2).heal(lack="throughout")
    return story.train(12).end()


def test_a_victim_that_is_not_back_yet_is_still_had_by_its_fault() -> None:
    assert status(on_the_way_back(9.0), "injection-1") == "moot"
    assert status(on_the_way_back(1.0), "injection-1") == "failed"


# ---------------------------------------------------------------- skipped


def skipped(*names: str, obstacle: str) -> Story:
    story = Story().baseline().kill("learner-1").train(3).skip(*names, obstacle=obstacle)
    return story.train(3).heal().train(12).end()


def test_a_kill_of_a_learner_that_another_one_holds_dead_is_moot() -> None:
    for obstacle in ("held", "not_alive"):
        verdict = judged(skipped("learner-1", obstacle=obstacle))
        assert verdict.outcome is Outcome.PASS
        assert of(verdict, "injection-1").status == "moot"


@pytest.mark.parametrize(
    ("names", "obstacle"),
    [
        (["learner-1"], "no_trigger"),
        (["learner-1"], "limits"),
        (["learner-1"], ""),
        (["learner-1", "learner-2"], "held"),
        (["learner-2"], "not_alive"),
        ([], "held"),
    ],
)
def test_any_other_skip_is_a_doubt(names: list[str], obstacle: str) -> None:
    verdict = judged(skipped(*names, obstacle=obstacle))
    assert verdict.outcome is Outcome.UNKNOWN
    assert of(verdict, "injection-1").status == "failed"


def test_a_learner_that_died_by_itself_is_no_excuse() -> None:
    story = Story().baseline().strike("learner-2").train(1)
    story.skip("learner-2", obstacle="not_alive").train(9).end()
    assert status(story, "injection-0") == "failed"


# ---------------------------------------------------------------- what moot ones do not count for


def test_an_entry_whose_every_injection_is_moot_never_took_place() -> None:
    entries: list[Json] = [
        {"spec": "crash", "fault": "syncer.kill", "injections": 1},
        {"spec": "touch", "fault": "network.freeze", "injections": 1},
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
