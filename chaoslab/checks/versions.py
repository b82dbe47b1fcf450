"""Versions of every fragment: one line, each version once, on top of the one before it.

    fragment 2:  0 ─► 1 ─► 2 ─► 3 …     by one syncer at a time, by rounds with numbers of their own

A syncer that comes back from its disk goes on with the same line.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import rounds_with_work
from chaoslab.checks.violations import Doubt, Violation, conclude
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import (
    NodeExited,
    NodeStarted,
    PushAccepted,
    RoundAbandoned,
    RoundMerged,
    SyncerFinal,
)
from chaoslab.core.units import plural
from chaoslab.record.history import History

_STANDSTILL_LEAST = 3
"""This many versions of a fragment without anything new are no chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions rise by one and change, from a single writer, by rounds with their own numbers."""

    name: ClassVar[str] = "versions"
    summary: ClassVar[str] = "every fragment's versions rise by one, from a single writer"

    def judge(self, history: History) -> Finding:
        """Walk the merged rounds in order; then compare with the syncer's final account."""
        merged = history.of(RoundMerged)
        last: dict[str, int] = {}
        violations = [*_line(history, last), *_rounds(history), *_writers(history)]
        violations += _standstill(history)
        violations += _final(history, last)
        return conclude(
            self.name,
            violations,
            nothing=Doubt(Code.NOTHING_TO_JUDGE, "no round was merged"),
            passed=f"{plural(len(merged), 'round')} made "
            f"{plural(len(last), 'unbroken line')} of versions",
            samples=len(merged),
        )


def _line(history: History, last: dict[str, int]) -> Iterator[Violation]:
    """Gaps, repeats and wrong bases; fills `last` with each fragment's newest version."""
    for event in history.of(RoundMerged):
        fragment = str(event.payload.fragment)
        version, base = event.payload.version, event.payload.base_version
        before = last.get(fragment)
        if before is not None and version != before + 1:
            yield Violation.at(
                event,
                Code.VERSION_SKIPPED,
                f"version {version} of fragment {fragment} followed {before}",
            )
        elif base != version - 1:
            yield Violation.at(
                event,
                Code.WRONG_BASE,
                f"version {version} of fragment {fragment} was built on {base}",
            )
        last[fragment] = version


def _standstill(history: History) -> Iterator[Violation]:
    """The first fragment whose versions repeat older ones again and again, although updates
    were pushed for them.

    One may stay the same whose updates are zeros: it holds nothing that is trained. Values may be
    too coarse to show a small step; the momentum shows it then.
    """
    is_work: dict[int, bool] = {}
    for push in history.of(PushAccepted):
        number = push.payload.round
        is_work[number] = is_work.get(number, False) or push.payload.norm != 0
    seen: dict[int, set[tuple[str, str]]] = defaultdict(set)
    same: dict[int, list[Event]] = defaultdict(list)
    for event in rounds_with_work(history):
        said = event.payload
        if said.digest is None or said.momentum_digest is None or said.is_restated:
            continue
        holds = said.digest, said.momentum_digest
        if holds in seen[said.fragment] and is_work.get(said.round, True):
            same[said.fragment].append(event)
        seen[said.fragment].add(holds)
        if len(same[said.fragment]) == _STANDSTILL_LEAST:
            text = (
                f"{_STANDSTILL_LEAST} versions of fragment {said.fragment}, from "
                f"{same[said.fragment][0].time_s:.1f} s on, repeat older ones: nothing "
                f"was merged into them"
            )
            yield Violation.at(same[said.fragment][0], Code.NOTHING_CHANGED, text)
            return


def _rounds(history: History) -> Iterator[Violation]:
    seen: set[int] = set()
    for event in history.of(RoundMerged, RoundAbandoned):
        number = event.payload.round
        if number in seen:
            yield Violation.at(event, Code.ROUND_CLOSED_TWICE, f"round {number} was closed twice")
        seen.add(number)


def _writers(history: History) -> Iterator[Violation]:
    """Two syncers at once, or rounds from more than one node."""
    alive: dict[str, int] = {}
    for event in history.of(NodeStarted, NodeExited):
        node = event.payload.node
        if event.kind is Kind.NODE_EXITED:
            alive.pop(node, None)
        elif isinstance(event.payload, NodeStarted) and event.payload.role == "syncer":
            if alive:
                yield Violation.at(
                    event,
                    Code.TWO_SYNCERS,
                    f"{node} was started while {next(iter(alive))} still ran",
                )
            alive[node] = event.payload.incarnation
    merged = history.of(RoundMerged)
    for other in merged:
        if other.source != merged[0].source:
            yield Violation.at(
                other, Code.TWO_SYNCERS, f"both {merged[0].source} and {other.source} merged rounds"
            )


def _final(history: History, last: dict[str, int]) -> Iterator[Violation]:
    final = history.last(SyncerFinal)
    versions = final.payload.versions if final else {}
    for fragment, version in last.items():
        if final and versions.get(fragment) != version:
            yield Violation.at(
                final,
                Code.LAST_VERSION_DIFFERS,
                f"the syncer ended with version {versions.get(fragment)} of fragment {fragment}, "
                f"but version {version} was the last one merged",
            )
