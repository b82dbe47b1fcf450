"""Tracks of rounds: for each fragment the rounds from begin to merge, with arrows to learners.

learner                 pushed ─╮ arrow     ╭─► adopted
                                ▼           │
fragment ├ quorum ┤ grace ┤ pushes, merge ┤ merged

Of very many rounds one in some is drawn, with its arrows; all of them count in the counters.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from chaoslab.core.events import Event, Json, MalformedEvent
from chaoslab.core.payloads import LearnerAdopted, LearnerPushed, RoundAbandoned, RoundMerged
from chaoslab.record.history import History
from chaoslab.report.samples import every
from chaoslab.report.trace.writer import Details, Flow, TraceWriter

_ROUNDS_MOST = 6000
_ENDS_MOST = 40_000
"""Pushes and adoptions that are drawn."""


def draw_rounds(
    history: History,
    merges: Sequence[Event[RoundMerged]],
    trace: TraceWriter,
    group: int,
    work: Callable[[str], int],
) -> None:
    """Draw them in this group; `work` is the track of each learner for its ends of arrows."""
    drawing = _Drawing(trace=trace, group=group, work=work)
    for push in history.of(LearnerPushed):
        with suppress(MalformedEvent):  # the verdict has a finding that says so
            drawing.pushes[push.payload.round, push.payload.fragment].append(push)
    for adoption in history.of(LearnerAdopted):
        with suppress(MalformedEvent):
            said = adoption.payload
            drawing.adoptions[said.fragment, said.version].append(adoption)
    drawing.draw(merges, history.of(RoundAbandoned))


@dataclass(slots=True, kw_only=True)
class _Drawing:
    trace: TraceWriter
    group: int
    work: Callable[[str], int]
    pushes: defaultdict[tuple[int, int], list[Event[LearnerPushed]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Pushes by round and fragment."""
    adoptions: defaultdict[tuple[int, int], list[Event[LearnerAdopted]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Adoptions by fragment and version."""
    _fragments: dict[int, int] = field(default_factory=dict)

    def draw(
        self, merges: Sequence[Event[RoundMerged]], abandoned: Iterable[Event[RoundAbandoned]]
    ) -> None:
        """All rounds, or one in some of them, with the arrows to and from learners."""
        ends = sum(map(len, self.pushes.values())) + sum(map(len, self.adoptions.values()))
        one_in = max(every(len(merges), _ROUNDS_MOST), every(ends, _ENDS_MOST))
        free_s: defaultdict[int, float] = defaultdict(float)
        for event in merges[::one_in]:
            with suppress(MalformedEvent):
                fragment = event.payload.fragment
                self._round(event, free_s[fragment], one_in)
                free_s[fragment] = event.time_s
        for lost in abandoned:
            with suppress(MalformedEvent):
                said = lost.payload
                details: Details = {"seq": lost.seq, "round": said.round, "reason": said.reason}
                track = self._fragment(said.fragment)
                self.trace.instant(track, lost.time_s, "round abandoned", details)

    def _fragment(self, fragment: int) -> int:
        if fragment not in self._fragments:
            self._fragments[fragment] = self.trace.track(f"fragment {fragment}", self.group)
        return self._fragments[fragment]

    def _round(self, event: Event[RoundMerged], free_s: float, one_in: int) -> None:
        said, at_s = event.payload, event.time_s
        sync_s, grace_s, quorum_s = said.sync_s or 0.0, said.grace_s or 0.0, said.quorum_s or 0.0
        pull_s = max(free_s, at_s - sync_s)
        grace_from_s = max(free_s, pull_s - grace_s)
        from_s = max(free_s, grace_from_s - quorum_s)
        contributors = {one.learner for one in said.contributors}
        details: dict[str, Json] = {
            "seq": event.seq,
            "round": said.round,
            "version": said.version,
            "contributors": ", ".join(sorted(contributors)),
            "missed": ", ".join(said.missed) or None,
            "members": said.members,
            "committed_tokens": said.committed_tokens,
            "drawn": f"one round in {one_in}" if one_in > 1 else None,
        }
        track = self._fragment(said.fragment)
        self.trace.slice(track, from_s, at_s, "round", details)
        self.trace.instant(track, at_s, "merged", flow=self._arrows(said, contributors))
        for begin_s, end_s, name in (
            (from_s, grace_from_s, "waits for a quorum"),
            (grace_from_s, pull_s, "grace window"),
            (pull_s, at_s, "pushes and merge"),
        ):
            if end_s > begin_s:
                self.trace.slice(track, begin_s, end_s, name)

    def _arrows(self, merged: RoundMerged, contributors: set[str]) -> Flow:
        """Those that end at a merge and leave it, each with its other end drawn."""
        into, out = [], []
        for push in self.pushes[merged.round, merged.fragment]:
            said = push.payload
            if said.learner in contributors:
                into.append(self.trace.flow())
                details: Details = {
                    "round": said.round,
                    "fragment": said.fragment,
                    "tokens": said.c_tokens,
                }
                track, flow = self.work(said.learner), Flow(out=into[-1:])
                self.trace.instant(track, push.time_s, "pushed", details, flow=flow)
        for adoption in self.adoptions[merged.fragment, merged.version]:
            took = adoption.payload
            out.append(self.trace.flow())
            details = {
                "fragment": took.fragment,
                "version": took.version,
                "step": took.step,
                "discarded_tokens": took.discarded_tokens,
            }
            track, flow = self.work(took.learner), Flow(into=out[-1:])
            self.trace.instant(track, adoption.time_s, "adopted", details, flow=flow)
        return Flow(out=out, into=into)
