"""Spans of a run as plain data: the run, its phases, faults by victim, ways back, some rounds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from chaoslab.checks.absence import absences
from chaoslab.checks.base import Outcome
from chaoslab.checks.node_clocks import as_it_happened
from chaoslab.checks.verdict import Verdict
from chaoslab.core.events import MalformedEvent
from chaoslab.core.payloads import PhaseEntered, RoundMerged
from chaoslab.record.history import FaultStory, History
from chaoslab.report.samples import every
from chaoslab.report.wording import begun

Value: TypeAlias = str | int | float | bool
_ROUNDS_MOST = 500


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


def whole_run(history: History, verdict: Verdict | None) -> RunSpan:
    """The run itself, with its verdict."""
    attributes: dict[str, Value] = {
        f"chaoslab.{name}": text for name, text in begun(history).items()
    }
    if verdict is not None:
        attributes["chaoslab.outcome"] = verdict.outcome.value
        if verdict.training_continued is not None:
            attributes["chaoslab.training_continued"] = verdict.training_continued
        margins = {one.check: one.margin for one in verdict.findings if one.margin is not None}
        attributes |= {f"chaoslab.margin.{check}": margin for check, margin in margins.items()}
    failed = [one for one in (verdict.findings if verdict else ()) if one.outcome is Outcome.FAIL]
    plan = attributes.get("chaoslab.plan", "")
    return RunSpan(
        name=f"chaoslab run {plan}".strip(),
        from_s=0.0,
        to_s=history.end_s,
        attributes=attributes,
        error="; ".join(f"{one.check}: {one.reason}" for one in failed),
    )


def run_spans(history: History) -> Iterator[RunSpan]:
    """Spans within the run, as far as the record can be read."""
    timed = as_it_happened(history)
    for part in (_phases, _faults, _ways_back, _rounds):
        try:
            yield from part(timed)
        except MalformedEvent:  # the verdict has a finding that says so
            continue


def _phases(history: History) -> Iterator[RunSpan]:
    entered = [(event.time_s, event.payload.phase) for event in history.of(PhaseEntered)]
    for (from_s, phase), (to_s, _) in pairwise([*entered, (history.end_s, "")]):
        yield RunSpan(name=f"phase {phase}", from_s=from_s, to_s=to_s)


def _faults(history: History) -> Iterator[RunSpan]:
    """A span for each victim of each injection, until its heal was checked."""
    for story in history.faults:
        proofs = {event.payload.target: event.payload for event in story.evidence}
        for target in story.targets:
            attributes: dict[str, Value] = {
                "chaoslab.injection": story.injection,
                "chaoslab.spec": story.spec,
                "chaoslab.fault": story.fault,
                "chaoslab.target": target,
                "chaoslab.trigger": story.injecting.payload.trigger,
            }
            if target in proofs:
                attributes["chaoslab.evidence"] = proofs[target].status.value
                attributes["chaoslab.evidence.text"] = proofs[target].text
            yield RunSpan(
                name=f"fault {story.fault}",
                from_s=story.injecting.time_s,
                to_s=_fault_end_s(story, history),
                attributes=attributes,
                moments=tuple(
                    (event.time_s, event.kind.value)
                    for event in (story.injected, story.healing, story.healed)
                    if event is not None
                ),
                error=story.failed.payload.reason if story.failed else "",
            )


def _fault_end_s(story: FaultStory, history: History) -> float:
    """Time at which it was healed or failed; the end of the record without either."""
    last = story.healed or story.failed
    return last.time_s if last else history.end_s


def _ways_back(history: History) -> Iterator[RunSpan]:
    """Spans from the heal or restart of a learner to its first contribution."""
    for one in absences(history):
        if one.since is None:
            continue
        yield RunSpan(
            name="rejoin",
            from_s=one.since.time_s,
            to_s=max(one.since.time_s, one.back_s),
            attributes={
                "chaoslab.learner": one.learner,
                "chaoslab.injections": ", ".join(story.injection for story in one.stories),
                "chaoslab.rejoined": one.accepted is not None,
            },
            moments=tuple(
                (event.time_s, name)
                for name, event in (("up", one.up), ("first step", one.stepped))
                if event is not None
            ),
            error="" if one.accepted or not one.was_to_be_healed else "no contribution again",
        )


def _rounds(history: History) -> Iterator[RunSpan]:
    """Spans of some rounds at equal distances, from the pull to the merge."""
    merged = history.of(RoundMerged)
    one_in = every(len(merged), _ROUNDS_MOST)
    for event in merged[::one_in]:
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
