"""Metrics of a run as plain data: members, tokens per second, loss, margins, each over time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chaoslab.checks.node_clocks import as_it_happened
from chaoslab.checks.verdict import Verdict
from chaoslab.record.journal import History
from chaoslab.report.samples import Sample, rate_curve, thinned
from chaoslab.report.story import COUNTS, RunStory

_SAMPLES_MOST = 1000
"""Of each series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Values over time, in seconds of the run's clock."""

    name: str
    unit: str
    meaning: str
    samples: Sequence[Sample]
    attributes: Mapping[str, str] = field(default_factory=dict)


def run_series(history: History, verdict: Verdict | None) -> Iterator[Series]:
    """All of them that have a value."""
    story = RunStory.of(as_it_happened(history).events)
    samples = story.samples
    for name in COUNTS:
        yield from _one(
            "chaoslab.learners", "{learner}", "Learners in this state",
            samples.learners[name], state=name,
        )  # fmt: skip
    for kind, added in (("trained", samples.trained), ("committed", samples.committed)):
        yield from _one(
            "chaoslab.tokens_per_second", "{token}/s", "Tokens per second of the whole training",
            rate_curve(added, story.end_s, _SAMPLES_MOST), kind=kind,
        )  # fmt: skip
    for learner, found in samples.losses.items():
        yield from _one("chaoslab.loss", "1", "Training loss of a learner", found, learner=learner)
    for one in verdict.findings if verdict else ():
        if one.margin is not None:
            yield from _one(
                "chaoslab.margin", "1", "Margin of a check: 1 at its best value, 0 at the bound",
                [(history.end_s, one.margin)], check=one.check, outcome=one.outcome.value,
            )  # fmt: skip


def _one(
    name: str, unit: str, meaning: str, samples: Sequence[Sample], **attributes: str
) -> Iterator[Series]:
    if samples:
        yield Series(
            name=name,
            unit=unit,
            meaning=meaning,
            samples=thinned(samples, _SAMPLES_MOST),
            attributes=attributes,
        )
