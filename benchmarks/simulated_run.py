"""How long a simulated run takes to answer, from the command to its exit.

    python benchmarks/simulated_run.py [--turns 7] [--json] [--no-fail]

    turn 1: `chaoslab run kill_half --fleet sim` in an empty folder, then again: its twin is kept

The record, the reports, the verdict on the screen and the fault-free twin belong to it. Beside both
stands how long the same Python takes to start and end, so that another machine can be compared.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from figures import Cell, Figure, MachineLoad, Result, add_options, finish

AT_MOST_S = 2.0
TURNS = 7
WITHIN_S = 120.0
_RUN = ("-m", "chaoslab", "run", "kill_half", "--fleet", "sim")
_PARTS = ("Python alone", "with a new twin", "with a kept twin")


def main() -> int:
    """Measure and print; the exit code says whether the target is met."""
    options = _options()
    load = MachineLoad()
    took_s: dict[str, list[float]] = {part: [] for part in _PARTS}
    with TemporaryDirectory(prefix="chaoslab-benchmark-") as name:
        _took_s(Path(name), *_RUN)  # bytecode is compiled once
    for _ in range(options.turns):
        with TemporaryDirectory(prefix="chaoslab-benchmark-") as name:
            for part in _PARTS:
                words = ("-c", "pass") if part == _PARTS[0] else _RUN
                took_s[part].append(_took_s(Path(name), *words))
    return finish([_result(took_s, load)], options)


def _took_s(folder: Path, *words: str) -> float:
    began_s = perf_counter()
    subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, check=True, timeout=WITHIN_S
    )
    return perf_counter() - began_s


def _result(took_s: dict[str, list[float]], load: MachineLoad) -> Result:
    rows: list[dict[str, Cell]] = [
        {
            "": part,
            "median (s)": round(median(times), 3),
            "least (s)": round(min(times), 3),
            "most (s)": round(max(times), 3),
        }
        for part, times in took_s.items()
    ]
    return Result(
        number=17,
        name="simulated run",
        what="how long `chaoslab run kill_half --fleet sim` takes to answer",
        command="python benchmarks/simulated_run.py",
        figures=tuple(
            Figure(
                name=f"kill_half, simulated, {part}",
                observed=median(took_s[part]),
                unit="s",
                at_most=AT_MOST_S,
                samples=len(took_s[part]),
            )
            for part in _PARTS[1:]
        ),
        rows=tuple(rows),
        place=load.place(),
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=TURNS, metavar="N")
    add_options(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
