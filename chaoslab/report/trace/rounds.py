"""Tracks of the syncer: its processes, and for each fragment the rounds from begin to merge.

learner                 pushed ─╮ arrow     ╭─► adopted
                                ▼           │
fragment ├ quorum ┤ grace ┤ pushes, merge ┤ merged

Of very many rounds one in some is drawn, with its arrows; all of them count in the counters.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from chaoslab.core import payloads
from chaoslab.core.events import Event, Json, Kind, MalformedEvent
from chaoslab.report.thinning import every
from chaoslab.report.trace.writer import Details, Flow, TraceWriter

_ROUNDS_MOST = 6000
_ENDS_MOST = 40_000
"""Pushes and adoptions that are drawn."""


@dataclass(slots=True, kw_only=True)
class _Merged:
    time_s: float
    seq: int
    said: payloads.RoundMerged


@dataclass(slots=True, kw_only=True)
class _End:
    """A push or an adoption, at the learner's end of an arrow."""

    learner: str
    time_s: float
    name: str
    details: Mapping[str, Json]


@dataclass(slots=True, kw_only=True)
class RoundTracks:
    """The fold over events of rounds. `work` is the track of each learner for its ends."""

    trace: TraceWriter
    work: Callable[[str], int]
    _group: int = 0
    _merged: dict[int, _Merged] = field(default_factory=dict)
    _pushes: dict[tuple[int, int], list[_End]] = field(default_factory=dict)
    """By round and fragment."""
    _adoptions: dict[tuple[int, int], list[_End]] = field(default_factory=dict)
    """By fragment and version."""
    _fragments: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._group = self.trace.track("rounds")

    def _round(self, event: Event[payloads.RoundMerged]) -> None:
        said = event.payload
        if not (said.is_restated and said.round in self._merged):
            self._merged[said.round] = _Merged(time_s=event.time_s, seq=event.seq, said=said)

    def _abandoned(self, event: Event[payloads.RoundAbandoned]) -> None:
        said = event.payload
        details: Details = {"seq": event.seq, "round": said.round, "reason": said.reason}
        track = self._fragment(said.fragment)
        self.trace.instant(track, event.time_s, "round abandoned", details)

    def _pushed(self, event: Event[payloads.LearnerPushed]) -> None:
        said = event.payload
        details = {"round": said.round, "fragment": said.fragment, "tokens": said.c_tokens}
        self._pushes.setdefault((said.round, said.fragment), []).append(
            _End(learner=said.learner, time_s=event.time_s, name="pushed", details=details)
        )

    def _adopted(self, event: Event[payloads.LearnerAdopted]) -> None:
        said = event.payload
        details = {
            "fragment": said.fragment,
            "version": said.version,
            "step": said.step,
            "discarded_tokens": said.discarded_tokens,
        }
        self._adoptions.setdefault((said.fragment, said.version), []).append(
            _End(learner=said.learner, time_s=event.time_s, name="adopted", details=details)
        )

    def _fragment(self, fragment: int) -> int:
        if fragment not in self._fragments:
            self._fragments[fragment] = self.trace.track(f"fragment {fragment}", self._group)
        return self._fragments[fragment]

    # ------------------------------------------------------------------------------- drawing

    def draw(self, _end_s: float) -> None:
        """All rounds, or one in some of them, with the arrows to and from learners."""
        ends = sum(map(len, [*self._pushes.values(), *self._adoptions.values()]))
        one_in = max(every(len(self._merged), _ROUNDS_MOST), every(ends, _ENDS_MOST))
        free_s: dict[int, float] = {}
        for number, merged in enumerate(self._merged.values()):
            if number % one_in == 0:
                with suppress(MalformedEvent):  # the verdict has a finding that says so
                    fragment = merged.said.fragment
                    self._draw(merged, free_s.get(fragment, 0.0), one_in)
                    free_s[fragment] = merged.time_s

    def _draw(self, merged: _Merged, free_s: float, one_in: int) -> None:
        said, at_s = merged.said, merged.time_s
        sync_s, grace_s, quorum_s = said.sync_s or 0.0, said.grace_s or 0.0, said.quorum_s or 0.0
        pull_s = max(free_s, at_s - sync_s)
        grace_from_s = max(free_s, pull_s - grace_s)
        from_s = max(free_s, grace_from_s - quorum_s)
        contributors = {one.learner for one in said.contributors}
        pushes = self._pushes.get((said.round, said.fragment), [])
        into = [self._end(push, leaves=True) for push in pushes if push.learner in contributors]
        adoptions = self._adoptions.get((said.fragment, said.version), [])
        out = [self._end(adoption, leaves=False) for adoption in adoptions]
        details: dict[str, Json] = {
            "seq": merged.seq,
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
        self.trace.instant(track, at_s, "merged", flow=Flow(out=out, into=into))
        for begin_s, end_s, name in (
            (from_s, grace_from_s, "waits for a quorum"),
            (grace_from_s, pull_s, "grace window"),
            (pull_s, at_s, "pushes and merge"),
        ):
            if end_s > begin_s:
                self.trace.slice(track, begin_s, end_s, name)

    def _end(self, end: _End, *, leaves: bool) -> int:
        """Draw the learner's end of an arrow; the arrow's number."""
        number = self.trace.flow()
        flow = Flow(out=[number]) if leaves else Flow(into=[number])
        track = self.work(end.learner)
        self.trace.instant(track, end.time_s, end.name, end.details, flow=flow)
        return number

    FOLDS: ClassVar[Mapping[Kind, Callable[["RoundTracks", Event[Any]], None]]] = {
        Kind.ROUND_MERGED: _round,
        Kind.ROUND_ABANDONED: _abandoned,
        Kind.LEARNER_PUSHED: _pushed,
        Kind.LEARNER_ADOPTED: _adopted,
    }
