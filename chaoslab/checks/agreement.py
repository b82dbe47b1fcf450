"""Digests of parameters that were published, adopted, kept in memory and stored: all agree.

    round.merged (fragment, version) ─ digest ─┬─► learner.joined      what a rejoiner begins with
                                               ├─► learner.adopted     every one, as it happens
                                               ├─► learner.final       all alive at the end
                                               └─► syncer.final        in memory and read from disk

No final account is expected of a learner that is under a fault when training ends.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import fault_windows, training_end
from chaoslab.checks.violations import Doubt, Violation, conclude
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import (
    LearnerAdopted,
    LearnerFinal,
    LearnerJoined,
    Need,
    NodeExited,
    NodeStarted,
    RoundMerged,
    SyncerFinal,
)
from chaoslab.core.units import plural
from chaoslab.record.history import History

_Published = Mapping[tuple[str, int], Event[RoundMerged]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What every learner adopted and ended with is what the syncer published and ended with."""

    name: ClassVar[str] = "agreement"
    summary: ClassVar[str] = "learners and syncer hold the same fragments, momentum too"
    needs: ClassVar[Mapping[str, Need]] = {"": Need.WHOLE}

    def judge(self, history: History) -> Finding:
        """Compare every digest with that of the same version; without finals there is a doubt."""
        syncer = history.last(SyncerFinal)
        finals = {event.payload.learner: event for event in history.of(LearnerFinal)}
        published: _Published = {
            (str(event.payload.fragment), event.payload.version): event
            for event in history.of(RoundMerged)
        }
        violations = [*_joined_wrongly(history, published), *_adopted_wrongly(history, published)]
        if syncer:
            violations += _syncer_with_itself(syncer, published)
            for final in finals.values():
                violations += _ended_wrongly(final, syncer, published)
        silent = sorted(_expected(history) - finals.keys())
        doubt = None
        if syncer is None:
            doubt = Doubt(Code.RECORD_INCOMPLETE, "the syncer left no final account")
        elif silent or not finals:
            text = f"no final account of {', '.join(silent) or 'any learner'}"
            doubt = Doubt(Code.RECORD_INCOMPLETE, text)
        return conclude(
            self.name,
            [*violations, doubt],
            passed=f"{plural(len(finals), 'learner')} ended with the fragments that the "
            "syncer published and stored",
            samples=len(history.of(LearnerAdopted)) + len(finals),
            numbers={
                "adoptions": len(history.of(LearnerAdopted)),
                "learners_at_the_end": len(finals),
            },
        )


def _expected(history: History) -> set[str]:
    """The learners that were alive, and under no fault, when training ended."""
    end = training_end(history)
    alive: set[str] = set()
    for event in history.of(NodeStarted, NodeExited):
        if end is not None and event.seq > end.seq:
            break
        if event.payload.node in history.learners:
            (alive.add if event.kind is Kind.NODE_STARTED else alive.discard)(event.payload.node)
    if end is None:
        return alive
    windows = fault_windows(history)
    binding = [w for w in windows if w.end_s >= end.time_s and not w.story.is_for_good]
    affected = {node for w in binding for node in w.story.targets}
    return alive - affected


def _joined_wrongly(history: History, published: _Published) -> Iterator[Violation]:
    """State on the device of a learner at its join, against the versions that it reports.

    Initial parameters were never merged, so no event says what they are.
    """
    for event in history.of(LearnerJoined):
        digests, donor = event.payload.digests, event.payload.donor
        for fragment, version in event.payload.versions.items():
            merged = published.get((fragment, version))
            if merged and fragment in digests and digests[fragment] != merged.payload.digest:
                yield Violation.at(
                    event,
                    Code.JOINED_WITH_OTHER_STATE,
                    f"{event.payload.learner} joined with other parameters"
                    f"{f' (from {donor})' if donor else ''} than the syncer published as version "
                    f"{version} of fragment {fragment}",
                )


def _adopted_wrongly(history: History, published: _Published) -> Iterator[Violation]:
    newest: dict[str, int] = {}
    for fragment, version in published:
        newest[fragment] = max(version, newest.get(fragment, 0))
    for event in history.of(LearnerAdopted):
        fragment, version = str(event.payload.fragment), event.payload.version
        merged = published.get((fragment, version))
        what = f"{event.payload.learner} adopted version {version} of fragment {fragment}"
        if merged is None:
            if 0 < version < newest.get(fragment, 0):
                text = f"{what}, which was never published"
                yield Violation.at(event, Code.NEVER_PUBLISHED, text)
        elif event.payload.digest != merged.payload.digest:
            yield Violation.at(
                event,
                Code.ADOPTED_OTHER_STATE,
                f"{what}, but not what the syncer published as such",
            )


def _ended_wrongly(
    final: Event[LearnerFinal], syncer: Event[SyncerFinal], published: _Published
) -> Iterator[Violation]:
    """A learner's last versions against the syncer's, its digests against what was published."""
    learner = final.payload.learner
    versions, digests = final.payload.versions, final.payload.digests
    for fragment, version in syncer.payload.versions.items():
        merged = published.get((fragment, version))
        wanted = merged.payload.digest if merged else syncer.payload.digests.get(fragment)
        if versions.get(fragment) != version:
            yield Violation.at(
                final,
                Code.NOT_CONVERGED,
                f"{learner} ended with version {versions.get(fragment)} of fragment {fragment}, "
                f"the syncer with {version}: they did not converge",
            )
        elif digests.get(fragment) != wanted:
            yield Violation.at(
                final,
                Code.ENDED_WITH_OTHER_STATE,
                f"{learner} ended with other parameters than the syncer published as version "
                f"{version} of fragment {fragment}",
            )


def _syncer_with_itself(syncer: Event[SyncerFinal], published: _Published) -> Iterator[Violation]:
    """The syncer's memory against its last publications; its momentum on disk against memory."""
    said = syncer.payload
    digests, momenta = said.digests, said.momentum_digests
    for fragment, version in said.versions.items():
        merged = published.get((fragment, version))
        if merged and merged.payload.digest != digests.get(fragment):
            yield Violation.at(
                syncer,
                Code.STATE_CHANGED,
                f"the syncer's fragment {fragment} is not what it published",
            )
        if merged and fragment in momenta and merged.payload.momentum_digest != momenta[fragment]:
            yield Violation.at(
                syncer,
                Code.MOMENTUM_CHANGED,
                f"the momentum of fragment {fragment} changed after its merge",
            )
    for what, stored, live in (
        ("copy", said.stored_digests, digests),
        ("momentum", said.stored_momentum_digests, momenta),
    ):
        for fragment, found in stored.items():
            if fragment in live and found != live[fragment]:
                text = f"the stored {what} of fragment {fragment} differs from the one in memory"
                yield Violation.at(syncer, Code.STORED_STATE_DIFFERS, text)
