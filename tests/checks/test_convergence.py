"""Loss parity with the twin at equal tokens, and losses that stay finite."""

import math
from collections.abc import Callable

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.convergence import LossParity, NumericHealth
from chaoslab.core.events import Json, Kind
from chaoslab.record.history import History
from tests.checks.cases import Case, each, fails, passes
from tests.histories import Story, half_killed
from tests.trainers.script_story import ScriptStory

Curve = list[tuple[int, float]]


def evaluated(run: Curve, twin: Curve | None) -> History:
    story = None if twin is None else Story(is_twin=True).start().train(2).end(losses=twin)
    return Story(twin=story).start().train(3).end(losses=run).history()


@pytest.mark.parametrize(
    ("loss", "outcome", "delta"),
    [(3.0, Outcome.PASS, 0.0), (3.3, Outcome.FAIL, 0.1), (2.7, Outcome.PASS, -0.1)],
    ids=["equal", "worse", "better"],
)
def test_losses_are_compared_at_equal_tokens(loss: float, outcome: Outcome, delta: float) -> None:
    finding = LossParity().judge(evaluated([(0, 5.0), (1000, loss)], [(0, 5.0), (1000, 3.0)]))
    assert (finding.outcome, finding.observed) == (outcome, pytest.approx(delta))
    assert finding.codes == ((Code.LOSS_TOO_HIGH,) if outcome is Outcome.FAIL else ())


@pytest.mark.parametrize(
    ("twin", "loss", "outcome", "delta"),
    [
        ((-1.0, -3.0), -3.0, Outcome.PASS, 0.0),
        ((-1.0, -3.0), -2.8, Outcome.FAIL, 0.1),
        ((-1.0, -3.0), -3.2, Outcome.PASS, -0.1),
        ((3.0, 0.0), 0.06, Outcome.PASS, 0.02),
        ((3.0, 0.0), 0.3, Outcome.FAIL, 0.1),
        ((1.0, -1.0), 0.2, Outcome.FAIL, 0.6),
        ((2.0, 0.001), -0.001, Outcome.PASS, -0.001),
    ],
    ids=["equal", "worse", "better", "near zero", "above zero", "not below it", "just below it"],
)
def test_losses_that_are_not_all_positive_are_compared_by_what_the_twin_learnt(
    twin: tuple[float, float], loss: float, outcome: Outcome, delta: float
) -> None:
    curve = [*zip((0, 1000), twin, strict=True)]
    finding = LossParity().judge(evaluated([(0, twin[0]), (1000, loss)], curve))
    assert (finding.outcome, finding.observed) == (outcome, pytest.approx(delta, abs=1e-5))


def test_curves_are_compared_at_the_largest_tokens_they_share() -> None:
    twin = [(0, 5.0), (700, 2.3), (1000, 2.0)]
    finding = LossParity().judge(evaluated([(0, 5.0), (800, 3.0)], twin))
    assert finding.numbers["at_committed_tokens"] == 800
    assert finding.numbers["twin_loss"] == pytest.approx(2.2)


@pytest.mark.parametrize(
    ("run", "twin", "every"),
    [
        ([(0, 2.1), (67_000, 0.15)], [(0, 2.1), (74_000, 0.1)], 6700),
        ([(176_000, 0.1)], [(209_000, 0.1)], 17600),
    ],
    ids=["far apart", "too few"],
)
def test_evaluations_that_cannot_be_compared_say_what_to_write(
    run: Curve, twin: Curve, every: int
) -> None:
    finding = LossParity().judge(evaluated(run, twin))
    assert finding.outcome is Outcome.UNKNOWN
    assert f"`training.evaluate_every` to {every}" in finding.reason


@pytest.mark.parametrize(
    ("loss", "outcome"), [(2.5, Outcome.UNKNOWN), (3.1, Outcome.FAIL)], ids=["alike", "worse"]
)
def test_a_run_that_is_further_than_its_twin_does_not_pass(loss: float, outcome: Outcome) -> None:
    run = [(0, 5.0), (1000, loss), (1200, 2.0)]
    assert LossParity().judge(evaluated(run, [(0, 5.0), (1000, 2.5)])).outcome is outcome


def started(**facts: Json) -> Callable[[Story], object]:
    return lambda twin: twin.altered(Kind.RUN_STARTED, lambda _: facts)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (started(seed=8), "seed"),
        (started(algorithm="streaming"), "algorithm"),
        (started(learners=["learner-0"]), "learners"),
        (started(provenance={"data": "1"}), "data"),
        (started(is_twin=False), ""),
        (lambda twin: twin.without(Kind.RUN_STARTED), ""),
        (lambda twin: twin.without(Kind.RUN_FINISHED), ""),
        (lambda twin: twin.without(Kind.NODE_STARTED), ""),
        (lambda twin: twin.without(Kind.ROUND_MERGED), ""),
        (lambda twin: twin.without(Kind.SYNCER_FINAL), ""),
        (lambda twin: twin.altered(Kind.RUN_FINISHED, lambda _: {"outcome": "aborted"}), "aborted"),
        (lambda twin: twin.altered(Kind.NODE_EXITED, lambda _: {"exit_code": 1}), "syncer"),
    ],
)
def test_a_twin_of_something_else_or_a_broken_one_is_not_compared_with(
    change: Callable[[Story], object], why: str
) -> None:
    losses = [(0, 5.0), (1000, 3.0)]
    twin = Story(is_twin=True).start().train(2).end(losses=losses)
    run = Story(twin=twin).start().train(3).end(losses=losses)
    run.altered(Kind.RUN_STARTED, lambda _: {"provenance": {"data": "0"}})
    twin.altered(Kind.RUN_STARTED, lambda _: {"provenance": {"data": "0"}})
    assert LossParity().judge(run.history()).outcome is Outcome.PASS
    change(twin)
    finding = LossParity().judge(run.history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TWIN_NOT_COMPARABLE,))
    assert why in finding.reason


@pytest.mark.parametrize(
    ("run_s", "twin_s", "outcome"),
    [
        (0.06, 0.06, Outcome.PASS),
        (0.06, 0.07, Outcome.PASS),
        (0.06, 0.08, Outcome.UNKNOWN),
        (0.06, None, Outcome.UNKNOWN),
        (None, 0.06, Outcome.UNKNOWN),
    ],
)
def test_a_twin_keeps_about_the_step_time_of_its_run(
    run_s: float | None, twin_s: float | None, outcome: Outcome
) -> None:
    def at(step_s: float | None, twin: Story | None = None) -> Story:
        story = Story(twin=twin, is_twin=twin is None).start()
        if step_s is not None:
            story.say(Kind.PACE_SET, step_s=step_s, measured_s={})
        return story.train(3 if twin else 2).end(losses=[(0, 5.0), (1000, 3.0)])

    assert LossParity().judge(at(run_s, at(twin_s)).history()).outcome is outcome


def test_a_run_is_not_its_own_twin() -> None:
    story = Story().start().train(3).end(losses=[(0, 5.0), (1000, 3.0)])
    finding = LossParity().judge(History(story.events, twin=History(story.events)))
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TWIN_NOT_COMPARABLE,))


@pytest.mark.parametrize(
    "history",
    [
        evaluated([(0, 5.0), (1000, 3.0)], None),
        evaluated([(1000, 3.0)], [(0, 5.0), (1000, 3.0)]),
        evaluated([(0, 5.0), (1000, 3.0)], []),
        evaluated([(0, 5.0), (1000, 3.0)], [(0, 5.0), (100, 4.0)]),
        evaluated([(900, 3.0), (1000, 2.9)], [(0, 5.0), (700, 4.0)]),
        evaluated([(0, 5.0), (1000, 3.0)], [(0, 5.0), (1000, math.nan)]),
        evaluated([(0, -1.0), (1000, -3.0)], [(0, -1.0), (1000, -1.0)]),
    ],
    ids=[
        "no twin",
        "one point",
        "no points",
        "twin died early",
        "no overlap",
        "twin diverged",
        "twin learnt nothing",
    ],
)
def test_what_cannot_be_compared_is_unknown(history: History) -> None:
    assert LossParity().judge(history).outcome is Outcome.UNKNOWN


def test_an_evaluator_that_died_is_named_with_its_last_words() -> None:
    twin = Story(is_twin=True).start().end(losses=[(0, 5.0), (9, 4.0)])
    story = Story(twin=twin).start().end()
    who: dict[str, Json] = {"node": "evaluator", "incarnation": 1, "pid": 7}
    story.say(Kind.NODE_STARTED, "evaluator", **who, role="evaluator", labels={})
    words = "Traceback (most recent call last):\nKeyError: 'loss'"
    died: dict[str, Json] = {"exit_code": 1, "signal": None, "last_words": words}
    story.say(Kind.NODE_EXITED, "evaluator", **who, **died)
    finding = LossParity().judge(story.history())
    assert finding.outcome is Outcome.UNKNOWN
    assert "KeyError: 'loss'" in finding.reason


def stepped(loss: float) -> Story:
    return half_killed().end().altered(Kind.LEARNER_STEP, lambda _: {"loss": loss}, which=200)


def refused(story: Story, *, is_spoilt: bool) -> Story:
    """The syncer refuses an update, which the learner may have spoilt itself."""
    who: dict[str, Json] = {"learner": "learner-1", "incarnation": 1, "round": 3, "fragment": 0}
    if is_spoilt:
        story.say(Kind.UPDATE_TAMPERED, "learner-1", **who, how="nan")
    why: dict[str, Json] = {"epoch": 2, "reason": "not_finite", "c_tokens": 100}
    return story.say(Kind.PUSH_REJECTED, "syncer", **who, **why).train(5)


def touched(fault: str, *, is_spoilt: bool) -> Story:
    story = Story().baseline().touch("learner-1", fault=fault)
    return refused(story, is_spoilt=is_spoilt).heal().end()


HEALTH = NumericHealth()
CASES = {
    **{
        f"a loss of {loss}": fails(HEALTH, lambda loss=loss: stepped(loss))
        for loss in (math.nan, math.inf, -math.inf, 11.0)
    },
    "a NaN in the evaluation": fails(
        HEALTH, lambda: half_killed().end(losses=[(1, math.nan)]), Code.LOSS_NOT_FINITE
    ),
    "an update that is not finite": fails(
        HEALTH, lambda: refused(Story().baseline(), is_spoilt=False).end()
    ),
    "an update that is not finite, as a fault asked for": passes(
        HEALTH, lambda: touched("update.tamper", is_spoilt=True)
    ),
    "an update that is not finite under another fault": fails(
        HEALTH, lambda: touched("compute.steal", is_spoilt=False)
    ),
    "a learner that says it spoilt its update, and no fault asked for it": fails(
        HEALTH, lambda: refused(Story().baseline(), is_spoilt=True).end()
    ),
}


@each(CASES)
def test_numeric_health(case: Case) -> None:
    case.hold()


def test_a_run_whose_loss_is_not_a_number_fails() -> None:
    history = evaluated([(0, 5.0), (1000, math.nan)], [(0, 5.0), (1000, 3.0)])
    assert LossParity().judge(history).outcome is Outcome.FAIL


def test_a_loss_that_runs_away_names_its_learner() -> None:
    (culprit,) = HEALTH.judge(stepped(11.0).history()).culprits
    assert culprit.startswith("learner-")


def test_the_untrained_snapshot_is_the_reference_and_not_a_rise() -> None:
    finding = NumericHealth().judge(half_killed().end(losses=[(0, 40.0), (1000, 0.08)]).history())
    assert (finding.outcome, finding.numbers["untrained_loss"]) == (Outcome.PASS, 40.0)


def test_a_rise_above_the_untrained_loss_fails_wherever_it_was_evaluated() -> None:
    story = half_killed().end(losses=[(0, 5.0), (1000, 1.0), (2000, 10.5)])
    finding = NumericHealth().judge(story.history())
    assert finding.outcome is Outcome.FAIL
    assert "at 2,000 committed tokens" in finding.reason


@pytest.mark.parametrize(
    ("losses", "outcome"),
    [
        ((-2.0, -3.0), Outcome.PASS),
        ((-2.0, -1.0), Outcome.PASS),
        ((-2.0, 0.5), Outcome.FAIL),
        ((0.01, -4.0, 1.0), Outcome.PASS),
        ((0.01, -4.0, 4.5), Outcome.FAIL),
        ((0.0, -4.0), Outcome.PASS),
    ],
    ids=["falls", "rises a little", "runs away", "crosses zero", "and runs away", "from zero"],
)
def test_losses_below_zero_may_rise_by_as_much_as_others(
    losses: tuple[float, ...], outcome: Outcome
) -> None:
    story = half_killed().end(losses=[(1000 * n, loss) for n, loss in enumerate(losses)])
    story.without(Kind.LEARNER_STEP)
    assert NumericHealth().judge(story.history()).outcome is outcome


@pytest.mark.parametrize(("late", "outcome"), [(7.0, Outcome.PASS), (9.0, Outcome.FAIL)])
def test_the_first_losses_of_a_script_may_be_those_of_single_batches(
    late: float, outcome: Outcome
) -> None:
    story = ScriptStory(workers=1)
    story.workers["worker-0"].loss = lambda step: {1: 0.01, 9: 4.0, 50: late}.get(step, 1.0)
    finding = NumericHealth().judge(story.train(60).end().history())
    assert (finding.outcome, finding.numbers["untrained_loss"]) == (outcome, 4.0)


def test_without_an_evaluation_at_zero_the_highest_first_loss_is_the_reference() -> None:
    story = Story().baseline().train(5).end()
    steps = [event for event in story.events if event.kind is Kind.LEARNER_STEP]
    first = next(n for n, event in enumerate(steps) if event.source == "learner-2")
    story.altered(Kind.LEARNER_STEP, lambda _: {"loss": 30.0}, which=first)
    assert NumericHealth().judge(story.history()).numbers["untrained_loss"] == 30.0
