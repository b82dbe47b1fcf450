"""What every check promises. A check's tests subclass the kit and say how to make one.

A check is pure, three-valued and never in a hurry to say PASS: without a record, or with one that
breaks off anywhere, it says UNKNOWN or FAIL, or PASS only of what it has seen. It never raises.
"""

import copy
import functools
import json
from dataclasses import asdict, fields, is_dataclass

import pytest

from chaoslab.checks.base import Check, Finding, Outcome
from chaoslab.events import encode
from chaoslab.journal import History
from tests.histories import Story, half_killed

TRUNCATIONS = 60
"""A long story is cut at this many places, spread evenly."""


@functools.cache
def stories() -> dict[str, Story]:
    """Runs of every shape that a check may meet."""
    losses = [(1000, 4.0), (9000, 3.0)]
    twin = Story().baseline().train(15).end(losses=losses)
    return {
        "all is well": Story(control=twin).baseline().train(15).end(losses=losses),
        "half is killed": half_killed().end(losses=losses),
        "one is paused": Story().baseline().pause("learner-0").train(8).heal().train(15).end(),
        "one is cut off": Story().baseline().cut("learner-0").train(8).heal().train(15).end(),
        "the syncer dies": Story().baseline().lose_syncer().stall(6).regain_syncer().train(9).end(),
        "never healed": Story().baseline().kill("learner-0", for_s=None).train(9).prove().end(),
        "interrupted": Story().baseline().kill("learner-0").train(2).finish("interrupted"),
        "a stranger's kill": Story().baseline().strike("learner-2").train(4).end(),
        "nothing is merged": Story().start().stall(8).end(),
    }


class CheckKit:
    """Subclasses provide the fixture `check`, one or more instances."""

    def test_its_settings_are_a_frozen_dataclass_with_defaults(self, check: Check) -> None:
        kind = type(check)
        assert is_dataclass(kind)
        assert check == kind()
        assert hash(check) == hash(kind())
        assert all(field.kw_only for field in fields(kind))
        assert check.summary
        assert check.name == check.name.lower().replace("-", "_")

    def test_an_empty_record_is_unknown(self, check: Check) -> None:
        finding = check.judge(History(()))
        assert finding.outcome is Outcome.UNKNOWN
        assert finding.reason

    def test_a_run_without_faults_and_without_training_never_passes(self, check: Check) -> None:
        story = Story().start()
        assert check.judge(story.history()).outcome is Outcome.UNKNOWN

    @pytest.mark.parametrize("name", stories())
    def test_it_judges_any_run_and_says_why(self, check: Check, name: str) -> None:
        finding = check.judge(stories()[name].history())
        assert finding.check == check.name
        assert finding.reason
        assert finding.reason.count("\n") == 0
        if finding.outcome is Outcome.PASS:
            assert finding.samples > 0
            assert finding.margin is None or finding.margin >= 0
        if finding.outcome is Outcome.FAIL:
            assert finding.margin is None or finding.margin < 0

    @pytest.mark.parametrize("name", stories())
    def test_it_is_pure(self, check: Check, name: str) -> None:
        history = stories()[name].history()
        before = copy.deepcopy(list(history.events))
        assert check.judge(history) == check.judge(history)
        assert list(history.events) == before

    @pytest.mark.parametrize("name", stories())
    def test_its_finding_is_json_and_cites_lines_of_the_record(
        self, check: Check, name: str
    ) -> None:
        history = stories()[name].history()
        finding = check.judge(history)
        assert json.loads(encode(asdict(finding)))["outcome"] == finding.outcome.value
        assert all(0 <= seq < len(history.events) for seq in finding.evidence)

    @pytest.mark.parametrize("name", stories())
    def test_a_record_that_breaks_off_anywhere_is_judged(self, check: Check, name: str) -> None:
        story = stories()[name]
        stride = max(1, len(story.events) // TRUNCATIONS)
        for length in range(0, len(story.events), stride):
            finding = check.judge(story.history(until=length))
            assert isinstance(finding, Finding)
            assert all(0 <= seq < length for seq in finding.evidence)

    @pytest.mark.parametrize(
        "name", ["all is well", "half is killed", "one is paused", "one is cut off"]
    )
    def test_a_sound_run_that_is_cut_short_is_never_blamed(self, check: Check, name: str) -> None:
        story = stories()[name]
        stride = max(1, len(story.events) // TRUNCATIONS)
        for length in range(0, len(story.events), stride):
            finding = check.judge(story.history(until=length))
            assert finding.outcome is not Outcome.FAIL, (length, finding.reason)
