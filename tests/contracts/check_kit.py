"""What every check promises. A check's tests subclass the kit and say how to make one.

A check is pure, has three outcomes and never raises. Without a record it is UNKNOWN. Of a record
that breaks off it may PASS only what the record shows, and it never FAILs a sound run.
"""

import copy
import functools
import json
from dataclasses import asdict, replace

from chaoslab.checks.base import Check, Outcome
from chaoslab.checks.codes import Code
from chaoslab.core.events import Event, encode
from chaoslab.record.history import History
from tests.histories import Story, half_killed

TRUNCATIONS = 40
"""A long story is cut at this many places, spread evenly."""


SOUND = ("all is well", "half is killed", "one is paused", "one is cut off")
"""Stories in which training does what it should."""


@functools.cache
def stories() -> dict[str, Story]:
    """Runs of every shape that a check may meet."""
    losses = [(1000, 4.0), (9000, 3.0)]
    twin = Story(is_twin=True).baseline().train(15).end(losses=losses)
    return {
        "all is well": Story(twin=twin).baseline().train(15).end(losses=losses),
        "half is killed": half_killed().end(losses=losses),
        "one is paused": Story().baseline().pause("learner-0").train(8).heal().train(15).end(),
        "one is cut off": Story().baseline().cut("learner-0").train(8).heal().train(15).end(),
        "the syncer dies": Story().baseline().lose_syncer().stall(6).regain_syncer().train(9).end(),
        "never healed": Story().baseline().kill("learner-0", for_s=None).train(9).prove().end(),
        "interrupted": Story().baseline().kill("learner-0").train(2).finish("interrupted"),
        "a stranger's kill": Story().baseline().strike("learner-2").train(4).end(),
        "nothing is merged": Story().start().stall(8).end(),
    }


@functools.cache
def cut_short(name: str) -> list[History]:
    """The record of a story as it was after each of `TRUNCATIONS` lines; shared by all checks."""
    story = stories()[name]
    stride = max(1, len(story.events) // TRUNCATIONS)
    return [story.history(until=length) for length in range(0, len(story.events), stride)]


@functools.cache
def whole(name: str) -> History:
    """The whole record of a story; shared by all checks."""
    return stories()[name].history()


@functools.cache
def untouched(name: str) -> list[Event]:
    """A copy of its lines, made before any check saw them."""
    return copy.deepcopy(list(whole(name).events))


CODES = frozenset(code.value for code in Code)
"""Those of chaoslab; of another package: a family, a dot and a name."""


class CheckKit:
    """Subclasses provide the fixture `check`: an instance with any settings, or several in turn."""

    def test_without_training_nothing_is_known(self, check: Check) -> None:
        for history in (History(()), Story().start().history()):
            finding = check.judge(history)
            assert finding.outcome is Outcome.UNKNOWN
            assert finding.reason

    def test_it_judges_any_run_and_says_why_and_changes_nothing(self, check: Check) -> None:
        for name in stories():
            before = untouched(name)
            finding = check.judge(whole(name))
            assert finding.check == check.name
            assert all(code in CODES or "." in code for code in finding.codes), finding.codes
            assert len(finding.reason.splitlines()) == 1, name
            if finding.outcome is Outcome.PASS:
                assert finding.samples > 0, name
                assert finding.margin is None or finding.margin >= 0, name
            if finding.outcome is Outcome.FAIL:
                assert finding.margin is None or finding.margin < 0, name
            assert json.loads(encode(asdict(finding)))["outcome"] == finding.outcome.value
            assert all(0 <= seq < len(before) for seq in finding.evidence), name
            assert replace(check).judge(whole(name)) == finding, name
            assert list(whole(name).events) == before, name

    def test_a_record_that_breaks_off_anywhere_is_judged_and_a_sound_run_never_blamed(
        self, check: Check
    ) -> None:
        for name in stories():
            for history in cut_short(name):
                finding = check.judge(history)
                assert all(0 <= seq < len(history.events) for seq in finding.evidence), name
                if name in SOUND:
                    assert finding.outcome is not Outcome.FAIL, (name, history.end_s)
