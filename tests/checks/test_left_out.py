"""What a run was never to answer is named and not judged; all else is judged as ever."""

from collections.abc import Sequence

import pytest

from chaoslab.checks.agreement import Agreement
from chaoslab.checks.base import Check, Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.convergence import LossParity
from chaoslab.checks.goodput import Goodput
from chaoslab.checks.ledger import Ledger
from chaoslab.checks.progress import Continuity
from chaoslab.checks.verdict import Verdict, judge
from chaoslab.core.events import Kind
from chaoslab.core.payloads import Need
from tests.histories import Story, half_killed


def judged(*expect: Check, without: Sequence[str] = (), story: Story | None = None) -> Verdict:
    story = story or half_killed().end()
    story.altered(Kind.RUN_STARTED, lambda _: {"without": list(without)})
    return judge(story.history(), expect)


@pytest.mark.parametrize(
    ("check", "need"),
    [
        (LossParity(), Need.TWIN),
        (Ledger(), Need.WHOLE),
        (Agreement(), Need.WHOLE),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_check_is_left_out_where_the_run_by_choice_lacks_what_it_needs(
    check: Check, need: Need
) -> None:
    verdict = judged(Continuity(), check, without=[need])
    assert verdict.outcome is Outcome.PASS
    assert [finding.check for finding in verdict.findings] == ["continuity"]
    assert [(one.name, one.need) for one in verdict.not_judged] == [(check.name, need)]
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_a_twin_that_was_asked_for_and_is_missing_is_a_doubt() -> None:
    verdict = judged(Continuity(), LossParity())
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.by_name["loss_parity"].codes == (Code.NO_TWIN,)
    assert verdict.not_judged == ()


def test_a_setting_is_left_out_and_the_rest_of_its_check_is_judged() -> None:
    strict = Goodput(min_share=0.01, max_share=1.0001)
    verdict = judged(strict, without=["step_time"])
    assert verdict.by_name["goodput"].bound == 0.01
    assert [one.name for one in verdict.not_judged] == ["goodput.max_share"]
    assert judged(Goodput(), without=["step_time"]).not_judged == ()


def test_a_run_of_which_nothing_was_judged_does_not_pass() -> None:
    verdict = judged(LossParity(), Ledger(), without=["twin", "whole_training"])
    assert (verdict.outcome, len(verdict.not_judged)) == (Outcome.UNKNOWN, 2)
    assert verdict.findings[0].codes == (Code.NOTHING_TO_JUDGE,)


def test_a_broken_beginning_of_the_record_leaves_nothing_out() -> None:
    verdict = judged(LossParity(), without=["something new"])
    assert (verdict.outcome, verdict.not_judged) == (Outcome.UNKNOWN, ())
