"""Spans of a run as plain data, from its story: the run, its phases, faults by victim, ways back,
some rounds.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.events import MalformedEvent
from chaoslab.report.samples import every
from chaoslab.report.story import RunStory
from chaoslab.report.story_parts import Fault

Value: TypeAlias = str | int | float | bool
_ROUNDS_MOST = 500
_ABOUT = ("plan", "seed", "fleet", "algorithm", "version")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpan:
    """A stretch of a run; all of them have the run itself as parent."""

    name: str
    from_s: float
    to_s: float
    """Seconds of the run's clock."""
    attributes: Mapping[str, Value] = field(default_factory=dict)
    moments: tuple[tuple[float, str], ...] = ()
    """Events within it, as time and text."""
    error: str = ""
    """Reason for which it counts as failed; empty if it does not."""


def whole_run(story: RunStory, verdict: Verdict | None) -> RunSpan:
    """The run itself, with its verdict."""
    attributes: dict[str, Value] = {
        f"chaoslab.{name}": str(getattr(story, name)) for name in _ABOUT
    }
    if verdict is not None:
        attributes["chaoslab.outcome"] = verdict.outcome.value
        if verdict.training_continued is not None:
            attributes["chaoslab.training_continued"] = verdict.training_continued
        margins = {one.check: one.margin for one in verdict.findings if one.margin is not None}
        attributes |= {f"chaoslab.margin.{check}": margin for check, margin in margins.items()}
    failed = [one for one in (verdict.findings if verdict else ()) if one.outcome is Outcome.FAIL]
    return RunSpan(
        name=f"chaoslab run {story.plan}".strip(),
        from_s=0.0,
        to_s=story.end_s,
        attributes=attributes,
        error="; ".join(f"{one.check}: {one.reason}" for one in failed),
    )


def run_spans(story: RunStory) -> Iterator[RunSpan]:
    """Spans within the run, as far as the record can be read."""
    for (from_s, phase), (to_s, _) in pairwise([*story.phases, (story.end_s, "")]):
        yield RunSpan(name=f"phase {phase}", from_s=from_s, to_s=to_s)
    for fault in story.faults.values():
        yield from _victims(fault, story.end_s)
    for fault in story.faults.values():
        yield from _ways_back(fault, story)
    yield from _rounds(story)


def _victims(fault: Fault, end_s: float) -> Iterator[RunSpan]:
    """A span for each victim of an injection, until its heal was checked."""
    moments = {
        "fault.injected": fault.injected_s,
        "fault.healing": fault.healing_s,
        "fault.healed": fault.healed_s,
    }
    for target in fault.targets:
        attributes: dict[str, Value] = {
            "chaoslab.injection": fault.injection,
            "chaoslab.spec": fault.spec,
            "chaoslab.fault": fault.fault,
            "chaoslab.target": target,
            "chaoslab.trigger": str(fault.details["trigger"]),
        }
        if (proof := fault.evidence.get(target)) is not None:
            attributes["chaoslab.evidence"] = proof.status.value
            attributes["chaoslab.evidence.text"] = proof.text
        yield RunSpan(
            name=f"fault {fault.fault}",
            from_s=fault.from_s,
            to_s=end_s if fault.healed_s is None else fault.healed_s,
            attributes=attributes,
            moments=tuple((at_s, name) for name, at_s in moments.items() if at_s is not None),
            error=fault.failed,
        )


def _ways_back(fault: Fault, story: RunStory) -> Iterator[RunSpan]:
    """Spans of the learners that it took away: from the heal to the first contribution."""
    if not fault.takes_away or fault.failed or fault.healing_s is None:
        return
    for name in story.taken_by(fault):
        after_s = fault.back_after_s.get(name)
        is_due = after_s is None and fault.for_s is not None
        yield RunSpan(
            name="rejoin",
            from_s=fault.healing_s,
            to_s=story.end_s if after_s is None else fault.healing_s + after_s,
            attributes={
                "chaoslab.learner": name,
                "chaoslab.injection": fault.injection,
                "chaoslab.rejoined": after_s is not None,
            },
            error="no contribution again" if is_due else "",
        )


def _rounds(story: RunStory) -> Iterator[RunSpan]:
    """Spans of some rounds at equal distances, from the pull to the merge."""
    one_in = every(len(story.merges), _ROUNDS_MOST)
    for event in [*story.merges.values()][::one_in]:
        with suppress(MalformedEvent):  # the verdict has a finding that says so
            said = event.payload
            yield RunSpan(
                name="round",
                from_s=max(0.0, event.time_s - (said.sync_s or 0.0)),
                to_s=event.time_s,
                attributes={
                    "chaoslab.round": said.round,
                    "chaoslab.fragment": said.fragment,
                    "chaoslab.version": said.version,
                    "chaoslab.contributors": len(said.contributors),
                    "chaoslab.one_round_in": one_in,
                },
            )
