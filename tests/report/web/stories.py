"""A run with everything that a page draws: two kinds of faults, a twin, counts, links, losses."""

import functools
from collections.abc import Mapping
from typing import Self

from chaoslab.checks.catalogue import CHECKS
from chaoslab.checks.verdict import Verdict, judge
from chaoslab.core.events import Kind
from chaoslab.record.history import History
from tests.chromium import Page
from tests.histories import Story, again

CHARTS = ["faults", "lanes", "counts", "loss", "gaps", "tokens", "steps", "rates", "delays"]
LOSSES = [(10_000, 4.0), (20_000, 3.5), (40_000, 3.0), (60_000, 2.9)]


class Counted(Story):
    """A story whose harness counts learners once a second."""

    def tick(self, *, merges: bool) -> None:
        """A tick, and the counts at the end of a second."""
        super().tick(merges=merges)
        if self.now_s % 1.0 == 0.0:
            up = sum(learner.is_up for learner in self.learners.values())
            names = ("alive", "members", "stepping", "contributing")
            self.say(Kind.COUNTS_SAMPLED, **dict.fromkeys(names, up))

    def cut_and_healed(self, name: str) -> Self:
        """Its link is cut for five seconds."""
        return self.cut(name, for_s=5.0).train(5).heal().train(10)


def whole_story() -> Story:
    """Half of the learners die and come back, then the link of one is cut."""
    return again(_whole_story())


@functools.cache
def _whole_story() -> Story:
    twin = Counted(is_twin=True).baseline().train(40).settle().end(losses=LOSSES)
    story = Counted(twin=twin).baseline().kill("learner-1", "learner-3").train(6).heal()
    return story.train(10).cut_and_healed("learner-1").train(5).settle().end(losses=LOSSES)


def judged(history: History) -> Verdict:
    """By every check of the catalogue with its defaults."""
    return judge(history, [check() for check in CHECKS.values()])


def values_of_charts(page: Page) -> Mapping[str, int]:
    """How many values each chart of a page has drawn, by its name and in order."""
    drawn = page.js(
        "[...document.querySelectorAll('#charts figure')]"
        ".map((one) => [one.id, Number(one.querySelector('svg').dataset.values)])"
    )
    return {name.removeprefix("chart-"): number for name, number in drawn}
