"""A fault: settings + inject + heal + evidence.

    schedule ─► Injection ─► run: inject ─► (step, at its offsets) ─► evidence ─► heal
                                    └──────────── all through `Fleet` ──────────┘

A fault is a frozen dataclass whose fields are its YAML parameters; their defaults, types and
docstrings are its documentation. It is stateless: whatever healing needs is in the injection.
Later steps exist for faults that go on happening (a crash loop, a preemption after its notice).
To add one: one class, one line in the catalogue, one run of the contract kit. Most are a subclass
of `BaseFault`, or of a base in `actions` that also carries out what several faults do.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from typing import ClassVar, Protocol, Self, TypeAlias, runtime_checkable

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.window import EvidenceWindow, Found, evidence_of_each
from chaoslab.fleet.base import Ability, Fleet, Role
from chaoslab.links.effects import Shaping
from chaoslab.plan.model import Injection
from chaoslab.record.history import History
from chaoslab.record.run_directory import plain


class Layer(StrEnum):
    """Layer on which a fault really acts, above or below the failure that it imitates."""

    PROCESS = "process"
    """Processes, by start and signal."""
    SCHEDULER = "scheduler"
    """The CPU time that the kernel gives."""
    MEMORY = "memory"
    """Host memory."""
    STREAM = "stream"
    """Bytes of TCP connections, in a proxy or gateway on the way."""
    PACKET = "packet"
    """IP packets, in the kernel."""
    CONTAINER = "container"
    """Act of a container engine on a container."""
    FILE = "file"
    """The contents of files."""
    VOLUME = "volume"
    """A file system: its free space, and which writes were flushed."""
    MACHINE = "machine"
    """Act of a cluster or its owner on a machine."""
    PROVIDER = "provider"
    """Act of a cloud provider on its machines."""
    PROGRAM = "program"
    """The node itself, by its test hooks."""


@runtime_checkable
class Fault(Protocol):
    """One kind of fault. Instances are frozen dataclasses of their settings."""

    __slots__ = ()

    name: ClassVar[str]
    """Full name in plans: family.fault."""
    summary: ClassVar[str]
    """One line for `chaoslab catalog faults`."""
    layer: ClassVar[Layer]
    """Layer on which it really acts."""
    imitates: ClassVar[str]
    """The real failure that it stands for, and what it does not reproduce; one line."""
    proof: ClassVar[str]
    """Evidence that proves it, in one line."""
    takes_away: ClassVar[bool]
    """Whether a victim is gone from training meanwhile, so that it must rejoin."""
    brings_in: ClassVar[bool]
    """Whether its targets are not there before it, but join by it."""

    @property
    def roles(self) -> frozenset[Role]:
        """Roles of possible targets; of most faults independent of the settings."""
        ...

    @property
    def needs(self) -> frozenset[Ability]:
        """Abilities that the fleet must have; of most faults independent of the settings."""
        ...

    def steps(self) -> tuple[float, ...]:
        """Offsets in seconds after the injection at which `step` is called; () for most."""
        ...

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Do it to every target, as close together as possible. FleetError if refused."""
        ...

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:
        """Carry out a later step, counted from zero."""
        ...

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Undo it on every target; safe to repeat. A run has one target after the other healed."""
        ...

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """One piece for each target, from the record alone, up to the moment before the heal."""
        ...


@runtime_checkable
class ShapesLinks(Protocol):
    """Optional part of a fault that acts on the links of its targets."""

    shares_targets: ClassVar[bool]
    """Whether it may be open on a learner together with other faults that share targets: their
    effects and their evidence are kept apart."""

    def shapings(self) -> tuple[Shaping, ...]:
        """Everything it may put on a link: compared with what the links can do before the start.

        PlanError if its settings turn out not to work, a file that cannot be read included.
        """
        ...


@runtime_checkable
class PreparesTargets(Protocol):
    """Optional part of a fault that can be prepared before its time, without effect."""

    def prepare(self, injection: Injection, fleet: Fleet) -> None:
        """Called shortly before `inject` where its time is known, or the round that it waits for is
        near. FleetError if refused.
        """
        ...

    def unprepare(self, injection: Injection, fleet: Fleet) -> None:
        """Undo that, because `inject` does not follow; safe to repeat."""
        ...


@runtime_checkable
class FindsTargets(Protocol):
    """Optional part of a fault that also hits neighbours of its targets, known only once nodes are
    placed. Limits count all nodes hit before anything is done.
    """

    def all_hit(self, injection: Injection, fleet: Fleet) -> tuple[str, ...]:
        """Names of all nodes that it would hit now. FleetError if it must not hit one of them."""
        ...


Choices: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]
"""Choices that are part of a wide choice, by setting."""


class HasStrength:
    """Settings by which a fault does more or less: what a search for the mildest one changes."""

    __slots__ = ()

    strength: ClassVar[Mapping[str, float]] = {}
    """Numbers that make it stronger or milder, each with the value at which it would do nothing."""
    narrower: ClassVar[Choices] = {}
    """Settings that can be made to do a part of what they do, such as one direction of both."""

    def milder(self) -> Iterator[Self]:
        """Half as strong: in every setting of `strength` at once, then in each alone.

        What would not be valid is left out.
        """
        half = {name: _halfway(getattr(self, name), to) for name, to in self.strength.items()}
        yield from self._valid(half)
        for name, value in half.items() if len(half) > 1 else ():
            yield from self._valid({name: value})

    def narrowed(self) -> Iterator[Self]:
        """The fault with each narrower choice for one setting."""
        own = {one.name for one in fields(self)}  # type: ignore[arg-type]  # a dataclass, as all are
        for name in (name for name in self.narrower if name in own):
            for choice in self.narrower[name].get(getattr(self, name), ()):
                yield from self._valid({name: choice})

    def _valid(self, settings: Mapping[str, object]) -> Iterator[Self]:
        try:
            changed = replace(self, **settings)  # type: ignore[type-var]  # see above
        except PlanError:
            return
        if changed != self:
            yield changed


def variants(fault: Fault) -> Iterator[Fault]:
    """The fault, and one copy for each other value of `how` and of each boolean setting. Tests and
    random plans use all of them.
    """
    yield fault
    for one in fields(fault):  # type: ignore[arg-type]  # a dataclass, as all are
        value = getattr(fault, one.name)
        others: Sequence[object] = [not value] if isinstance(value, bool) else ()
        if one.name == "how":
            others = [choice for choice in type(value) if choice != value]
        yield from (replace(fault, **{one.name: other}) for other in others)  # type: ignore[type-var]


def _halfway(value: float, nothing: float) -> float:
    """Between a value and the one that does nothing; twice as much where that is infinity."""
    half = 2 * value if math.isinf(nothing) else nothing + (value - nothing) / 2
    return int(half) if isinstance(value, int) else float(f"{half:.6g}")  # no 1.0999999999999999


class BaseFault(HasStrength, Fault):
    """Base of faults that are proved on each target by itself, and done at once unless they say so.

    A subclass has the data of a fault, `needs`, `inject`, `heal` and `look`.
    """

    __slots__ = ()

    brings_in = False

    @property
    def roles(self) -> frozenset[Role]:
        """Learners."""
        return frozenset({Role.LEARNER})

    @property
    def comes_back(self) -> bool:
        """Whether a victim that it takes away may be back before the heal."""
        return False

    @property
    def duration_key(self) -> str:
        """Key under which evidence tells for how long it was requested; empty: nowhere."""
        return ""

    @property
    def may_silence(self) -> bool:
        """Whether a victim still in training may contribute less often than before, beyond what
        `step_ratio` explains.
        """
        return True

    def steps(self) -> tuple[float, ...]:
        """No later steps."""
        return ()

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:
        """Never called without later steps."""

    def requested(self) -> Mapping[str, Json]:
        """Requested values, as settings or under the keys of the measurements."""
        settings = fields(self)  # type: ignore[arg-type]  # every fault is a dataclass
        return {one.name: plain(getattr(self, one.name)) for one in settings}

    @abstractmethod
    def look(self, window: EvidenceWindow) -> Found:
        """Findings of the record about one target."""

    def conclude(self, window: EvidenceWindow) -> Found:
        """Conclusion for one target from what `look` found: the same, for most faults."""
        return self.look(window)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """Evidence of each target, as `conclude` finds it."""
        requested = dict(self.requested())
        if self.duration_key:
            requested[self.duration_key] = injection.for_s
        return evidence_of_each(injection, history, self.conclude, requested)
