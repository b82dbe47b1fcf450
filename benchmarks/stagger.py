"""Rounds before and after an outage of the syncer, with and without spacing.

    python benchmarks/stagger.py [--dry]

    the same simulated training with spacing 0 and 0.9 ─► rounds begun and contributors, by step
        ─► the table in experiments/stagger/README.md, and rounds.svg beside it

    python benchmarks/stagger.py [--dry] --record NAME RUN_DIR [--record NAME RUN_DIR …]

    journals of real runs in which faults took the syncer away ─► what a learner pushed
        ─► the second table of that page, and pushes.svg

Simulated time: seconds, and the same figures on every machine. `--dry` prints the table and writes
nothing.
"""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from bar_chart import Panel, svg
from figures import Cell, rewritten, table
from simulated_training import Scenario, Simulation

from chaoslab.checks.bursts import Burst, bursts
from chaoslab.checks.outages import Outage, outages
from chaoslab.checks.timeline import training_end_s
from chaoslab.core.payloads import PaceSet, PushAccepted
from chaoslab.diloco.settings import Settings
from chaoslab.record.journal import History

HERE = Path(__file__).parent.parent / "experiments" / "stagger"


def main() -> int:
    """Simulate both or read the records, then write the table and the drawing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dry", action="store_true", help="print the table, write nothing")
    parser.add_argument(
        "--record", nargs=2, action="append", metavar=("NAME", "RUN_DIR"),
        help="draw this run instead of simulated ones; several times for several runs",
    )  # fmt: skip
    options = parser.parse_args()
    if options.record:
        records = {name: History.read(Path(folder)) for name, folder in options.record}
        name, made, drawn = "pushes", table_of_records(records), drawing_of_records(records)
    else:
        runs = {name: simulated(spacing) for name, spacing in SPACINGS.items()}
        name, made, drawn = "rounds", table_of_simulations(runs), drawing_of_simulations(runs)
    print(made)
    if not options.dry:
        page = HERE / "README.md"
        text = rewritten(page.read_text(encoding="utf-8"), made, name=f"{name} table")
        page.write_text(text, encoding="utf-8")
        (HERE / f"{name}.svg").write_text(drawn, encoding="utf-8")
    return 0


# ---------------------------------------------------------------- simulated

LEARNERS = tuple(f"learner-{index}" for index in range(8))
OUTAGE, STEPS = range(400, 500), 1000
DRAWN = range(350, 750, 50)
"""Steps that are drawn."""
SPACINGS = {"without spacing": 0.0, "with spacing": 0.9}
WINDOWS = {
    "100 to 400, before the outage": range(100, 400),
    "500 to 550, right after it": range(500, 550),
    "900 to 1000": range(900, 1000),
}


def simulated(spacing: float) -> Simulation:
    """The training of this module with that spacing."""
    settings = Settings(learners=LEARNERS, fragments=24, sync_every=24, spacing=spacing)
    run = Simulation(Scenario(settings=settings, steps=STEPS, outage=OUTAGE))
    run.run()
    return run


def most_rounds(run: Simulation, window: range) -> int:
    """Most rounds that began in one of these steps."""
    begun = Counter(run.pulls)
    return max(begun[step] for step in window)


def mean_contributors(run: Simulation, window: range) -> float:
    """Mean number of contributors of the rounds merged in these steps."""
    return fmean(contributors for step, contributors in run.merges if step in window)


FIGURES: Mapping[str, Callable[[Simulation, range], Cell]] = {
    "most rounds in a step": most_rounds,
    "contributors": mean_contributors,
}


def table_of_simulations(runs: Mapping[str, Simulation]) -> str:
    """A row for each stretch of steps."""
    heads = ["steps", *(f"{figure}, {name}" for figure in FIGURES for name in runs)]
    return table(
        heads,
        [
            [name, *(figure(run, window) for figure in FIGURES.values() for run in runs.values())]
            for name, window in WINDOWS.items()
        ],
    )


def drawing_of_simulations(runs: Mapping[str, Simulation]) -> str:
    """Rounds begun by step."""
    panels = [
        Panel(
            title=f"rounds begun in each step, {name}",
            bars=sorted(Counter(run.pulls).items()),
            width=0.9,
            grey=[(OUTAGE.start, OUTAGE.stop)],
            grey_name="no syncer",
        )
        for name, run in runs.items()
    ]
    return svg("Rounds begun in each step, without and with spacing", panels, shown=DRAWN)


# ---------------------------------------------------------------- recorded

_BEFORE_S, _AFTER_S = 5, 10
"""Drawn before the first outage, and after the last."""


def table_of_records(records: Mapping[str, History]) -> str:
    """Most that one learner pushed in the time of one round, before and after each outage."""
    rows: list[list[Cell]] = []
    for name, history in records.items():
        found = _outages(history)
        edges = [0.0, *(one.served_s for one in found), math.inf]
        begins = [*(one.gone_s for one in found), math.inf]
        peaks = [_peak(history, *stretch).factor for stretch in zip(edges, begins, strict=False)]
        pace = history.last(PaceSet)
        step_ms = f"{1e3 * pace.payload.step_s:.0f} ms" if pace else None
        window_ms = f"{1e3 * _peak(history).window_s:.0f} ms"
        rows.append([name, step_ms, window_ms, *(f"{peak:.1f}" for peak in peaks)])
    after = [f"after outage {number}" for number in range(1, len(rows[0]) - 3)]
    return table(["", "step time", "time of one round", "before the outages", *after], rows)


def drawing_of_records(records: Mapping[str, History]) -> str:
    """What the learner with the highest peak pushed, in stretches as long as one round takes."""
    panels, ends_s = [], []
    for name, history in records.items():
        found, peak = _outages(history), _peak(history)
        begin_s = found[0].gone_s - _BEFORE_S
        ends_s.append(min(found[-1].served_s + _AFTER_S, training_end_s(history)) - begin_s)
        panels.append(
            Panel(
                title=f"pushed by {peak.last.payload.learner} in the time of one round, as a "
                f"multiple of its mean before the faults, {name}",
                bars=_pushed(history, peak, begin_s),
                width=0.9 * peak.window_s,
                grey=[(one.gone_s - begin_s, one.served_s - begin_s) for one in found],
                grey_name="no syncer",
            )
        )
    title = "Pushes of one learner by time in seconds, without and with spacing"
    return svg(title, panels, shown=range(0, math.ceil(max(ends_s)), _BEFORE_S))


def _outages(history: History) -> Sequence[Outage]:
    found = outages(history)
    if not found:
        raise ValueError("the record has no fault that took the syncer away")
    return found


def _peak(history: History, since_s: float = 0.0, until_s: float = math.inf) -> Burst:
    """The busiest time of one round, as the check `bandwidth` judges it."""
    return max(bursts(history, since_s, until_s), key=lambda burst: burst.factor)


def _pushed(history: History, peak: Burst, begin_s: float) -> Sequence[tuple[float, float]]:
    """Multiples of the mean, by the seconds since `begin_s` at which a stretch begins."""
    found: Counter[int] = Counter()
    for event in history.of(PushAccepted):
        if event.payload.learner == peak.learner and event.time_s >= begin_s:
            stretch = int((event.time_s - begin_s) / peak.window_s)
            found[stretch] += event.payload.payload_bytes or 0
    return [(n * peak.window_s, size / peak.mean_bytes) for n, size in sorted(found.items())]


if __name__ == "__main__":
    sys.exit(main())
