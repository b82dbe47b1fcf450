"""Parts of the story of a run: nodes, faults, links and rounds, each as it is now and as it was.

Each takes in the events that are about itself alone; `story` gives them out, and decides what
depends on other parts.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, Self

from chaoslab.core.events import Event, Json, Kind
from chaoslab.core.payloads import (
    Action,
    BaselineMeasured,
    EvidenceMeasured,
    FaultFailed,
    FaultHeld,
    FaultInjecting,
    FaultSkipped,
    LearnerStep,
    LinkCleared,
    LinkClosed,
    LinkOpened,
    LinkShaped,
    NodeExited,
    NodeStarted,
    Obstacle,
    OfInjection,
    OperatorActed,
    RoundMerged,
)

LEARNER: Final = "learner"
SYNCER: Final = "syncer"
LAUNCHER: Final = "launcher"
_RATE_WINDOW_S = 5.0
_DECISIONS = frozenset({Action.GO, Action.SKIP})
_ENDS_OF_WAITS = frozenset({Obstacle.OPERATOR, Obstacle.NO_TRIGGER})


class State(StrEnum):
    """State of a node, as far as the record shows it."""

    WAITING = "waiting"
    RESERVE = "in reserve"
    """Not started; may be brought in later."""
    STARTING = "starting"
    COMPILING = "compiling"
    """Compiles its steps, or waits for another learner that does."""
    JOINING = "joining"
    """Brought in while training goes on, without a merged contribution yet."""
    STEPPING = "stepping"
    SUSPECTED = "suspected"
    """Alive, but no step for a while: wedged, stopped or starved."""
    PAUSED = "paused"
    """Seen stopped by a probe."""
    DROPPED = "dropped"
    """Alive, but no longer a member."""
    DEAD = "dead"
    REJOINING = "rejoining"
    """Back, but nothing of this incarnation was merged yet."""
    LEFT = "left"
    """Left by itself in mid-training."""
    ENDED = "ended"
    SERVING = "serving"
    """State of the syncer."""
    BLOCKED = "blocked"
    """State of a syncer whose disk refuses writes."""


class Span(NamedTuple):
    """A state from `from_s` to the next span."""

    from_s: float
    state: State
    incarnation: int


@dataclass(slots=True, kw_only=True)
class Stretch:
    """Something that lasts, such as a process or a stream, and what is known of it."""

    from_s: float
    to_s: float | None = None
    """End; None while it lasts."""
    details: dict[str, Json] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Node:
    """One node: its state now, and its history."""

    name: str
    role: str = LEARNER
    state: State = State.WAITING
    incarnation: int = 0
    step: int | None = None
    step_s: float | None = None
    loss: float | None = None
    contributed_s: float | None = None
    back_s: float | None = None
    """Since when it is on its way back, as a verdict counts it: from the beginning of the heal.
    None while no contribution is expected."""
    gone_s: float = 0.0
    """Time at which it was last seen to be gone."""
    is_new: bool = False
    """Brought in after the start, without a merged contribution yet."""
    spans: list[Span] = field(default_factory=list)
    """Its states, in order."""
    lives: list[Stretch] = field(default_factory=list)
    """Its processes, in order."""

    def enter(self, state: State, time_s: float) -> None:
        """Enter a state."""
        self.state = state
        last = self.spans[-1] if self.spans else None
        if last is None or (last.state, last.incarnation) != (state, self.incarnation):
            self.spans.append(Span(time_s, state, self.incarnation))

    def begin_life(self, event: Event[NodeStarted]) -> None:
        """A process of it has started."""
        said = event.payload
        self.incarnation = said.incarnation
        details: dict[str, Json] = {
            "incarnation": said.incarnation,
            "pid": said.pid,
            "role": said.role,
            "seq": event.seq,
        }
        self.lives.append(Stretch(from_s=event.time_s, details=details))

    def end_life(self, event: Event[NodeExited]) -> None:
        """Note the end of its process."""
        said = event.payload
        if self.lives and self.lives[-1].to_s is None:
            self.lives[-1].to_s = event.time_s
            self.lives[-1].details |= {"exit_code": said.exit_code, "signal": said.signal}
        self.step_s, self.gone_s = None, event.time_s

    def take_step(self, event: Event[LearnerStep]) -> None:
        """Note reported steps; a report that is read after its exit does not count."""
        said, is_late = event.payload, {State.DEAD, State.LEFT, State.ENDED}
        if self.state in is_late or self.incarnation != said.incarnation:
            return
        self.step, self.loss = said.step, said.loss
        if said.steps:  # none since its last report: there is no mean
            self.step_s = said.step_s
        if self.state is not State.DROPPED:
            self.enter(self.at_work, event.time_s)

    @property
    def at_work(self) -> State:
        """State of a learner that steps: stepping, or still rejoining or joining."""
        on_its_way = State.JOINING if self.is_new else State.REJOINING
        return State.STEPPING if self.back_s is None else on_its_way


@dataclass(slots=True, kw_only=True)
class Fault:
    """One injection."""

    injection: str
    fault: str
    targets: tuple[str, ...]
    from_s: float
    injected_s: float | None = None
    healing_s: float | None = None
    healed_s: float | None = None
    """Time at which it was healed or failed."""
    status: str = "begins"
    spec: str = ""
    """Id of the entry in the plan."""
    takes_away: bool = False
    brings_in: bool = False
    asked_s: float | None = None
    """When its trigger was met, if the record says it."""
    for_s: float | None = None
    """How long it lasts; None: until the run heals it."""
    back_after_s: dict[str, float] = field(default_factory=dict)
    """By victim that it took away: from the beginning of the heal to the first contribution."""
    failed: str = ""
    """Why the fleet refused it; empty if it did not."""
    evidence: dict[str, EvidenceMeasured] = field(default_factory=dict)
    """What the record showed of it, by target."""
    details: Mapping[str, Json] = field(default_factory=dict)
    """Its trigger, its settings, and the line of the journal."""

    @classmethod
    def begun(cls, event: Event[FaultInjecting]) -> Self:
        """The injection that begins now."""
        said = event.payload
        return cls(
            injection=said.injection,
            fault=said.fault,
            targets=said.targets,
            from_s=event.time_s,
            spec=said.spec,
            takes_away=said.takes_away,
            brings_in=said.brings_in,
            asked_s=said.asked_s,
            for_s=said.for_s,
            details={
                "trigger": said.trigger,
                "for_s": said.for_s,
                "seq": event.seq,
                **{f"setting {name}": value for name, value in said.settings.items()},
            },
        )

    def move(self, event: Event[OfInjection]) -> None:
        """Note that it is injected, is being healed, or is over: healed or failed."""
        self.status = event.kind.partition(".")[2]
        if event.kind is Kind.FAULT_INJECTED:
            self.injected_s = event.time_s
        elif event.kind is Kind.FAULT_HEALING:
            self.healing_s = event.time_s
        else:
            self.healed_s = event.time_s
        if isinstance(event.payload, FaultFailed):
            self.failed = event.payload.reason

    @property
    def is_open(self) -> bool:
        """Whether its victims are still under it."""
        return self.healed_s is None

    @property
    def heals_s(self) -> float | None:
        """When it is to be healed; None if that is not known, or has begun."""
        if None in (self.injected_s, self.for_s) or self.healing_s is not None:
            return None
        return (self.injected_s or 0.0) + (self.for_s or 0.0)

    @property
    def keeps_away(self) -> bool:
        """Whether the plan wants its targets to be away now."""
        has_ended = self.healing_s is not None
        return self.brings_in if has_ended else self.takes_away


@dataclass(slots=True, kw_only=True)
class Decisions:
    """Faults that wait for an operator, and what was decided of them, by entry of the plan."""

    held: dict[str, Mapping[str, Json]] = field(default_factory=dict)
    """Those that wait: trigger, targets and injections."""
    decided: set[str] = field(default_factory=set)
    """Those that wait no more."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why each skipped fault was left out."""

    def wait(self, event: Event[FaultHeld]) -> None:
        """The trigger of one has come."""
        said = event.payload
        self.held[said.spec] = {
            "trigger": said.trigger,
            "targets": list(said.targets),
            "injections": said.injections,
        }

    def skip(self, event: Event[FaultSkipped]) -> None:
        """One is left out."""
        said = event.payload
        self.skipped[said.spec] = said.reason or "left out"
        if said.obstacle in _ENDS_OF_WAITS:
            self.decide(said.spec)

    def act(self, event: Event[OperatorActed]) -> None:
        """An operator has decided."""
        if event.payload.action in _DECISIONS:
            self.decide(event.payload.spec)

    def decide(self, spec: str) -> None:
        """It waits no more."""
        self.held.pop(spec, None)
        self.decided.add(spec)


@dataclass(slots=True, kw_only=True)
class Effect(Stretch):
    """Something that is done to a link; `details` are its settings."""

    injection: str
    effect: str
    direction: str
    """up, down or both."""
    seq: int


@dataclass(slots=True, kw_only=True)
class Link:
    """The path between a learner and the syncer."""

    streams: list[Stretch] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    in_force: dict[str, list[Effect]] = field(default_factory=dict)
    """Lasting effects, by injection."""

    def open(self, event: Event[LinkOpened]) -> None:
        """A stream begins, and ends the one before."""
        if self.streams and self.streams[-1].to_s is None:
            self.streams[-1].to_s = event.time_s
        self.streams.append(Stretch(from_s=event.time_s))

    def close(self, event: Event[LinkClosed]) -> None:
        """Note the end of its stream."""
        if event.payload.was_open and self.streams and self.streams[-1].to_s is None:
            self.streams[-1].to_s = event.time_s
            self.streams[-1].details["closed by"] = event.payload.reason

    def shape(self, event: Event[LinkShaped]) -> None:
        """An effect begins."""
        said = event.payload
        effect = Effect(
            from_s=event.time_s,
            details=dict(said.settings),
            injection=said.injection,
            effect=said.effect,
            direction=said.direction,
            seq=event.seq,
        )
        self.effects.append(effect)
        self.in_force.setdefault(said.injection, []).append(effect)

    def clear(self, event: Event[LinkCleared]) -> None:
        """The effects of an injection end."""
        for effect in self.in_force.pop(event.payload.injection, []):
            effect.to_s = event.time_s


class Baseline(NamedTuple):
    """Speed of training before any fault."""

    at_s: float
    """Time at which it had been measured."""
    is_steady: bool
    gap_s_median: float | None
    gap_s_max: float | None
    """Between merged rounds."""
    tokens_per_s: float | None
    step_ms: Mapping[str, float]
    """Step times by learner."""

    @classmethod
    def of(cls, event: Event[BaselineMeasured]) -> Self:
        """The baseline as the harness measured it."""
        said = event.payload
        return cls(
            at_s=event.time_s,
            is_steady=said.is_steady,
            gap_s_median=said.gap_s_median,
            gap_s_max=said.gap_s_max,
            tokens_per_s=said.tokens_per_s,
            step_ms={learner: 1000 * step_s for learner, step_s in said.step_s.items()},
        )


@dataclass(slots=True, kw_only=True)
class Rounds:
    """Progress of training as a whole."""

    merged: int = 0
    known: deque[int] = field(default_factory=lambda: deque(maxlen=64))
    """Numbers of the last that were merged."""
    committed_tokens: float = 0.0
    last_s: float | None = None
    longest_gap_s: float = 0.0
    recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=512))

    def merge(self, time_s: float, said: RoundMerged) -> None:
        """Count one merged round; one that a syncer restates does not count."""
        if said.is_restated and said.round in self.known:
            return
        if self.last_s is not None:
            self.longest_gap_s = max(self.longest_gap_s, time_s - self.last_s)
        self.known.append(said.round)
        self.merged += 1
        self.committed_tokens, self.last_s = said.committed_tokens, time_s
        self.recent.append((time_s, said.committed_tokens))
        while self.recent[0][0] < time_s - _RATE_WINDOW_S and len(self.recent) > 2:
            self.recent.popleft()

    @property
    def tokens_per_s(self) -> float | None:
        """Committed tokens per second over the last five seconds of rounds."""
        if len(self.recent) < 2:
            return None
        (start_s, before), (end_s, after) = self.recent[0], self.recent[-1]
        return (after - before) / (end_s - start_s) if end_s > start_s else None
