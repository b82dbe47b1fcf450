"""History of a run: its events in order, read back from the journal, with views that checks share.

    journal.jsonl ─► History.read ─► of, last, between, about, faults ─► evidence, checks, reports

A torn last line is tolerated; any other broken, changed or missing line is an error that names the
file and the line: see `journal_file`. Running and judging meet only here.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias, TypeVar, cast, overload

from chaoslab.core.errors import HarnessBug
from chaoslab.core.events import Event, Json, Kind, MalformedEvent
from chaoslab.core.payloads import (
    EvidenceMeasured,
    FaultFailed,
    FaultHealed,
    FaultHealing,
    FaultInjected,
    FaultInjecting,
    NodeExited,
    NodeStarted,
    OfInjection,
    Payload,
    RoundMerged,
    RunStarted,
    Status,
    kind_of,
)
from chaoslab.record.journal_file import JOURNAL, Seal, read_journal, sealed
from chaoslab.record.proofs import WORK, outlived, proof_doubts
from chaoslab.record.time_index import TimeIndex

_P = TypeVar("_P", bound=Payload)
_Q = TypeVar("_Q", bound=Payload)
_R = TypeVar("_R", bound=Payload)
_S = TypeVar("_S", bound=Payload)
_I = TypeVar("_I", bound=OfInjection)
_V = TypeVar("_V")
Carried: TypeAlias = Kind | type[Payload]
"""A kind of event, or the class of its payload."""
_PARTIES = ("node", "learner", "link")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultStory:
    """Record of one injection, gathered from its fault.* and evidence events."""

    injection: str
    fault: str
    spec: str
    targets: tuple[str, ...]
    takes_away: bool
    brings_in: bool = False
    """Whether its targets were not there before."""
    injecting: Event[FaultInjecting]
    injected: Event[FaultInjected] | None = None
    healing: Event[FaultHealing] | None = None
    healed: Event[FaultHealed] | None = None
    failed: Event[FaultFailed] | None = None
    evidence: tuple[Event[EvidenceMeasured], ...] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)
    """Why the proof does not hold, by target with proved evidence."""

    @property
    def is_for_good(self) -> bool:
        """Whether it brought learners in that stay: nothing is upon them any more."""
        return self.brings_in and self.injecting.payload.for_s is None

    @property
    def status(self) -> Status:
        """The worst of its targets; failed without any evidence."""
        found = {event.payload.status for event in self.evidence}
        judged = {event.payload.target for event in self.evidence}
        if self.failed or Status.FAILED in found or judged != set(self.targets):
            return Status.FAILED
        return Status.WEAK if Status.WEAK in found or self.doubts else Status.PROVED


class History:
    """Read-only, indexed view of a run's events, in order. Grows only through its Journal."""

    def __init__(
        self,
        events: Iterable[Event],
        *,
        twin: "History | None" = None,
        seal: Seal | None = None,
        left_open: Sequence[Mapping[str, Json]] = (),
    ) -> None:
        self.twin = twin
        """The fault-free twin of the run, when there is one."""
        self.seal = seal
        """Seal of the file that it was read from; None without a file."""
        self.left_open = tuple(left_open)
        """Open undo entries of the run and its twin: what, where and remedy."""
        self._events: list[Event] = []
        self._by_kind: dict[Kind, list[Event]] = defaultdict(list)
        self._views: dict[object, tuple[int, object]] = {}
        self._extend(events)

    @classmethod
    def read(
        cls, run_directory: Path, *, left_open: Sequence[Mapping[str, Json]] = ()
    ) -> "History":
        """The history of a run directory, with its twin's if twin/ is there.

        FleetError, which names file and line, if a journal is missing or damaged.
        """
        folder = run_directory / "twin"
        has_twin = (folder / JOURNAL).exists() or sealed(folder) is not None
        events, seal = read_journal(run_directory)
        twin = cls.read(folder) if has_twin else None
        return cls(events, twin=twin, seal=seal, left_open=left_open)

    def retimed(self, events: Iterable[Event], *, twin: "History | None") -> "History":
        """The same record with its lines at other times; `twin` in the place of its twin."""
        return History(events, twin=twin, seal=self.seal, left_open=self.left_open)

    def append(self, event: Event) -> None:
        """Used by Journal alone."""
        self._extend((event,))

    def _extend(self, more: Iterable[Event]) -> None:
        events, by_kind = self._events, self._by_kind
        for event in more:
            if event.seq != len(events):
                raise HarnessBug(f"event {event.seq} follows {len(events) - 1} in the journal")
            events.append(event)
            kind = event.kind
            if kind is not Kind.ROUND_MERGED or not self._is_known(event):
                by_kind[kind].append(event)

    def _is_known(self, event: Event) -> bool:
        """Whether it says again what was heard before: it stays in the record and counts once."""
        try:
            said = event.payload
        except MalformedEvent:  # its reader says so
            return False
        if not isinstance(said, RoundMerged) or not said.is_restated:
            return False
        return any(e.payload.round == said.round for e in reversed(self.of(RoundMerged)))

    @property
    def events(self) -> Sequence[Event]:
        """All events in order."""
        return self._events

    def once(self, view: Callable[..., _V], *more: object) -> _V:
        """What a view shows of these events, kept until more of them come. Not to be changed."""
        length, shown = self._views.get((view, *more), (-1, None))
        if length != len(self._events):
            shown = view(self, *more)
            self._views[view, *more] = len(self._events), shown
        return cast("_V", shown)

    @property
    def end_s(self) -> float:
        """Time of the last event, 0 if there is none."""
        return self._events[-1].time_s if self._events else 0.0

    @overload
    def of(self, one: type[_P], /) -> Sequence[Event[_P]]: ...
    @overload
    def of(self, one: type[_P], two: type[_Q], /) -> Sequence[Event[_P] | Event[_Q]]: ...
    @overload
    def of(
        self, one: type[_P], two: type[_Q], three: type[_R], /
    ) -> Sequence[Event[_P] | Event[_Q] | Event[_R]]: ...
    @overload
    def of(
        self, one: type[_P], two: type[_Q], three: type[_R], four: type[_S], /
    ) -> Sequence[Event[_P] | Event[_Q] | Event[_R] | Event[_S]]: ...
    @overload
    def of(self, *kinds: Carried) -> Sequence[Event]: ...
    def of(self, *kinds: Carried) -> Sequence[Event]:
        """The events of these kinds, in order."""
        if len(kinds) == 1:
            return self._by_kind.get(_kind(kinds[0]), [])
        return self.once(History._of_all, *kinds)

    def _of_all(self, *kinds: Carried) -> Sequence[Event]:
        found = [event for kind in kinds for event in self._by_kind.get(_kind(kind), [])]
        return sorted(found, key=attrgetter("seq"))

    def about(self, party: str) -> Sequence[Event]:
        """All that a node said, and all that names it as its node, learner or link, in order."""
        return [
            event
            for event in self._events
            if event.source == party or any(event.data.get(key) == party for key in _PARTIES)
        ]

    @overload
    def last(self, kind: type[_P]) -> Event[_P] | None: ...
    @overload
    def last(self, kind: Kind) -> Event | None: ...
    def last(self, kind: Carried) -> Event | None:
        """The latest event of a kind."""
        found = self._by_kind.get(_kind(kind))
        return found[-1] if found else None

    @overload
    def between(self, start_s: float, end_s: float, one: type[_P], /) -> Sequence[Event[_P]]: ...
    @overload
    def between(
        self, start_s: float, end_s: float, one: type[_P], two: type[_Q], /
    ) -> Sequence[Event[_P] | Event[_Q]]: ...
    @overload
    def between(self, start_s: float, end_s: float, *kinds: Carried) -> Sequence[Event]: ...
    def between(self, start_s: float, end_s: float, *kinds: Carried) -> Sequence[Event]:
        """Events with start_s <= time_s <= end_s, of these kinds or of all."""
        return self.once(History._in_time, *kinds).between(start_s, end_s)

    def _in_time(self, *kinds: Carried) -> TimeIndex[Event]:
        return TimeIndex(self.of(*kinds) if kinds else self._events)

    @property
    def learners(self) -> tuple[str, ...]:
        """The names of the learners that ever took part: of the start, then those that joined."""
        return self.founders + self.newcomers

    @property
    def who(self) -> str:
        """Name in texts for one of those that train: learner, or worker of a script."""
        started = self.last(RunStarted)
        return started.payload.who if started else "learner"

    @property
    def counted(self) -> str:
        """Name in texts for what rounds commit: tokens, or steps of a script."""
        started = self.last(RunStarted)
        return started.payload.counted if started else "tokens"

    @property
    def founders(self) -> tuple[str, ...]:
        """The names of the learners the run began with."""
        started = self.last(RunStarted)
        return started.payload.learners if started else ()

    @property
    def newcomers(self) -> tuple[str, ...]:
        """The names of the learners that were started later, in the order in which they were."""
        started = self.last(RunStarted)
        reserve = started.payload.reserve if started else ()
        if not reserve:
            return ()
        came = (event.payload.node for event in self.of(NodeStarted))
        return tuple(dict.fromkeys(name for name in came if name in reserve))

    @property
    def faults(self) -> tuple[FaultStory, ...]:
        """The story of each injection, in the order in which they began."""
        return self.once(History._stories)

    def _stories(self) -> tuple[FaultStory, ...]:
        injected, healing = self._firsts(FaultInjected), self._firsts(FaultHealing)
        healed, failed = self._firsts(FaultHealed), self._firsts(FaultFailed)
        evidence: dict[str, list[Event[EvidenceMeasured]]] = defaultdict(list)
        for measured in self.of(EvidenceMeasured):
            evidence[measured.payload.injection].append(measured)
        worked_on = self.outlived if evidence else {}
        return tuple(
            FaultStory(
                injection=said.injection,
                fault=said.fault,
                spec=said.spec,
                targets=said.targets,
                takes_away=said.takes_away,
                brings_in=said.brings_in,
                injecting=injecting,
                injected=injected.get(said.injection),
                healing=healing.get(said.injection),
                healed=healed.get(said.injection),
                failed=failed.get(said.injection),
                evidence=tuple(evidence[said.injection]),
                doubts=dict(
                    proof_doubts(evidence[said.injection], injecting.seq, self._events, worked_on)
                ),
            )
            for injecting in self.of(FaultInjecting)
            for said in (injecting.payload,)
        )

    @property
    def outlived(self) -> Mapping[int, Event]:
        """First work of a life after its exit, by seq of the exit."""
        return self.once(History._outlived)

    def _outlived(self) -> Mapping[int, Event]:
        return outlived(self.of(NodeExited), self.of(*WORK))

    def _firsts(self, kind: type[_I]) -> Mapping[str, Event[_I]]:
        """The first event of a kind, by injection."""
        return {event.payload.injection: event for event in reversed(self.of(kind))}


def _kind(carried: Carried) -> Kind:
    return carried if isinstance(carried, Kind) else kind_of(carried)
