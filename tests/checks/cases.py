"""Judgements in tables: a story, the check that judges it, and what it must find.

CASES = {"a heal that starts no process": fails(REJOIN, lambda: …, Code.NOT_RESTARTED)}

@each(CASES)
def test_rejoin(case: Case) -> None:
    case.hold()
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from chaoslab.checks.base import Check, Outcome
from chaoslab.checks.codes import Code
from chaoslab.core.events import Event, Json, Kind
from tests.histories import Story

Tell = Callable[[], Story]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Codes and culprits are compared where they are given."""

    check: Check
    tell: Tell
    outcome: Outcome
    codes: tuple[Code, ...] = ()
    culprits: tuple[str, ...] = ()

    def hold(self) -> None:
        """Judge the story."""
        found = self.check.judge(self.tell().history())
        assert found.outcome is self.outcome, found.reason
        assert not self.codes or found.codes == self.codes
        assert not self.culprits or found.culprits == self.culprits


def passes(check: Check, tell: Tell) -> Case:
    return Case(check=check, tell=tell, outcome=Outcome.PASS)


def fails(check: Check, tell: Tell, *codes: Code, of: tuple[str, ...] = ()) -> Case:
    return Case(check=check, tell=tell, outcome=Outcome.FAIL, codes=codes, culprits=of)


def doubts(check: Check, tell: Tell, *codes: Code) -> Case:
    return Case(check=check, tell=tell, outcome=Outcome.UNKNOWN, codes=codes)


def each(cases: Mapping[str, Case]) -> pytest.MarkDecorator:
    """A test for each case, by its name."""
    return pytest.mark.parametrize("case", cases.values(), ids=cases)


def rewritten(
    story: Story,
    kind: Kind,
    change: Callable[[Event], Mapping[str, Json]],
    fits: Callable[[Event], bool] = lambda _: True,
) -> Story:
    """Rewrite some keys of every line of a kind that fits."""
    for seq, event in enumerate(story.events):
        if event.kind is kind and fits(event):
            story.events[seq] = replace(event, data={**event.data, **change(event)})
    return story


def sampled(
    story: Story,
    *,
    others: float = 0.0,
    own: float = 1.9,
    idle: float = 0.1,
    given: Mapping[str, Json] | None = None,
) -> Story:
    """A second with what the harness saw of its machine of two cores."""
    data: dict[str, Json] = {
        "window_s": 1.0, "cores": 2, "load_1m": 13.0 if others else 4.0, "own_cores": own,
        "others_cores": others, "stolen_cores": 0.0, "idle_cores": idle, "waited_s": 0.1,
        "throttled_s": None, "cpu_pressure": 0.9, "io_pressure": 0.0, "memory_pressure": 0.0,
        "given": given or {},
    }  # fmt: skip
    return story.say(Kind.MACHINE_SAMPLED, "harness", **data)


def all_slow(story: Story) -> Story:
    """All learners at a quarter of their pace."""
    for name in story.learners:
        story.slow(name, 4)
    return story
