"""Story of a run: the one fold of its events, which every report reads, during the run and after.

    Event ─► RunStory.see ─► nodes (`story_nodes`) · faults · links · what operators decided
                      ├─► rounds · counts · phases · progress
                      ├─► samples: curves over time, of a finished record only
                      └─► the sentences that this event is worth

It draws nothing and guesses nothing: a state comes from an event, and a learner that is `rejoining`
is that until the syncer has merged a contribution of that incarnation.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from chaoslab.core import payloads
from chaoslab.core.events import Event, Kind, MalformedEvent
from chaoslab.core.units import delay
from chaoslab.plan.model import Stop
from chaoslab.report.samples import COUNTS, Samples
from chaoslab.report.sentences import Sentence, Tone, describe, is_notable, seconds
from chaoslab.report.story_nodes import Nodes
from chaoslab.report.story_parts import (
    LAUNCHER,
    Baseline,
    Decisions,
    Fault,
    Link,
    Rounds,
    State,
)

_SENTENCES_KEPT = 64
_END_MOST_S = 1e9
"""No run lasts for thirty years."""


class RunStory:
    """The fold over a run's events."""

    def __init__(
        self, stop: Stop | None = None, *, is_whole: bool = False, samples_s: float = 0.0
    ) -> None:
        """`stop` gives progress its goal; `is_whole`: all sentences, samples and what became of
        links are kept; `samples_s`: without it, the samples of at least the last so many seconds.
        """
        self.stop = stop
        self.plan, self.seed, self.fleet, self.algorithm, self.version = "", 0, "", "", ""
        self.who, self.counted = "learner", "tokens"
        """One of those that train, and what rounds commit: of a script worker and steps."""
        self.is_whole, self._samples_s = is_whole, samples_s
        self.sentences: deque[Sentence] = deque(maxlen=None if is_whole else _SENTENCES_KEPT)
        self.unreadable = 0
        """Number of events whose data does not match their kind; shown, not hidden."""
        self._begin()

    def _begin(self) -> None:
        """Reset what every run begins with."""
        self.now_s = self.end_s = 0.0
        self.samples, self._thinned_s = Samples(), 0.0
        self.phases: list[tuple[float, str]] = []
        self.baseline: Baseline | None = None
        self.stopped_s: float | None = None
        """Time at which the syncer said that training has ended."""
        self.outcome = ""
        """Outcome of the run; empty while it goes on."""
        self.faults: dict[str, Fault] = {}
        self.nodes = Nodes(self.faults)
        self._returning: dict[str, list[Fault]] = {}
        """By learner that a fault took away: the healed ones since which nothing was merged."""
        self.links = defaultdict[str, Link](Link)
        self.rounds = Rounds()
        self.merges: dict[int, Event[payloads.RoundMerged]] = {}
        """Of a whole record, by round; one that a syncer restates does not count."""
        self.counts: Mapping[str, int] = {}
        self.decisions = Decisions()
        self.sentences.clear()

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """Story of a whole record."""
        story = cls(is_whole=True)
        for event in events:
            story.see(event)
        return story

    def see(self, event: Event) -> tuple[Sentence, ...]:
        """Take one event in and return the sentences it is worth, already kept in `sentences`."""
        if not abs(event.time_s) < _END_MOST_S:  # a broken record
            self.unreadable += 1
            return ()
        self.now_s, self.end_s = event.time_s, max(self.end_s, event.time_s)
        fold, said = self._FOLDS.get(event.kind), None
        if self.is_whole:
            fold = self._FOLDS_OF_LINKS.get(event.kind, fold)
        if fold is None and not self.is_whole and not is_notable(event.kind):  # most events
            return ()
        try:
            said = describe(event)
            derived = fold(self, event) if fold else None
            if self.is_whole or self._samples_s:
                self.samples.see(event)
        except MalformedEvent:
            self.unreadable += 1
            return ()
        if said and isinstance(event.payload, payloads.RunSettled) and event.payload.is_settled:
            said = self._settled(said)
        self._forget_samples()
        sentences = [one for one in (said, derived) if one]
        self.sentences.extend(sentences)
        return tuple(sentences)

    def _forget_samples(self) -> None:
        is_due = self.now_s >= self._thinned_s + self._samples_s
        if self._samples_s and is_due and not self.is_whole:
            self.samples.forget(self.now_s - self._samples_s)
            self._thinned_s = self.now_s

    def await_twin(self, failed: Sequence[str]) -> Sentence:
        """Note that the run is over and its twin is next; `failed`: checks that failed so far."""
        so_far = f"{', '.join(failed)} failed" if failed else "nothing failed"
        text = (
            f"so far: {so_far}; the loss is compared when the fault-free twin is there "
            f"({seconds(self.end_s)})"
        )
        said = Sentence(time_s=self.now_s, text=text, tone=Tone.BAD if failed else Tone.PLAIN)
        self.sentences.append(said)
        return said

    @classmethod
    def cares_for(cls, kind: Kind) -> bool:
        """Whether events of this kind change anything here, or are worth a sentence."""
        return kind in cls._FOLDS or is_notable(kind)

    @property
    def phase(self) -> str:
        """The one that the run is in; empty before the first."""
        return self.phases[-1][1] if self.phases else ""

    @property
    def moment(self) -> str:
        """The phase, and in that of the faults what goes on: its name stays, long after a heal."""
        if self.phase != "inject":
            return self.phase
        if any(one.is_open for one in self.faults.values()):
            return "fault active"
        if self.decisions.held:
            return "waits for a decision"
        return "victims come back" if self._returning else "no fault active"

    @property
    def victims(self) -> frozenset[str]:
        """The nodes that faults have targeted so far."""
        return frozenset(name for fault in self.faults.values() for name in fault.targets)

    @property
    def progress(self) -> float | None:
        """Share of the way to whichever stop rule is nearest; None without a countable rule."""
        if self.stop is None:
            return None
        furthest_step = max((node.step or 0 for node in self.nodes.by_name.values()), default=0)
        shares = [
            reached / goal
            for reached, goal in (
                (self.rounds.merged, self.stop.rounds),
                (self.rounds.committed_tokens, self.stop.tokens),
                (furthest_step, self.stop.steps),
                (self.now_s, self.stop.time_s),
            )
            if goal is not None
        ]
        return min(1.0, max(shares)) if shares else None

    def faults_on(self, node: str) -> tuple[Fault, ...]:
        """The open injections on this node."""
        return tuple(one for one in self.faults.values() if one.is_open and node in one.targets)

    def taken_by(self, fault: Fault) -> list[str]:
        """Learners that a fault takes away: all of them if they have a launcher, which ends the
        others.
        """
        has_launcher = any(node.role == LAUNCHER for node in self.nodes.by_name.values())
        return [
            one.name for one in self.nodes.learners if has_launcher or one.name in fault.targets
        ]

    def _settled(self, said: Sentence) -> Sentence:
        """`everything` is not all, as long as a learner is away, by plan or unasked."""
        away = [one.name for one in self.nodes.learners if one.state in {State.DEAD, State.LEFT}]
        kept = {name for one in self.faults.values() if one.keeps_away for name in one.targets}
        by_plan = [name for name in away if name in kept]
        unasked = [name for name in away if name not in kept]
        text = "settled: all that are up have converged"
        if by_plan:
            text += f"; {', '.join(by_plan)} {'stay' if by_plan[1:] else 'stays'} away, by plan"
        if unasked:
            text += f"; {', '.join(unasked)} {'are' if unasked[1:] else 'is'} gone, not by plan"
        return replace(said, text=text) if away else said

    # ---------------------------------------------------------------- the run

    def _run_started(self, event: Event[payloads.RunStarted]) -> None:
        """A run begins; a second one is the fault-free twin, and nothing of the first is shown."""
        said = event.payload
        self._begin()
        self.now_s = self.end_s = event.time_s
        self.plan, self.seed, self.fleet = said.plan, said.seed, said.fleet
        self.nodes.enlist(event)
        self.algorithm, self.version = said.algorithm, said.version
        self.who, self.counted = said.who, said.counted

    def _phase(self, event: Event[payloads.PhaseEntered]) -> None:
        self.phases.append((event.time_s, event.payload.phase))
        self.nodes.phase = event.payload.phase

    def _baseline(self, event: Event[payloads.BaselineMeasured]) -> None:
        self.rounds.longest_gap_s = 0.0  # as the verdict counts it: from the baseline on
        self.baseline = Baseline.of(event)

    def _run_finished(self, event: Event[payloads.RunFinished]) -> None:
        said = event.payload
        self.outcome = f"{said.outcome}{f': {said.reason}' if said.reason else ''}"

    def _counts(self, event: Event[payloads.CountsSampled]) -> None:
        self.counts = {name: getattr(event.payload, name) for name in COUNTS}

    def _stopped(self, event: Event[payloads.SyncerStopped]) -> None:
        self.stopped_s = event.time_s
        self.nodes.syncer_said(event)

    def _merged(self, event: Event[payloads.RoundMerged]) -> Sentence | None:
        self.rounds.merge(event.time_s, event.payload)
        number = event.payload.round
        if self.is_whole and not (event.payload.is_restated and number in self.merges):
            self.merges[number] = event
        self.nodes.serves(event)
        back: list[str] = []
        new: list[str] = []
        for contributor in event.payload.contributors:
            node = self.nodes.by_name.get(contributor.learner)
            if node is None:
                continue
            node.contributed_s = event.time_s
            if contributor.incarnation == node.incarnation:
                for fault in self._returning.pop(node.name, ()):
                    fault.back_after_s[node.name] = event.time_s - (fault.healing_s or 0.0)
            if node.back_s is not None:
                was_hit = node.is_new or any(
                    node.name in one.targets for one in self.faults.values()
                )
                how = "" if was_hit else " (not hit, started again)"
                after = f"{node.name}{how} {delay(event.time_s - node.back_s)}"
                (new if node.is_new else back).append(after)
                node.back_s, node.is_new = None, False
                node.enter(State.STEPPING, event.time_s)
        said = [f"contributes again: {', '.join(back)}"] if back else []
        said += [f"contributes for the first time: {', '.join(new)}"] if new else []
        if not said:
            return None
        return Sentence(time_s=event.time_s, text="; ".join(said), tone=Tone.GOOD)

    # ---------------------------------------------------------------- faults

    def _injecting(self, event: Event[payloads.FaultInjecting]) -> None:
        said = event.payload
        self.faults[said.injection] = Fault.begun(event)
        self.decisions.decide(said.spec)

    def _fault_moved(self, event: Event[payloads.OfInjection]) -> None:
        if (fault := self.faults.get(event.payload.injection)) is not None:
            fault.move(event)
            if event.kind is Kind.FAULT_HEALING and fault.takes_away:
                for name in self.taken_by(fault):
                    self._returning.setdefault(name, []).append(fault)

    def _evidence(self, event: Event[payloads.EvidenceMeasured]) -> None:
        if (fault := self.faults.get(event.payload.injection)) is not None:
            fault.evidence[event.payload.target] = event.payload

    _FOLDS: ClassVar[Mapping[Kind, Callable[["RunStory", Event[Any]], Sentence | None]]] = {
        Kind.RUN_STARTED: _run_started,
        Kind.PHASE_ENTERED: _phase,
        Kind.BASELINE_MEASURED: _baseline,
        Kind.RUN_FINISHED: _run_finished,
        Kind.COUNTS_SAMPLED: _counts,
        Kind.NODE_STARTED: lambda it, event: it.nodes.started(event),
        Kind.NODE_EXITED: lambda it, event: it.nodes.exited(event),
        Kind.NODE_PROBED: lambda it, event: it.nodes.probed(event),
        Kind.LEARNER_STARTED: lambda it, event: it.nodes.compiles(event),
        Kind.LEARNER_COMPILED: lambda it, event: it.nodes.compiled(event),
        Kind.LEARNER_STEP: lambda it, event: it.nodes.stepped(event),
        Kind.MEMBER_JOINED: lambda it, event: it.nodes.joined(event),
        Kind.MEMBER_SUSPECTED: lambda it, event: it.nodes.suspected(event),
        Kind.MEMBER_RECOVERED: lambda it, event: it.nodes.recovered(event),
        Kind.MEMBER_LEFT: lambda it, event: it.nodes.left(event),
        Kind.SYNCER_READY: lambda it, event: it.nodes.syncer_said(event),
        Kind.SYNCER_BLOCKED: lambda it, event: it.nodes.syncer_said(event),
        Kind.SYNCER_FREED: lambda it, event: it.nodes.syncer_said(event),
        Kind.SYNCER_STOPPED: _stopped,
        Kind.ROUND_MERGED: _merged,
        Kind.FAULT_INJECTING: _injecting,
        Kind.FAULT_INJECTED: _fault_moved,
        Kind.FAULT_FAILED: _fault_moved,
        Kind.FAULT_HEALING: _fault_moved,
        Kind.FAULT_HEALED: _fault_moved,
        Kind.EVIDENCE_MEASURED: _evidence,
        Kind.FAULT_HELD: lambda it, event: it.decisions.wait(event),
        Kind.FAULT_SKIPPED: lambda it, event: it.decisions.skip(event),
        Kind.OPERATOR_ACTED: lambda it, event: it.decisions.act(event),
    }
    _FOLDS_OF_LINKS: ClassVar[Mapping[Kind, Callable[["RunStory", Event[Any]], None]]] = {
        Kind.LINK_OPENED: lambda it, event: it.links[event.payload.learner].open(event),
        Kind.LINK_CLOSED: lambda it, event: it.links[event.payload.learner].close(event),
        Kind.LINK_SHAPED: lambda it, event: it.links[event.payload.link].shape(event),
        Kind.LINK_CLEARED: lambda it, event: it.links[event.payload.link].clear(event),
    }
