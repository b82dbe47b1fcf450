"""Effect of quorum and grace: one mixed fleet with a failing learner, in three configurations.

    python benchmarks/quorum_and_grace.py [--dry]

    experiments/quorum_and_grace/plan.yaml ─► K = M, K = 1 without grace, K = 1 with grace
        ─► journals ─► goodput, loss, time ─► the table in its README.md, between markers

Not a benchmark with a target, but the paper's ablation at this scale. Each configuration is one run
of about a minute, in a temporary folder; `--dry` prints the table and writes nothing.
"""

import argparse
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from figures import MachineLoad, place_line, rewritten, table
from trainings import run_plan, workplace

from chaoslab.checks.timeline import parts, training_end_s
from chaoslab.core.events import Kind
from chaoslab.record.journal import History

HERE = Path(__file__).parent.parent / "experiments" / "quorum_and_grace"
WITHIN_S = 400.0
WAYS = {
    "K = M": ("training.quorum=4",),
    "K = 1, no grace": ("training.quorum=1", "training.grace.gamma=0"),
    "K = 1, grace": ("training.quorum=1", "training.grace.gamma=0.8"),
}


def main() -> int:
    """Run the three configurations, then write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dry", action="store_true", help="print the table, write nothing")
    options = parser.parse_args()
    load = MachineLoad()
    plan = (HERE / "plan.yaml").read_text(encoding="utf-8")
    runs: dict[str, Mapping[str, str]] = {}
    with workplace() as folder:
        for number, (way, settings) in enumerate(WAYS.items()):
            print(f"{way} …", flush=True)
            history = run_plan(folder / str(number), plan, within_s=WITHIN_S, settings=settings)
            runs[way] = figures_of(history)
    heads = ["", *next(iter(runs.values()))]
    rows = [[way, *figures.values()] for way, figures in runs.items()]
    made = f"{table(heads, rows)}\n\nMeasured on: {place_line(load.place())}."
    print(made)
    if not options.dry:
        page = HERE / "README.md"
        page.write_text(rewritten(page.read_text(encoding="utf-8"), made), encoding="utf-8")
    return 0


def figures_of(history: History) -> Mapping[str, str]:
    """The figures of one run, over all of its training, by the heads of the table."""
    rounds = history.of(Kind.ROUND_MERGED)
    start_s, end_s = rounds[0].time_s, training_end_s(history)
    committed = rounds[-1].payload.committed_tokens - rounds[0].payload.committed_tokens
    pushes = [part.contributor.c_steps for part in parts(history)]
    losses = history.of(Kind.EVALUATION_MEASURED)
    pause_s = max(late.time_s - early.time_s for early, late in pairwise(rounds))
    goodput = committed / ((end_s - start_s) * undisturbed_tokens_per_s(history))
    return {
        "goodput": f"{goodput:.0%}",
        "held-out loss": f"{losses[-1].payload.loss:.3f}",
        "wall time (s)": f"{end_s - start_s:.1f}",
        "rounds": str(len(rounds)),
        "longest pause (s)": f"{pause_s:.1f}",
        "steps a push": f"{sum(pushes) / len(pushes):.1f}",
    }


def undisturbed_tokens_per_s(history: History) -> float:
    """Tokens per second of all learners together, from the first merge to the first fault."""
    start_s = history.of(Kind.ROUND_MERGED)[0].time_s
    end_s = history.of(Kind.FAULT_INJECTING)[0].time_s
    per_s = 0.0
    for learner in history.founders:
        seen = [
            e for e in history.between(start_s, end_s, Kind.LEARNER_STEP)
            if e.payload.learner == learner
        ]  # fmt: skip
        tokens = seen[-1].payload.tokens - seen[0].payload.tokens
        per_s += tokens / (seen[-1].time_s - seen[0].time_s)
    return per_s


if __name__ == "__main__":
    sys.exit(main())
