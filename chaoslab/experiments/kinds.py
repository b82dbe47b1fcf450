"""Kinds of an experiment's cells: their settings, and what they measure with one seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from chaoslab.experiments import plan_cells, real_cells, run_measures, windows
from chaoslab.experiments.plan_cells import PlanCell
from chaoslab.experiments.units import COUNT, GBIT_GRID, PERCENT, SECONDS, TIMES, Unit
from chaoslab.experiments.windows import Window
from chaoslab.sim.renewal.engine import simulate
from chaoslab.sim.renewal.scenario import Scenario
from chaoslab.sim.timeline import engine
from chaoslab.sim.timeline.engine import Links, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of cell. `measure` is called in worker processes: a function of a module."""

    settings: type
    """Frozen dataclass of its settings; its fields are the keys in a file."""
    measure: Callable[[Any, int], Mapping[str, float]]
    """Settings and seed to measures by name; shares of one where a table shows percent."""
    measures: tuple[str, ...]
    """Names of what it measures."""
    sources: tuple[str, ...]
    """Packages and modules that decide what it measures, as paths below `chaoslab`."""
    units: Mapping[str, Unit] = field(default_factory=dict)
    """Units by measure; the others are shares that are shown in percent."""
    is_random: bool = True
    """Whether it depends on the seed. If not, each cell is simulated once."""
    read: Callable[[object], object] | None = None
    """Reader of its settings, if they are not the fields of a dataclass."""
    is_real: bool = False
    """Whether a cell is run for real: alone on the machine, one after the other."""

    def unit(self, measure: str) -> Unit:
        """Unit of a measure."""
        return self.units.get(measure, PERCENT)


_COUNTS: Final = ("interruptions", "outages", "changes")


def _renewal(scenario: Scenario, seed: int) -> Mapping[str, float]:
    result = simulate(scenario, seed)
    return {
        "goodput": result.goodput,
        "uptime": result.uptime,
        "interruptions": result.interruptions,
        "outages": result.outages,
        "changes": result.changes,
    }


def _timeline(links: Links, _seed: int) -> Mapping[str, float]:
    result = engine.simulate(links, links.rate_bytes_per_s)
    return {
        "utilisation": result.utilisation,
        "rounds": result.rounds,
        "step": result.step_s,
        "speed_up": engine.speed_up(links, links.rate_bytes_per_s),
    }


def _bandwidth(target: Target, _seed: int) -> Mapping[str, float]:
    return {"bandwidth": engine.least_gbit(target, target.utilisation)}


_TIMELINE_SOURCES: Final = (
    "experiments/kinds.py", "diloco/learner/counters.py", "diloco/settings.py",
    "diloco/syncer/communicators.py", "diloco/syncer/decisions.py", "diloco/syncer/membership.py",
    "diloco/syncer/norms.py", "diloco/syncer/policy.py", "diloco/syncer/rounds.py",
    "diloco/syncer/tally.py", "diloco/syncer/transfers.py", "links/effects.py",
    "sim/chance.py", "sim/clock.py", "sim/pipe.py",
    "sim/timeline",
)  # fmt: skip

_POLICY_SOURCES: Final = (
    "checks", "core", "diloco/learner/checkpoints.py", "diloco/learner/counters.py",
    "diloco/learner/exchange.py", "diloco/learner/joining.py", "diloco/learner/link.py",
    "diloco/learner/messages.py", "diloco/learner/messenger.py", "diloco/learner/pace.py",
    "diloco/learner/replica.py", "diloco/learner/round_wait.py", "diloco/learner/signals.py",
    "diloco/learner/tampering.py", "diloco/learner/training_thread.py",
    "diloco/model/encodings.py", "diloco/node", "diloco/settings.py", "diloco/syncer",
    "diloco/wire", "experiments/run_measures.py", "experiments/simulated_runs.py", "faults",
    "fleet", "links", "plan", "prepare", "record", "run", "sim", "undo",
)  # fmt: skip
"""Sources of everything that carries out a plan in a simulation."""

KINDS: Final[Mapping[str, Kind]] = MappingProxyType({
    "renewal": Kind(
        settings=Scenario,
        measure=_renewal,
        measures=("goodput", "uptime", *_COUNTS),
        units=dict.fromkeys(_COUNTS, COUNT),
        sources=(
            "experiments/kinds.py", "plan/schedule/chance.py",
            "sim/distributions.py", "sim/renewal",
        ),
    ),
    "timeline": Kind(
        settings=Links,
        measure=_timeline,
        measures=("utilisation", "rounds", "step", "speed_up"),
        units={"step": SECONDS, "speed_up": TIMES},
        sources=_TIMELINE_SOURCES,
        is_random=False,
    ),
    "bandwidth": Kind(
        settings=Target,
        measure=_bandwidth,
        measures=("bandwidth",),
        units={"bandwidth": GBIT_GRID},
        sources=_TIMELINE_SOURCES,
        is_random=False,
    ),
    "window": Kind(
        settings=Window,
        measure=windows.measure,
        measures=windows.MEASURES,
        sources=("experiments/windows.py", *_POLICY_SOURCES),
    ),
    "plan": Kind(
        settings=PlanCell,
        measure=plan_cells.measure,
        measures=plan_cells.MEASURES,
        units=run_measures.UNITS,
        sources=("experiments/plan_cells.py", *_POLICY_SOURCES),
        read=plan_cells.cell_of,
    ),
    "run plan": Kind(
        settings=PlanCell,
        measure=real_cells.measure,
        measures=real_cells.MEASURES,
        units=real_cells.UNITS,
        sources=("diloco", "systems"),  # hours of runs outlive a change of the harness
        read=real_cells.cell_of,
        is_real=True,
    ),
})  # fmt: skip
"""Every kind by its name: as after `simulate`, or `run` and the name after that."""
