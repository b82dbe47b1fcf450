"""Bases of faults by what they do: end a process, ask a hook, starve a node, shape a link.

    HitsTogether  all targets are signalled at once, and found beforehand
    EndsProcess   the subclass ends the target        heal: its next incarnation starts
    AsksToLeave   it has time to leave by itself      it starts again as soon as it has
    GivesNotice   it hears of a preemption first      SIGTERM, then the end, follow
    AsksHook      the target's test hook is asked     heal: the hook lets go
    Stresses      the fleet puts a stressor on it     heal: the stressor is taken away
    LinkFault     its link is shaped                  heal: the link is cleared of the injection

Stressors and effects on links are kept by injection, so several such faults may be open on one
target and heal apart.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from chaoslab.core.errors import FleetError, PlanError
from chaoslab.core.events import Json
from chaoslab.faults.base import BaseFault, Choices, Layer
from chaoslab.faults.evidence.links import BREAKING, if_used
from chaoslab.faults.evidence.window import EvidenceWindow, Found
from chaoslab.fleet.base import Ability, Fleet, Role
from chaoslab.fleet.protocols import Hookable, Networked, Notifiable, Preparable, Stressable, able
from chaoslab.fleet.stressors import Stressor
from chaoslab.links.effects import Direction, Effect, Shaping
from chaoslab.plan.model import Injection


class HitsTogether(BaseFault):
    """A fault that signals all its targets at once, and lets the fleet find them beforehand."""

    __slots__ = ()
    to_pause: ClassVar[bool] = False

    def prepare(self, injection: Injection, fleet: Fleet) -> None:
        """Let the fleet find what runs in them."""
        if isinstance(fleet, Preparable):
            fleet.prepare(*injection.targets, to_pause=self.to_pause)

    def unprepare(self, injection: Injection, fleet: Fleet) -> None:
        """Let the fleet forget it."""
        if isinstance(fleet, Preparable):
            fleet.unprepare(*injection.targets)


class EndsProcess(BaseFault):
    """A fault after which a process is gone, or gone for a moment."""

    __slots__ = ()

    layer = Layer.PROCESS
    needs = frozenset({Ability.KILL})
    takes_away = True

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Start the next incarnation of every target that is not running."""
        start_all(injection, fleet)


class AsksToLeave(EndsProcess):
    """A fault that gives its targets time to leave by themselves, then starts them again."""

    __slots__ = ()

    grace_s: float
    """Time in which targets may leave by themselves."""
    look_s: ClassVar[float]
    """Interval of the looks whether targets have left."""

    def require_grace(self) -> None:
        """PlanError if `grace` is too short for a look."""
        if self.grace_s < self.look_s:
            raise PlanError(f"`grace` is a duration of at least {self.look_s:g}s", key="grace")

    def steps(self) -> tuple[float, ...]:
        """Times of the looks whether targets have left; last, when they must have."""
        looks = int(self.grace_s / self.look_s)
        return (*(self.look_s * look for look in range(1, looks)), self.grace_s)

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:
        """Start those that have left; at the last step the others, too."""
        is_last = step_index == len(self.steps()) - 1
        for name in injection.targets:
            if is_last or not fleet.nodes[name].is_alive:
                fleet.restart(name)


class GivesNotice(BaseFault):
    """A preemption: its targets hear of it, are asked to leave by SIGTERM, and ended by force."""

    __slots__ = ()

    notice_s: float
    """Time from the notice to SIGTERM."""
    grace_s: float
    """Time from SIGTERM to the end."""

    def __post_init__(self) -> None:
        if self.notice_s < 0 or self.grace_s < 0:
            raise PlanError("`notice` and `grace` are durations of at least 0s")

    def steps(self) -> tuple[float, ...]:
        """Times of SIGTERM and of the end, after the notice."""
        return (self.notice_s, self.notice_s + self.grace_s)

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Send every target the notice."""
        for name in injection.targets:
            able(fleet, Notifiable).notice(name)


def start_all(injection: Injection, fleet: Fleet) -> None:
    """Start every target that is not running. FleetError names targets that are still down, such as
    those that a cluster has to start.
    """
    dead = [name for name in injection.targets if not fleet.restart(name).is_alive]
    if dead:
        raise FleetError(f"{', '.join(dead)} has not restarted yet")


class AsksHook(BaseFault):
    """A fault that the node carries out itself, by one of its test hooks."""

    __slots__ = ()

    hook: ClassVar[str]
    """Name of the hook in the node's program."""

    layer = Layer.PROGRAM
    needs = frozenset({Ability.HOOKS})
    takes_away = False

    @abstractmethod
    def asked(self) -> Mapping[str, Json]:
        """Request to the hook."""

    def requested(self) -> Mapping[str, Json]:
        """Request to the hook, as in evidence."""
        return self.asked()

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Ask every target's hook."""
        for name in injection.targets:
            able(fleet, Hookable).tell(name, self.hook, **self.asked(), for_s=injection.for_s)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Let go of every target's hook; in a target that died it is gone."""
        for name in injection.targets:
            if fleet.nodes[name].is_alive:
                able(fleet, Hookable).tell(name, self.hook)


class Stresses(BaseFault):
    """A fault that starves its targets of CPU time or memory."""

    __slots__ = ()

    takes_away = False

    @abstractmethod
    def stressor(self, injection: Injection) -> Stressor:
        """Stressor of each target."""

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Put the stressor on every target."""
        stress_all(injection, fleet, self.stressor(injection))

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Take it from every target."""
        for name in injection.targets:
            able(fleet, Stressable).relieve(name, injection.id)


def stress_all(injection: Injection, fleet: Fleet, stressor: Stressor) -> None:
    """Put a stressor on every target, or change the one that the injection put there."""
    for name in injection.targets:
        able(fleet, Stressable).stress(name, injection.id, stressor)


class LinkFault(BaseFault):
    """A fault on the links of its targets. Subclasses say what they put on and how it is proved."""

    __slots__ = ()

    layer = Layer.STREAM
    needs = frozenset({Ability.LINK})
    shares_targets = True
    duration_key = "for_s"
    narrower: ClassVar[Choices] = {"direction": {Direction.BOTH: Direction.BOTH.ways}}

    @property
    def roles(self) -> frozenset[Role]:
        """Learners, and a launcher, whose workers share its link."""
        return frozenset({Role.LEARNER, Role.LAUNCHER})

    def __post_init__(self) -> None:
        self.shapings()  # an effect that cannot be is refused when the plan is read

    @abstractmethod
    def shapings(self) -> tuple[Shaping, ...]:
        """Effects on each link."""

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Shape every target's link."""
        shape_all(injection, fleet, self.shapings())

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Clear every target's link of this injection."""
        clear_all(injection, fleet)

    def conclude(self, window: EvidenceWindow) -> Found:
        """No proof on a script's link over which nothing was to go meanwhile."""
        breaks = any(effect.kind in BREAKING for _, effect in self.shapings())
        return if_used(window, self.look(window), breaks_streams=breaks)


class OneEffect(LinkFault):
    """A fault that puts one effect on each link, in each direction that is asked for."""

    __slots__ = ()
    direction: Direction

    @property
    @abstractmethod
    def effect(self) -> Effect:
        """The effect; PlanError for settings that make none."""

    def shapings(self) -> tuple[Shaping, ...]:
        """The effect, each way that is asked for."""
        return ((self.direction, self.effect),)


def shape_all(injection: Injection, fleet: Fleet, shapings: Sequence[Shaping]) -> None:
    """Put all of it on the link of every target, the targets as close together as possible."""
    links = [able(fleet, Networked).links[name] for name in injection.targets]
    for direction, effect in shapings:
        for link in links:
            link.shape(injection.id, direction, effect)


def clear_all(injection: Injection, fleet: Fleet) -> None:
    """Take everything of this injection from the link of every target; safe to repeat."""
    for name in injection.targets:
        able(fleet, Networked).links[name].clear(injection.id)
