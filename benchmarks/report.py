"""Report: the results table of README.md, generated from the output of the benchmarks.

    wire, round, harness, links, … ── --json ──► results/<name>.json
                                                           └─ report ──► README.md, between markers

    python benchmarks/report.py               write the table from the existing results
    python benchmarks/report.py --measure     measure everything first; a quarter of an hour
    python benchmarks/report.py --measure wire,kills

Exit code 1 when a target is missed.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from figures import Cell, Result, figures_table, rewritten, table

HERE = Path(__file__).parent
README = HERE / "README.md"
RESULTS = HERE / "results"
MEASUREMENTS: Mapping[str, tuple[str, ...]] = {
    "wire": ("wire.py",),
    "round": ("round.py",),
    "step_time": ("harness.py", "--only", "3"),
    "injection": ("harness.py", "--only", "4"),
    "kills": ("harness.py", "--only", "5,6"),
    "dead_link": ("dead_link.py",),
    "links": ("links.py",),
    "durability": ("durability.py",),
    "pings": ("pings.py",),
    "judging": ("judge.py",),
    "policy": ("policy.py",),
    "learner_start": ("learner_start.py",),
    "live_page": ("live_page.py",),
    "simulated_run": ("simulated_run.py",),
}
"""Command that measures each set of results."""
WITHIN_S = 1800.0
_NOISE = ("load_before", "load_after", "others_cores", "took_s")


def main() -> int:
    """Measure what is asked for, then write the table from all existing results."""
    options = _options()
    for name in options.measure:
        measure(name)
    results = read_results()
    page = rewritten(README.read_text(encoding="utf-8"), made_from(results))
    README.write_text(page, encoding="utf-8")
    missed = [f"{result.name}: {name}" for result in results for name in result.missed]
    print(f"target missed by {'; '.join(missed)}" if missed else "every target is met")
    return 1 if missed else 0


def measure(name: str) -> None:
    """Run one benchmark and keep its output, which says whether it met its targets."""
    command = [sys.executable, str(HERE / MEASUREMENTS[name][0]), *MEASUREMENTS[name][1:]]
    print(f"measuring {name} …", flush=True)
    done = subprocess.run(
        [*command, "--json", "--no-fail"], stdout=subprocess.PIPE, timeout=WITHIN_S, check=True
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_bytes(done.stdout)


def read_results() -> list[Result]:
    """All results in results/, by number."""
    found = [
        Result.from_json(result)
        for path in sorted(RESULTS.glob("*.json"))
        for result in json.loads(path.read_text(encoding="utf-8"))["results"]
    ]
    return sorted(found, key=lambda result: result.number)


def made_from(results: Sequence[Result]) -> str:
    """Machine, figures, load by others, and the rows behind the figures."""
    parts = [_machine(results), figures_table(results), _noise(results)]
    for result in results:
        parts.append(f"### {result.number}. {result.name}")
        parts.append(f"{result.what[:1].upper()}{result.what[1:]}.")
        if result.rows:
            parts.append(table(list(result.rows[0]), [list(row.values()) for row in result.rows]))
        parts += result.notes
    return "\n\n".join(parts)


def _machine(results: Sequence[Result]) -> str:
    machines = dict.fromkeys(
        ", ".join(f"{key} {value}" for key, value in result.place.items() if key not in _NOISE)
        for result in results
    )
    return "Measured on: " + "; ".join(machines) + "."


def _noise(results: Sequence[Result]) -> str:
    """Load of the machine, by the benchmark itself and by others."""
    rows: list[list[Cell]] = [
        [result.number, result.name, *(result.place.get(key) for key in _NOISE)]
        for result in results
    ]
    heads = ["", "benchmark", "load before", "load after", "cores used by others", "took (s)"]
    return table(heads, rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--measure", nargs="?", const=",".join(MEASUREMENTS), default="", metavar="wire,kills",
        help=f"measure first: all of {', '.join(MEASUREMENTS)}, or these",
    )  # fmt: skip
    options = parser.parse_args()
    options.measure = [name for name in options.measure.split(",") if name]
    if unknown := [name for name in options.measure if name not in MEASUREMENTS]:
        parser.error(f"--measure knows {', '.join(MEASUREMENTS)}, not {', '.join(unknown)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
