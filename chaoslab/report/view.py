"""What a person watching a run needs to know now, folded from its events. Draws nothing.

    Event ─► ViewModel.see ─► lanes · faults · rounds · counts ─► `console` draws them
                          └─► the sentences this event is worth

It guesses nothing: a state comes from an event, and a lane that says `rejoining` says so until the
syncer has merged a contribution of that incarnation.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from chaoslab.core import payloads
from chaoslab.core.events import Event, Kind, MalformedEvent
from chaoslab.core.units import delay
from chaoslab.plan.model import Stop
from chaoslab.report.lanes import FaultBar, Lane, LaneState, Rounds
from chaoslab.report.sentences import Sentence, Tone, describe, is_notable


class ViewModel:
    """The fold over a run's events."""

    def __init__(self, stop: Stop | None = None, *, has_twin: bool = False) -> None:
        """`stop` gives progress its goal; `has_twin`: the fault-free twin comes after the run."""
        self.stop, self.has_twin, self.is_twin = stop, has_twin, False
        self.plan, self.seed, self.fleet, self.phase = "", 0, "", ""
        self.now_s = 0.0
        self.rounds = Rounds()
        self.lanes: dict[str, Lane] = {}
        self.faults: dict[str, FaultBar] = {}
        self.counts: Mapping[str, int] = {}
        self.recent: deque[Sentence] = deque(maxlen=64)
        self.unreadable = 0
        """Events whose data did not keep the contract of their kind; shown, not hidden."""

    def see(self, event: Event) -> tuple[Sentence, ...]:
        """Take one event in and return the sentences it is worth, already kept in `recent`."""
        self.now_s = event.time_s
        if event.kind not in self._CARED_FOR:  # most events
            return ()
        try:
            said = describe(event)
            fold = self._FOLDS.get(event.kind)
            derived = fold(self, event) if fold else None
        except MalformedEvent:
            self.unreadable += 1
            return ()
        if said and isinstance(event.payload, payloads.RunSettled) and event.payload.is_settled:
            said = self._settled(said)
        sentences = tuple(sentence for sentence in (said, derived) if sentence)
        self.recent.extend(sentences)
        return sentences

    @classmethod
    def cares_for(cls, kind: Kind) -> bool:
        """Whether events of this kind change anything here, or are worth a sentence."""
        return kind in cls._CARED_FOR

    @property
    def progress(self) -> float | None:
        """Share of the way to whichever stop rule is nearest; None without a countable rule."""
        if self.stop is None:
            return None
        furthest_step = max((lane.step or 0 for lane in self.lanes.values()), default=0)
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

    def faults_on(self, learner: str) -> tuple[FaultBar, ...]:
        """The injections that hold this learner now."""
        return tuple(bar for bar in self.faults.values() if bar.is_open and learner in bar.targets)

    def _way_back_s(self, lane: Lane, event: Event) -> float:
        """When the heal that brings a learner back began; now, if no heal does."""
        heals_s = [
            bar.healing_s
            for bar in self.faults.values()
            if lane.learner in bar.targets and bar.healing_s is not None
        ]
        return max((s for s in heals_s if s >= lane.gone_s), default=event.time_s)

    def _settled(self, said: Sentence) -> Sentence:
        """`everything` is not all, as long as a learner is away, by plan or unasked."""
        is_away = {LaneState.DEAD, LaneState.LEFT}
        away = [name for name, lane in self.lanes.items() if lane.state in is_away]
        kept = {name for bar in self.faults.values() if bar.keeps_away for name in bar.targets}
        by_plan = [name for name in away if name in kept]
        unasked = [name for name in away if name not in kept]
        text = "settled: all that are up have converged"
        if by_plan:
            text += f"; {', '.join(by_plan)} {'stay' if by_plan[1:] else 'stays'} away, by plan"
        if unasked:
            text += f"; {', '.join(unasked)} {'are' if unasked[1:] else 'is'} gone, not by plan"
        return replace(said, text=text) if away else said

    # ------------------------------------------------------------ one method per kind of news

    def _run_started(self, event: Event[payloads.RunStarted]) -> None:
        """A run begins; a second one is the fault-free twin, and nothing of the first is shown."""
        self.is_twin = bool(self.plan)
        self.rounds, self.faults, self.counts, self.phase = Rounds(), {}, {}, ""
        self.recent.clear()
        self.plan, self.seed = event.payload.plan, event.payload.seed
        self.fleet = event.payload.fleet
        self.lanes = {name: Lane(learner=name) for name in event.payload.learners}
        for name in event.payload.reserve:
            self.lanes[name] = Lane(learner=name, state=LaneState.RESERVE, is_new=True)

    def _phase(self, event: Event[payloads.PhaseEntered]) -> None:
        self.phase = event.payload.phase

    def _baseline(self, _event: Event) -> None:
        self.rounds.longest_gap_s = 0.0  # as the verdict counts it: from the baseline on

    def _run_finished(self, event: Event[payloads.RunFinished]) -> Sentence | None:
        if (
            not self.has_twin
            or self.is_twin
            or event.payload.outcome is not payloads.RunOutcome.COMPLETED
        ):
            return None
        text = "the fault-free twin is next: as long again, or no time if one is kept"
        return Sentence(time_s=event.time_s, text=text)

    def _counts(self, event: Event[payloads.CountsSampled]) -> None:
        said = event.payload
        self.counts = {
            "alive": said.alive,
            "believed": said.believed,
            "stepping": said.stepping,
            "contributing": said.contributing,
        }

    def _node_started(self, event: Event[payloads.NodeStarted]) -> None:
        lane = self.lanes.get(event.payload.node)
        if lane is None:
            return
        lane.incarnation = event.payload.incarnation
        if lane.is_new:
            lane.state, lane.back_s = LaneState.JOINING, event.time_s
            return
        is_first = lane.incarnation <= 1
        lane.state = LaneState.STARTING if is_first else LaneState.REJOINING
        lane.back_s = None if is_first else self._way_back_s(lane, event)

    def _node_exited(self, event: Event[payloads.NodeExited]) -> None:
        lane = self.lanes.get(event.payload.node)
        if lane is not None:
            if self.phase in {"stop", "evaluate"}:
                lane.state = LaneState.ENDED
            elif lane.state is not LaneState.LEFT:
                lane.state = LaneState.DEAD
            lane.step_s, lane.gone_s = None, event.time_s

    def _node_probed(self, event: Event[payloads.NodeProbed]) -> None:
        lane = self.lanes.get(event.payload.node)
        if lane is not None and event.payload.state == "T":
            lane.state, lane.step_s = LaneState.PAUSED, None

    def _step(self, event: Event[payloads.LearnerStep]) -> None:
        lane = self.lanes.get(event.payload.learner)
        is_late = {LaneState.DEAD, LaneState.LEFT, LaneState.ENDED}
        if lane is None or lane.state in is_late or lane.incarnation != event.payload.incarnation:
            return  # its last words, read after its exit
        lane.step, lane.loss = event.payload.step, event.payload.loss
        lane.step_s = event.payload.step_s
        if lane.state is not LaneState.DROPPED:
            lane.state = lane.at_work

    def _joined(self, event: Event[payloads.MemberJoined]) -> None:
        lane = self.lanes.get(event.payload.learner)
        if lane is not None and lane.state is LaneState.DROPPED:
            lane.state, lane.back_s = LaneState.REJOINING, self._way_back_s(lane, event)

    def _suspected(self, event: Event[payloads.MemberSuspected]) -> None:
        lane = self.lanes.get(event.payload.learner)
        at_work = {LaneState.STEPPING, LaneState.JOINING, LaneState.REJOINING}
        if lane is not None and lane.state in at_work:
            lane.state, lane.step_s = LaneState.SUSPECTED, None

    def _recovered(self, event: Event[payloads.MemberRecovered]) -> None:
        lane = self.lanes.get(event.payload.learner)
        if lane is not None and lane.state in {LaneState.SUSPECTED, LaneState.PAUSED}:
            lane.state = lane.at_work

    def _left(self, event: Event[payloads.MemberLeft]) -> None:
        lane = self.lanes.get(event.payload.learner)
        is_gone = {LaneState.DEAD, LaneState.ENDED, LaneState.REJOINING}
        if (
            lane is not None
            and lane.state not in is_gone
            and event.payload.reason is not payloads.Leaving.CLOSED
        ):
            said_goodbye = event.payload.reason is payloads.Leaving.SAID_GOODBYE
            gone = LaneState.ENDED if self.phase == "stop" else LaneState.LEFT
            lane.state = gone if said_goodbye else LaneState.DROPPED
            lane.gone_s = event.time_s

    def _merged(self, event: Event[payloads.RoundMerged]) -> Sentence | None:
        self.rounds.merge(event.time_s, event.payload.committed_tokens)
        back: list[str] = []
        new: list[str] = []
        for contributor in event.payload.contributors:
            lane = self.lanes.get(contributor.learner)
            if lane is None:
                continue
            lane.contributed_s = event.time_s
            if lane.back_s is not None:
                after = f"{lane.learner} {delay(event.time_s - lane.back_s)}"
                (new if lane.is_new else back).append(after)
                lane.back_s, lane.state, lane.is_new = None, LaneState.STEPPING, False
        said = [f"contributes again: {', '.join(back)}"] if back else []
        said += [f"contributes for the first time: {', '.join(new)}"] if new else []
        if not said:
            return None
        return Sentence(time_s=event.time_s, text="; ".join(said), tone=Tone.GOOD)

    def _injecting(self, event: Event[payloads.FaultInjecting]) -> None:
        name = event.payload.injection
        self.faults[name] = FaultBar(
            injection=name,
            fault=event.payload.fault,
            targets=event.payload.targets,
            from_s=event.time_s,
            spec=event.payload.spec,
            takes_away=event.payload.takes_away,
            brings_in=event.payload.brings_in,
        )

    def _fault_moved(self, event: Event[payloads.OfInjection]) -> None:
        bar = self.faults.get(event.payload.injection)
        if bar is None:
            return
        bar.status = event.kind.partition(".")[2]
        if event.kind is Kind.FAULT_HEALING:
            bar.healing_s = event.time_s
        if event.kind in {Kind.FAULT_HEALED, Kind.FAULT_FAILED}:
            bar.healed_s = event.time_s

    _FOLDS: ClassVar[Mapping[Kind, Callable[["ViewModel", Event[Any]], Sentence | None]]] = {
        Kind.RUN_STARTED: _run_started,
        Kind.PHASE_ENTERED: _phase,
        Kind.BASELINE_MEASURED: _baseline,
        Kind.RUN_FINISHED: _run_finished,
        Kind.COUNTS_SAMPLED: _counts,
        Kind.NODE_STARTED: _node_started,
        Kind.NODE_EXITED: _node_exited,
        Kind.NODE_PROBED: _node_probed,
        Kind.LEARNER_STEP: _step,
        Kind.MEMBER_JOINED: _joined,
        Kind.MEMBER_SUSPECTED: _suspected,
        Kind.MEMBER_RECOVERED: _recovered,
        Kind.MEMBER_LEFT: _left,
        Kind.ROUND_MERGED: _merged,
        Kind.FAULT_INJECTING: _injecting,
        Kind.FAULT_INJECTED: _fault_moved,
        Kind.FAULT_FAILED: _fault_moved,
        Kind.FAULT_HEALING: _fault_moved,
        Kind.FAULT_HEALED: _fault_moved,
    }
    _CARED_FOR: ClassVar[frozenset[Kind]] = frozenset([*_FOLDS, *filter(is_notable, Kind)])
