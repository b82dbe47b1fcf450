"""Flake rates over several verdicts of one plan."""

import pytest

from chaoslab.checks.progress import Continuity
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.verdict import Verdict, judge
from chaoslab.report.repeated import repeated, repeated_json, wilson
from tests.histories import Story, half_killed


def verdict_of(story: Story) -> Verdict:
    return judge(story.history(), [Continuity(), Rejoin()])


@pytest.mark.parametrize(
    ("hits", "runs", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 50, 0.0435, 0.2136), (1, 1, 0.2065, 1.0)],
)
def test_the_interval_is_wilsons(hits: int, runs: int, low: float, high: float) -> None:
    assert wilson(hits, runs) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_a_rule_that_speaks_in_one_run_only_counts_as_kept_in_the_others() -> None:
    sound = verdict_of(half_killed().end())
    struck = verdict_of(half_killed().strike("learner-2").train(2).end())
    found = {one.check: one for one in repeated([sound, struck, sound, sound])}
    assert (found["unasked"].runs, found["unasked"].failed) == (4, 1)
    assert (found["unasked"].flake_rate, found["rejoin"].flake_rate) == (0.25, 0)
    assert len(found["rejoin"].margins) == 4


def test_the_whole_has_its_outcomes_and_its_rate() -> None:
    sound, struck = half_killed().end(), half_killed().strike("learner-2").train(2).end()
    whole = repeated_json([verdict_of(sound), verdict_of(struck)])
    assert whole["outcomes"] == {"PASS": 1, "FAIL": 1}
    assert whole["flake_rate"] == 0.5
