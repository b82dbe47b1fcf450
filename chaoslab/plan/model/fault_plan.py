"""Fault plan, and the checks that involve several of its parts.

    training, fleet, baseline, limits, faults, abort, expect ─► FaultPlan ─► PlanError | labels

Each part validates itself; here are only the contradictions between parts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from chaoslab.core.errors import PlanError
from chaoslab.core.units import Duration, plural, show_duration
from chaoslab.plan.model.faults import Distribution, FaultSpec
from chaoslab.plan.model.frame import (
    REGION,
    AbortRule,
    Baseline,
    CheckSpec,
    FleetSpec,
    Limits,
)
from chaoslab.plan.model.gameday import GameDay
from chaoslab.plan.model.rules import broken, refuse
from chaoslab.plan.model.training import Training

_SEED_BITS = 63
"""Bits of the seeds of the learners' random numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """A complete plan. Equal plans with equal seeds give equal schedules."""

    name: str = field(metadata={"example": "my-plan"})
    """Names the plan and its runs."""
    description: str = ""
    """One sentence about what happens."""
    seed: int = 0
    """Settles all random choices before the start: targets, times and durations."""
    training: Training = field(default_factory=Training)
    fleet: FleetSpec = field(default_factory=FleetSpec)
    twin: bool = False
    """true: the plan also runs once without faults, so that losses and paces can be compared."""
    baseline: Baseline = field(default_factory=Baseline)
    settle_s: Duration = 30.0
    """Longest time after the last heal in which everything must recover."""
    limits: Limits = field(default_factory=Limits)
    faults: tuple[FaultSpec, ...] = ()
    """Faults with targets, triggers and durations."""
    abort: tuple[AbortRule, ...] = ()
    """Rules that end the run early."""
    expect: tuple[CheckSpec, ...] = ()
    """Checks that the verdict is made of."""
    gameday: GameDay | None = None
    """The charter of a game-day, for `chaoslab gameday`."""

    @property
    def is_evaluated(self) -> bool:
        """Whether held-out losses are measured after the run: for a comparison, or as asked."""
        is_script = self.training.script is not None
        return not is_script and (self.twin or self.training.evaluate_every is not None)

    @property
    def charter(self) -> GameDay:
        """Charter of a game-day with this plan; an empty one if it has none."""
        return self.gameday or GameDay()

    def __post_init__(self) -> None:
        refuse(self._mistakes())

    def _mistakes(self) -> Iterator[PlanError]:
        if not -(2**_SEED_BITS) <= self.seed < 2**_SEED_BITS:
            yield PlanError(f"must have at most 18 digits, got {self.seed}", key="seed")
        seen: set[str] = set()
        for fault in self.faults:
            if fault.id in seen:
                yield PlanError(f"fault id {fault.id!r} is used twice", where=fault.where)
            if fault.at is not None and fault.at.after is not None and fault.at.after not in seen:
                yield PlanError(
                    f"fault {fault.id!r}: `after: {fault.at.after}` is not the id of an earlier "
                    f"fault; earlier ids: {', '.join(sorted(seen)) or 'none'}",
                    where=fault.where,
                )
            seen.add(fault.id)
            yield from self._what_never_comes(fault)
            yield from self._what_never_ends(fault)
        yield from self._wrong_charter()
        yield from self._what_aborts_at_once()
        try:
            regions = {labels.get(REGION) for labels in self.labels.values()}
        except PlanError as error:
            yield error
            return
        for unknown in sorted(set(self.fleet.profiles) - regions):
            yield PlanError(
                f"region {unknown!r} has no learners: write `regions: {{{unknown}: 2}}`",
                key="fleet.profiles",
            )

    def _wrong_charter(self) -> Iterator[PlanError]:
        by_id = {fault.id: fault for fault in self.faults}
        holds = self.charter.holds or ()
        for name in (*self.charter.hypotheses, *holds):
            if name not in by_id:
                yield PlanError(
                    f"{name!r} is not the id of a fault; ids: {', '.join(by_id) or 'none'}",
                    key="gameday.holds" if name in holds else "gameday.hypotheses",
                )
        for name in self.charter.sealed_ids:
            if name in by_id:
                yield PlanError(
                    f"fault id {name!r} is that of a sealed fault: use another",
                    where=by_id[name].where,
                )
        for name in holds:
            if name in by_id and not by_id[name].can_be_held:
                yield PlanError(
                    f"{name!r} waits for a phase of the protocol, which is over before an "
                    "operator has decided: leave it out",
                    key="gameday.holds",
                )

    def _what_aborts_at_once(self) -> Iterator[PlanError]:
        most = self.training.learner_count
        for number, rule in enumerate(self.abort):
            key, alive = f"abort.{number}.when.alive_below", rule.alive_below
            yield from broken(
                alive is None or alive <= most, key, alive, f"at most {most}, all learners"
            )

    @property
    def held(self) -> frozenset[str]:
        """Ids of the faults that wait for an operator in a game-day."""
        holds = self.charter.holds
        able = {fault.id for fault in self.faults if fault.can_be_held}
        return frozenset(able if holds is None else holds)

    def _what_never_comes(self, fault: FaultSpec) -> Iterator[PlanError]:
        """A trigger after the end of training, and arrivals without an end."""
        stop, at, arrivals = self.training.stop, fault.at, fault.arrivals
        round_ = max(at.round or 0, at.after_round) if at else 0
        if stop.rounds is not None and round_ > stop.rounds:
            yield PlanError(
                f"fault {fault.id!r} needs round {round_}, but training may end at round "
                f"{stop.rounds}: raise `training.stop.rounds` or use an earlier round",
                where=fault.where,
            )
        is_open = arrivals and arrivals.dist is not Distribution.TRACE and arrivals.most is None
        if arrivals and is_open and arrivals.until_s is None and stop.time_s is None:
            yield PlanError(
                f"the arrivals of fault {fault.id!r} have no end: write `until: 90s` below "
                "`arrivals`, or a `time` below `training.stop`",
                where=fault.where,
            )

    def _what_never_ends(self, fault: FaultSpec) -> Iterator[PlanError]:
        """An outage that the end of the run would cut short, unless it is `rest`."""
        outage, timeout_s = fault.outage, self.limits.timeout_s
        if fault.at and fault.at.wait_s >= timeout_s:
            yield PlanError(
                f"fault {fault.id!r} lets a node wait for {show_duration(fault.at.wait_s)}, but "
                f"`limits.timeout` ends the run after {show_duration(timeout_s)}: `wait: 5s` is "
                "enough, because the node continues once the fault is injected",
                where=fault.where,
            )
        lengths = [one for one in (outage.seconds, outage.at_most_s) if one is not None]
        if lengths and min(lengths) >= timeout_s:
            yield PlanError(
                f"fault {fault.id!r} is healed after {show_duration(min(lengths))}, but "
                f"`limits.timeout` ends the run after {show_duration(timeout_s)}: use a shorter "
                "outage or a longer timeout, or `for: rest`",
                where=fault.where,
            )

    @property
    def labels(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of every node that has any, with its region."""
        found = {name: dict(labels) for name, labels in self.fleet.labels.items()}
        for region, names in self._regions().items():
            for name in names:
                found.setdefault(name, {})[REGION] = region
        return found

    def _regions(self) -> Mapping[str, Sequence[str]]:
        """Names by region; counts take, in order, the learners that no region names."""
        learners, regions = self.training.roster, self.fleet.regions
        found: dict[str, list[str]] = {}
        for name, group in self.training.grouped():
            if group.region is not None:
                found.setdefault(group.region, []).append(name)
        listed = [name for some in regions.values() if isinstance(some, tuple) for name in some]
        labelled = [name for name, labels in self.fleet.labels.items() if REGION in labels]
        named = Counter((*listed, *labelled, *chain.from_iterable(found.values())))
        for name, times in named.items():
            if times > 1:
                key = "fleet.regions" if name in listed else "fleet.labels"
                raise PlanError(f"{name} is in two regions: list it once", key=key)
        free = [name for name in learners if name not in named]
        for region, some in regions.items():
            number = some if isinstance(some, int) else 0
            if number > len(free):
                raise PlanError(
                    f"region {region!r} needs {plural(number, 'learner')}, but only {len(free)} of "
                    f"{len(learners)} are left: use fewer, or raise `training.learners`",
                    key="fleet.regions",
                )
            more = some if isinstance(some, tuple) else free[:number]
            found.setdefault(region, []).extend(more)
            free = free[number:]
        return found
