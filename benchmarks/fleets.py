"""Cost of containers compared with processes: from start to first round, from kill to rejoin.

    python benchmarks/fleets.py [--turns 3] [--json] [--no-fail]

    turn 1: local, docker      turn 2: docker, local      …

The same plan on both fleets in turns, so that a busy machine slows both: one of two learners is
killed and restarted 3 seconds later. All times are read from the journals. Needs a Docker engine
with the images (`chaoslab doctor images build`); without them the exit code is 2.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from figures import Cell, Figure, MachineLoad, Result, add_options, finish
from trainings import BenchmarkError, run_plan, workplace

from chaoslab.checks.absence import absences
from chaoslab.core.events import Kind

TURNS = 3
WITHIN_S = 300.0
FLEETS = ("local", "docker")
FIRST_ROUND, EXIT, STARTED, BACK = (
    "start of the run to the first round",
    "kill to the exit being seen",
    "heal to the start of the next incarnation",
    "heal to the first accepted contribution",
)
PLAN = """
version: 1
name: fleets
seed: 3
training: {learners: 2, model: nano, stop: {rounds: 60}}
baseline: {warmup: 6 rounds, window: 12 rounds, max_variation: 300%}
twin: false
limits: {min_alive: 1, max_affected: 100%, timeout: 4m}
faults:
  - {id: dies, fault: process.kill, target: {learners: [learner-1]}, at: {round: 24}, for: 3s}
expect: [{check: rejoin, within: 60s}]
"""


def main() -> int:
    """Run the plan on both fleets in turns and print the times; the exit code."""
    options = _options()
    load = MachineLoad()
    took_s: dict[tuple[str, str], list[float]] = {}
    try:
        with workplace() as folder:
            for fleet in FLEETS:  # fills both compilation caches
                _measure(fleet, folder / f"warm-up-{fleet}")
            for turn in range(options.turns):
                for fleet in FLEETS if turn % 2 == 0 else reversed(FLEETS):
                    for what, s in _measure(fleet, folder / f"{turn}-{fleet}").items():
                        took_s.setdefault((what, fleet), []).append(s)
    except BenchmarkError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 2
    return finish([_result(took_s, load.place())], options)


def _measure(fleet: str, folder: Path) -> Mapping[str, float]:
    history = run_plan(folder, PLAN, within_s=WITHIN_S, settings=(f"fleet.kind={fleet}",))
    back_s = [absence.clock_s(absence.accepted) for absence in absences(history)]
    if not back_s or back_s[0] is None:
        raise BenchmarkError(f"the learner did not come back on the {fleet} fleet")

    def first_s(kind: Kind, of: str | None = None, after_s: float = 0.0) -> float:
        return next(
            event.time_s
            for event in history.of(kind)
            if event.time_s >= after_s and of in (None, event.data.get("node"))
        )

    killed_s = first_s(Kind.FAULT_INJECTING)
    healing_s = first_s(Kind.FAULT_HEALING)
    return {
        FIRST_ROUND: first_s(Kind.ROUND_MERGED),
        EXIT: first_s(Kind.NODE_EXITED, "learner-1") - killed_s,
        STARTED: first_s(Kind.NODE_STARTED, "learner-1", healing_s) - healing_s,
        BACK: back_s[0],
    }


def _result(took_s: Mapping[tuple[str, str], list[float]], place: Mapping[str, Cell]) -> Result:
    figures = tuple(
        Figure(name=f"{what}, {fleet}", observed=median(values), unit="s", samples=len(values))
        for (what, fleet), values in took_s.items()
    )
    rows: tuple[Mapping[str, Cell], ...] = tuple(
        {
            "what": what,
            **{f"{fleet} (s)": round(median(took_s[what, fleet]), 2) for fleet in FLEETS},
        }
        for what in dict.fromkeys(what for what, _ in took_s)
    )
    return Result(
        number=10,
        name="containers beside processes",
        what="the same plan on both fleets, in turns: medians",
        command="python benchmarks/fleets.py",
        figures=figures,
        rows=rows,
        place=place,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--turns", type=int, default=TURNS, help="of both fleets")
    add_options(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
