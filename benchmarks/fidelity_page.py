"""Page of `fidelity.py`: tables of figures and verdicts, from results.json alone.

results.json ─► compared: real, simulated, their difference ─┬─► tables between markers
                                                             └─► how many are within 15 %
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from fidelity_figures import MOMENT_S, WITHIN, compared
from figures import Cell, place_line, rewritten, table


def write_page(folder: Path, results: Mapping[str, Any]) -> None:
    """Write every table into the page of that folder, and print it."""
    page = folder / "README.md"
    text = page.read_text(encoding="utf-8")
    for name, made in (
        ("figures", _figures(results)),
        ("runs", _runs(results)),
        ("verdicts", _verdicts(results["verdicts"])),
    ):
        text = rewritten(text, made, name=name)
        print(f"\n{made}")
    page.write_text(text, encoding="utf-8")


def _figures(results: Mapping[str, Any]) -> str:
    rows = list(compared(results["runs"]))
    heads = ["plan", "figure", "real", "from", "to", "simulated", "from", "to", "difference", ""]
    cells: list[list[Cell]] = [
        [
            row.plan,
            row.figure,
            *_with_range(row.real),
            *_with_range(row.simulated),
            f"{row.difference:+.0%}" if mean(row.real) > MOMENT_S else "-",
            "" if row.is_within else "**beyond**",
        ]
        for row in rows
    ]
    within = sum(row.is_within for row in rows)
    said = f"{within} of {len(rows)} within {WITHIN:.0%}."
    return f"{table(heads, cells)}\n\n{said} Measured on: {place_line(results['place'])}."


def _with_range(values: Sequence[float]) -> tuple[Cell, Cell, Cell]:
    return mean(values), min(values), max(values)


def _runs(results: Mapping[str, Any]) -> str:
    heads = ["plan", "settings", "real runs", "simulated", "left out", "step times (ms)",
             "cores used by others"]  # fmt: skip
    cells: list[list[Cell]] = [
        [
            plan,
            " ".join(f"`{setting}`" for setting in results["settings"][plan]),
            len(made),
            sum(len(run["simulated"]) for run in made),
            results["left_out"][plan],
            ", ".join(f"{1000 * run['step_s']:.0f}" for run in made),
            ", ".join(f"{run['others_cores']:.2f}" for run in made),
        ]
        for plan, made in results["runs"].items()
    ]
    return table(heads, cells)


def _verdicts(verdicts: Mapping[str, Any]) -> str:
    cells: list[list[Cell]] = []
    for plan, said in verdicts.items():
        real, simulated = said["real"], said["simulated"]
        cells.append(
            [
                plan,
                real["outcome"] if real else "not run",
                simulated["outcome"] if simulated else "refused",
                said["refused"] or _differing(real, simulated),
            ]
        )
    return table(["plan", "real", "simulated", "what differs, or why it is refused"], cells)


def _differing(real: Mapping[str, Any] | None, simulated: Mapping[str, Any]) -> str:
    """Findings that are not the same: check, real, simulated."""
    if real is None:
        return _not_passed(simulated["findings"])
    return "; ".join(
        f"{check}: {real['findings'].get(check, 'not judged')}, simulated {said}"
        for check, said in simulated["findings"].items()
        if real["findings"].get(check, "") != said
    )


def _not_passed(findings: Mapping[str, str]) -> str:
    return "; ".join(f"{check}: {said}" for check, said in findings.items() if said != "PASS")
