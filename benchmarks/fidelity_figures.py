"""Figures of a run that `fidelity.py` compares: of a real one and of a simulated one alike.

    run directory ─► findings of its checks ─► Figure names ─► numbers; outcomes and their codes

Everything is read from `verdict.json` and the journal, so both kinds of run are measured alike.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, TypeAlias

from chaoslab.checks.timeline import training_end_s
from chaoslab.core.payloads import BaselineMeasured, RoundMerged
from chaoslab.record.history import History

Figures: TypeAlias = Mapping[str, float]
WITHIN = 0.15
MOMENT_S = 0.02
"""Times that differ by less count as equal: a report takes about as long from a node to the
harness, and a simulated one takes none."""
LEFT_OUT = frozenset({"loss_parity"})
"""Checks that are not compared: they need a twin, and a simulation trains nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one plan: of all real runs, and of the simulations of each."""

    plan: str
    figure: str
    real: Sequence[float]
    simulated: Sequence[float]

    @property
    def difference(self) -> float:
        """Of the means, as a share of the real one."""
        return (mean(self.simulated) - mean(self.real)) / mean(self.real)

    @property
    def is_within(self) -> bool:
        """Whether the means differ by at most `WITHIN`, or by a moment."""
        moment = MOMENT_S if self.figure.endswith("(s)") else 0.0
        off = abs(mean(self.simulated) - mean(self.real))
        return off <= max(moment, WITHIN * abs(mean(self.real)))

    @property
    def spread(self) -> float:
        """Between the real runs, largest less smallest, as a share of their mean."""
        return (max(self.real) - min(self.real)) / mean(self.real)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What was found in one run, without the checks in `LEFT_OUT`."""

    outcome: str
    findings: Mapping[str, str]
    """By check: PASS, or FAIL or UNKNOWN with the codes of it."""


def figures_of(run: Path) -> Figures:
    """Every figure that this run has, by name; each name ends in its unit."""
    history, found = History.read(run), _findings(run)
    figures = dict(_rounds(history))
    if "continuity" in found:
        figures["longest pause (s)"] = found["continuity"]["observed"]
    if "goodput" in found:
        figures["goodput under faults (tokens/s)"] = found["goodput"]["numbers"][
            "committed_tokens_per_s"
        ]
    figures |= _rejoin(found.get("rejoin", {}).get("numbers", {}))
    figures |= _succession(found.get("succession", {}).get("numbers", {}))
    if "contribution_share" in found:
        shares = found["contribution_share"]["numbers"]["weight_share"]
        figures["weight of the slowest learner (share)"] = min(shares.values())
    return {name: float(value) for name, value in figures.items() if value is not None}


def outcomes_of(run: Path) -> Outcomes:
    """Outcome of the run and of each of its findings."""
    return outcomes(
        {name: " ".join([one["outcome"], *one["codes"]]) for name, one in _findings(run).items()}
    )


def outcomes(said: Mapping[str, str]) -> Outcomes:
    """The same of what was said of each check: its outcome, then its codes."""
    findings = {name: what for name, what in said.items() if name not in LEFT_OUT}
    ranks = ("FAIL", "UNKNOWN", "PASS")
    words = [said.split()[0] for said in findings.values()]
    return Outcomes(outcome=min(words, key=ranks.index), findings=findings)


def compared(runs: Mapping[str, Any]) -> Iterator[Row]:
    """Every figure that real runs and simulations have, plan by plan."""
    for plan, made in runs.items():
        for figure in made[0]["real"]:
            simulated = [one[figure] for run in made for one in run["simulated"] if figure in one]
            real = [run["real"][figure] for run in made if figure in run["real"]]
            if simulated and real:
                yield Row(plan=plan, figure=figure, real=real, simulated=simulated)


def _findings(run: Path) -> Mapping[str, Any]:
    verdict = json.loads((run / "verdict.json").read_text(encoding="utf-8"))
    return {one["check"]: one for one in verdict["findings"]}


def _rounds(history: History) -> Iterable[tuple[str, float | None]]:
    """Merges since the baseline began to be usual, and who contributed to them."""
    baseline = history.last(BaselineMeasured)
    if baseline is None:
        return
    yield "between two merges, undisturbed (s)", baseline.payload.gap_s_median
    merged = history.between(baseline.time_s, training_end_s(history), RoundMerged)
    parts = [len(event.payload.contributors) for event in merged]
    if parts:
        yield "contributions to a merge", mean(parts)


def _rejoin(numbers: Mapping[str, Any]) -> Figures:
    """The three clocks, each the mean of all absences."""
    names = {
        "up_s": "restart to process up (s)",
        "first_step_s": "restart to first step (s)",
        "first_contribution_s": "restart to first contribution (s)",
    }
    return {
        name: mean(clocks)
        for key, name in names.items()
        if (clocks := _known(numbers.get(key, {}).values()))
    }


def _succession(numbers: Mapping[str, Any]) -> Figures:
    """When the syncer was ready again, and when each learner was heard again: means."""
    ready = _known(outage["ready_s"] for outage in numbers.values())
    heard = _known(clock for outage in numbers.values() for clock in outage["heard_s"].values())
    found: dict[str, Sequence[float]] = {
        "restart to syncer ready (s)": ready,
        "restart to each learner heard (s)": heard,
    }
    return {name: mean(clocks) for name, clocks in found.items() if clocks}


def _known(clocks: Iterable[float | None]) -> Sequence[float]:
    return [clock for clock in clocks if clock is not None]
