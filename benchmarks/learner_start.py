"""Start of a learner that keeps its compiled functions, against JAX's compilation cache alone.

    python benchmarks/learner_start.py [--turns 10] [--json] [--no-fail]

    warm-up: both once, so that both caches are warm
    turn 1: kept, JAX's alone        turn 2: JAX's alone, kept        turn 3: kept, …

Each is a syncer and one learner, started by the harness's command lines. The time counts from the
first imports of the learner to its `learner.compiled`: it has joined, and has every function that
it trains with. The interpreter's own start is not in it. If the target is missed,
`learner.executables` saves less than a tenth of a start and should go.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from figures import Cell, Figure, MachineLoad, Result, add_options, finish
from trainings import BenchmarkError, by_hand, workplace

from chaoslab.core.payloads import LearnerCompiled

AT_LEAST = 1.1
TURNS = 10
WITHIN_S = 120.0
_KEPT, _ALONE = "kept functions", "JAX's cache alone"
_PLAN = """
version: 1
name: learner_start
training: {learners: 1, model: nano, stop: {time: 1s}}
baseline: {warmup: 1 rounds, window: 4 rounds}
faults: []
"""
PLANS = {
    _KEPT: _PLAN,
    _ALONE: f"{_PLAN}fleet: {{programs: {{learner: jax_cache_alone}}}}\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of the learner."""

    took_s: float
    functions: LearnerCompiled


def main() -> int:
    """Measure and print; the exit code says whether the target is met."""
    options = _options()
    load = MachineLoad()
    try:
        starts = measure(options.turns)
    except BenchmarkError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 2
    return finish([_result(starts, load.place())], options)


def measure(turns: int) -> Mapping[str, Sequence[Start]]:
    """The starts, by what keeps the functions."""
    # `python -m jax_cache_alone` finds it
    paths = (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    starts: dict[str, list[Start]] = {kind: [] for kind in PLANS}
    with workplace() as folder:
        for kind in PLANS:
            _start(folder / f"warm-up, {kind}", kind)
        for turn in range(turns):
            for kind in list(PLANS)[:: -1 if turn % 2 else 1]:
                starts[kind].append(_start(folder / f"{turn}, {kind}", kind))
    return starts


def _start(folder: Path, kind: str) -> Start:
    events = by_hand(folder, PLANS[kind], within_s=WITHIN_S)["learner-0"]
    return next(
        Start(took_s=event.time_s, functions=said)
        for event in events
        if isinstance(said := event.payload, LearnerCompiled)
    )


def _result(starts: Mapping[str, Sequence[Start]], place: Mapping[str, Cell]) -> Result:
    start_s = {kind: median(one.took_s for one in of_it) for kind, of_it in starts.items()}
    return Result(
        number=14,
        name="learner start",
        what="how long a nano learner takes until it can train, with its compiled functions kept, "
        "against JAX's compilation cache alone",
        command="python benchmarks/learner_start.py",
        figures=(
            Figure(
                name=f"start with {_ALONE} / {_KEPT}",
                observed=start_s[_ALONE] / start_s[_KEPT],
                at_least=AT_LEAST,
                samples=sum(map(len, starts.values())),
            ),
            *(
                Figure(
                    name=f"start with {kind}", observed=seconds, unit="s", samples=len(starts[kind])
                )
                for kind, seconds in start_s.items()
            ),
        ),
        rows=tuple(_row(kind, of_it) for kind, of_it in starts.items()),
        place=place,
    )


def _row(kind: str, of_it: Sequence[Start]) -> Mapping[str, Cell]:
    return {
        "": kind,
        "start, median (s)": median(one.took_s for one in of_it),
        "least (s)": min(one.took_s for one in of_it),
        "most (s)": max(one.took_s for one in of_it),
        "functions, median (s)": median(one.functions.took_s for one in of_it),
        "loaded": of_it[-1].functions.loaded,
        "compiled": of_it[-1].functions.compiled,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=TURNS, metavar="N", help="(default 10)")
    add_options(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
