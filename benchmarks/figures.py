"""Results of benchmarks: figures with targets, the rows behind them, and the machine.

    measure ─► Result(figures, rows, place) ─► table on the screen, or --json ─► results/, README
                                            └► exit code 1 when a target is missed

A `Figure` is one number with its target; the rows show how it was obtained. Measures nothing
itself, except what else the machine was doing (`MachineLoad`).
"""

import argparse
import importlib.metadata
import json
import math
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self, TypeAlias

Cell: TypeAlias = str | int | float | None

_LIBRARIES = ("jax", "numpy", "grpcio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number. `at_most` and `at_least` are its target, if it has one."""

    name: str
    observed: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None
    samples: int = 1

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None for a figure without one."""
        if self.at_most is None and self.at_least is None:
            return None
        is_low_enough = self.at_most is None or self.observed <= self.at_most
        return is_low_enough and (self.at_least is None or self.observed >= self.at_least)

    @property
    def target(self) -> str:
        """The target as text for a table."""
        if self.at_most is not None:
            return f"at most {with_unit(self.at_most, self.unit)}"
        return "" if self.at_least is None else f"at least {with_unit(self.at_least, self.unit)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of one benchmark. `rows` have equal keys: the columns of its table."""

    number: int
    """Position in the README."""
    name: str
    what: str
    """What is measured, one sentence."""
    command: str
    figures: tuple[Figure, ...]
    rows: tuple[Mapping[str, Cell], ...] = ()
    notes: tuple[str, ...] = ()
    place: Mapping[str, Cell] = field(default_factory=dict)

    @property
    def missed(self) -> list[str]:
        """Names of the figures that miss their targets."""
        return [figure.name for figure in self.figures if figure.is_met is False]

    def to_json(self) -> dict[str, object]:
        """The result with derived values, for readers that do not have this class."""
        figures = [{**asdict(f), "is_met": f.is_met} for f in self.figures]
        return {**asdict(self), "figures": figures, "is_met": not self.missed}

    @classmethod
    def from_json(cls, given: Mapping[str, object]) -> Self:
        """Read `to_json`; KeyError or TypeError for anything else."""
        known = {key: value for key, value in given.items() if key != "is_met"}
        figures = known.pop("figures")
        if not isinstance(figures, list):
            raise TypeError("`figures` is a list")
        made = tuple(
            Figure(**{key: value for key, value in f.items() if key != "is_met"}) for f in figures
        )
        result = cls(**{**known, "figures": made})  # type: ignore[arg-type]  # checked by use
        return replace(result, rows=tuple(result.rows), notes=tuple(result.notes))


# ---------------------------------------------------------------- the machine


class MachineLoad:
    """Load of the machine by others, from the creation of this object to `place`."""

    def __init__(self) -> None:
        self._busy_s, self._own_s = _busy_s(), _own_s()
        self._began_s = os.times().elapsed
        self._load = os.getloadavg()[0]

    def place(self) -> Mapping[str, Cell]:
        """The machine, without anything that identifies it, and its load by others.

        `others_cores` is the processor time of processes that this one did not start, per second.
        Children count as its own once they were waited for.
        """
        elapsed_s = max(os.times().elapsed - self._began_s, 1e-9)
        busy_s, own_s = _busy_s() - self._busy_s, _own_s() - self._own_s
        return {
            "cores": len(os.sched_getaffinity(0)),
            "processor": _processor(),
            "system": platform.system(),
            "python": platform.python_version(),
            **{library: importlib.metadata.version(library) for library in _LIBRARIES},
            "load_before": round(self._load, 1),
            "load_after": round(os.getloadavg()[0], 1),
            "others_cores": round(max(0.0, busy_s - own_s) / elapsed_s, 2),
            "took_s": round(elapsed_s),
        }


def _busy_s() -> float:
    """Processor seconds that all processes have used since boot."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = (
        int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


# ---------------------------------------------------------------- output


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every benchmark has."""
    parser.add_argument("--json", action="store_true", help="print one JSON value and nothing else")
    parser.add_argument(
        "--no-fail", action="store_true", help="only report: exit 0 even when a target is missed"
    )


def finish(results: Sequence[Result], options: argparse.Namespace) -> int:
    """Print the results, name the missed targets on standard error; return the exit code."""
    if options.json:
        print(json.dumps({"results": [result.to_json() for result in results]}, indent=1))
    else:
        print("\n\n".join(page(result) for result in results))
    missed = [f"{result.name}: {name}" for result in results for name in result.missed]
    if missed:
        print(f"target missed by {'; '.join(missed)}", file=sys.stderr)
    return 1 if missed and not options.no_fail else 0


def page(result: Result) -> str:
    """One benchmark as text: its figures, then the rows behind them."""
    parts = [f"{result.number}. {result.name}: {result.what}", figures_table([result])]
    if result.rows:
        parts.append(table(list(result.rows[0]), [list(row.values()) for row in result.rows]))
    parts += [*result.notes, place_line(result.place)]
    return "\n\n".join(parts)


def figures_table(results: Sequence[Result]) -> str:
    """Table of observed values, targets, and whether they are met."""
    cells: list[list[Cell]] = [
        [
            result.number,
            figure.name,
            with_unit(figure.observed, figure.unit),
            figure.target,
            {None: "", True: "met", False: "**missed**"}[figure.is_met],
            figure.samples,
        ]
        for result in results
        for figure in result.figures
    ]
    return table(["", "figure", "observed", "target", "", "samples"], cells)


def place_line(place: Mapping[str, Cell]) -> str:
    """The machine in one line."""
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in place.items())


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A Markdown table that is also readable as text."""
    cells = [list(heads), *([text(cell) for cell in row] for row in rows)]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(heads))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines)


def rewritten(page: str, made: str, *, name: str = "results") -> str:
    """The page with `made` between the markers of that name; ValueError if it has none."""
    first, last = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->"
    head, begin, rest = page.partition(first)
    _, end, tail = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {first.strip()} and {last}")
    return f"{head}{begin}\n{made}\n\n{end}{tail}"


def with_unit(value: float, unit: str) -> str:
    """The value with its unit: `2.31 s`, `0.61`, `never`."""
    return f"{text(float(value))} {unit}".rstrip()


def text(cell: Cell) -> str:
    """A cell as text; numbers with three significant digits."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        if math.isinf(cell):
            return "never"
        return f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return str(cell)


# ---------------------------------------------------------------- numbers


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
