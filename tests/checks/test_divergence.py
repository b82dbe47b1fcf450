"""Does a script's worker go on as it would have without the fault?"""

from collections.abc import Callable

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.divergence import Divergence
from chaoslab.checks.verdict import judge
from tests.trainers.script_story import ScriptStory, broken, usual_loss


def with_twin(
    after: Callable[[int], float] = usual_loss, before: Callable[[int], float] = usual_loss
) -> ScriptStory:
    """Compared with a twin whose losses are the usual ones."""
    story = ScriptStory(twin=ScriptStory().train(120).end())
    for worker in story.workers.values():
        worker.loss = before
    story.train(30).measure().train(5).kill("worker-0").train(3).heal("worker-0", at=30)
    story.workers["worker-0"].loss = after
    return story.train(60)


def noisy(step: int) -> float:
    return usual_loss(step) + (0.02 if step % 2 else -0.02)


def misread(step: int) -> float:
    """Now and then a loss is told with the step after it."""
    return usual_loss(step - (step % 15 == 0))


@pytest.mark.parametrize(
    ("story", "outcome"),
    [
        (with_twin(), Outcome.PASS),
        (with_twin(lambda step: usual_loss(step + 30)), Outcome.FAIL),
        (with_twin(lambda step: 1.08 * usual_loss(step)), Outcome.FAIL),
        (with_twin(lambda step: usual_loss(step) + 1e-4), Outcome.UNKNOWN),
        (with_twin(noisy, noisy), Outcome.PASS),
        (with_twin(lambda step: noisy(step) * 1.1, noisy), Outcome.FAIL),
        (with_twin(misread, misread), Outcome.PASS),
        (with_twin(lambda step: misread(step) + 1e-4, misread), Outcome.UNKNOWN),
    ],
    ids=[
        "same",
        "other_data",
        "off",
        "slightly_off",
        "noisy",
        "noisy_and_off",
        "misread",
        "misread_and_slightly_off",
    ],
)
def test_losses_are_compared_with_the_twins_at_equal_steps(
    story: ScriptStory, outcome: Outcome
) -> None:
    finding = Divergence().judge(story.end().history())
    assert finding.outcome is outcome, finding.reason
    assert finding.codes == (() if outcome is Outcome.PASS else (Code.DIVERGED,))


@pytest.mark.parametrize(
    ("at", "is_silent", "outcome", "checks"),
    [
        (30, False, Outcome.UNKNOWN, {"nothing"}),
        (20, False, Outcome.FAIL, {"divergence"}),
        (0, False, Outcome.FAIL, {"divergence", "resume"}),
        (30, True, Outcome.UNKNOWN, {"divergence", "resume"}),
    ],
)
def test_where_lines_have_no_steps_losses_tell_from_which_checkpoint_it_went_on(
    at: int, is_silent: bool, outcome: Outcome, checks: set[str]
) -> None:
    """That it does so it has to say."""
    twin = ScriptStory(has_steps=False).train(120).end()
    story = ScriptStory(twin=twin, has_steps=False).train(30).measure().train(5).kill("worker-0")
    story.train(3).heal("worker-0", at=at, says=at, is_silent=is_silent)
    verdict = judge(story.train(60).end().history(), ())
    assert verdict.outcome is outcome, verdict.explain()
    assert {one.check for one in verdict.findings} == checks


def test_losses_are_compared_after_the_last_return() -> None:
    """And not those between an earlier fault and it, beside none or too few afterwards."""
    story = ScriptStory(twin=ScriptStory().train(120).end())
    story.train(30).measure().train(5).kill("worker-0").heal("worker-0", at=30).train(30)
    story.kill("worker-0").heal("worker-0", at=60)
    story.workers["worker-0"].loss = lambda _: None
    finding = Divergence().judge(story.train(40).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_FEW_SAMPLES,))


@pytest.mark.parametrize(("off", "outcome"), [(1.0, Outcome.UNKNOWN), (1.9, Outcome.FAIL)])
def test_losses_whose_noise_hides_the_bound_are_no_pass(off: float, outcome: Outcome) -> None:
    def far(step: int) -> float:
        return usual_loss(step) + (1.0 if step % 2 else -1.0)

    story = with_twin(lambda step: off * far(step), far)
    finding = Divergence().judge(story.end().history())
    assert finding.outcome is outcome, finding.reason


def test_what_is_slightly_off_may_be_accepted() -> None:
    story = with_twin(lambda step: usual_loss(step) + 1e-4)
    assert Divergence(exact=False).judge(story.end().history()).outcome is Outcome.PASS


def test_without_a_twin_nothing_is_compared() -> None:
    finding = Divergence().judge(broken(30).train(60).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.NO_TWIN,))


def test_a_script_that_goes_on_as_it_should_passes_without_a_check_of_its_plan() -> None:
    verdict = judge(with_twin().end().history(), ())
    assert [finding.check for finding in verdict.findings] == ["nothing"], verdict.explain()
    assert verdict.training_continued
    assert verdict.learners_rejoined["worker-0"].rejoined
    assert verdict.work_lost is not None
    assert verdict.work_lost.steps == 5


@pytest.mark.parametrize(
    ("story", "check"),
    [
        (broken(0).train(60), "resume"),
        (with_twin(lambda step: usual_loss(step + 30)), "divergence"),
    ],
)
def test_one_that_does_not_fails_whatever_its_plan_expects(story: ScriptStory, check: str) -> None:
    verdict = judge(story.end().history(), ())
    assert verdict.outcome is Outcome.FAIL
    assert check in verdict.by_name
