"""Effect of quorum, grace and `contribute` on a fleet of mixed chips, in virtual time.

    python benchmarks/quorum_and_grace.py [--dry] [--steps 600] [--seeds 3]

    ways, seeds ─► one_process: real policy, merge, codec and inner steps ─► goodput, loss
        ─► the table in experiments/quorum_and_grace/README.md, between markers

Not a benchmark with a target, but the paper's ablation at this scale: eight learners, half of them
18 % slower. Results do not depend on how busy the machine is, only how long they take: about ten
minutes on two cores. `--dry` prints the table and writes nothing.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

from figures import MachineLoad, place_line, rewritten, table
from one_process import Measured, Speeds, decoupled

from chaoslab.diloco.learner.inner_steps import Inner, InnerSettings
from chaoslab.diloco.model.load import load
from chaoslab.diloco.settings import Settings

PAGE = Path(__file__).parent.parent / "experiments" / "quorum_and_grace" / "README.md"
LEARNERS, FAST = 8, 4
STEP_S = (1.0,) * FAST + (1.18,) * (LEARNERS - FAST)
SYNC_S = 1.5
"""From a pull to the arrival of the version that it leads to: within the overlap of two steps."""
WAYS: Mapping[str, Mapping[str, Any]] = {
    "K = M": {"quorum": LEARNERS, "blocking": True},
    "K = 1, ready, no grace": {"contribute": "ready", "gamma": 0.0},
    "K = 1, ready, grace": {"contribute": "ready"},
    "K = 1, all, no grace": {"gamma": 0.0},
    "K = 1, all, grace": {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one training."""

    goodput: float
    """Share of their time that fast learners spend in steps; slow ones wait for nobody."""
    loss: float
    virtual_s: float
    tokens: int
    overwritten: float
    """Share of the trained tokens that no merge contains because an adoption overwrote them."""
    contributors: float
    """Mean over the merges."""
    from_slow: float
    """Share of the merged tokens that slow learners trained on."""


def main() -> int:
    """Train every way with every seed, then write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dry", action="store_true", help="print the table, write nothing")
    parser.add_argument("--steps", type=int, default=600, help="of each fast learner with K = 1")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    options = parser.parse_args()
    load_of_machine = MachineLoad()
    os.environ["NPROC"] = "1"  # one thread each: equal results on any number of cores
    jobs = list(product(WAYS, range(options.seeds)))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        trained = pool.map(train, *zip(*jobs, strict=True), [options.steps] * len(jobs))
        found: dict[str, list[Figures]] = {way: [] for way in WAYS}
        for (way, seed), figures in zip(jobs, trained, strict=True):
            print(f"{way}, seed {seed}: {figures}", flush=True)
            found[way].append(figures)
    rows = [row(way, runs) for way, runs in found.items()]
    heads = list(rows[0])
    made = table(heads, [list(cells.values()) for cells in rows])
    made += f"\n\n{options.steps} steps, seeds: {options.seeds}. "
    made += f"Measured on: {place_line(load_of_machine.place())}."
    print(made)
    if not options.dry:
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
    return 0


def train(way: str, seed: int, steps: int) -> Figures:
    """One training; all ways train on the same number of tokens, as nearly as steps allow."""
    settings = WAYS[way]
    done = steps
    stop: Mapping[str, Any] = {"stop_time_s": steps * STEP_S[0]}
    if settings.get("blocking"):  # all make equal steps, at the pace of the slowest
        done = round(sum(steps * STEP_S[0] / step_s for step_s in STEP_S) / LEARNERS)
        stop = {"stop_steps": done}
    task = load("nano", batch=8, sequence=128)
    measured = decoupled(
        task,
        Inner(task, InnerSettings(decay_steps=done)),
        Settings(learners=tuple(f"learner-{n}" for n in range(LEARNERS)), **settings, **stop),
        Speeds(step_s=STEP_S, sync_s=SYNC_S),
        seed=seed,
    )
    return figures_of(measured)


def figures_of(measured: Measured) -> Figures:
    """The figures that the table shows."""
    fast_s = sum(measured.steps[:FAST]) * STEP_S[0]
    given = [given for merge in measured.merges for given in merge.contributions]
    slow = {f"learner-{n}" for n in range(FAST, LEARNERS)}
    merged = sum(one.c_tokens for one in given)
    return Figures(
        goodput=fast_s / (FAST * measured.virtual_s),
        loss=measured.loss,
        virtual_s=measured.virtual_s,
        tokens=measured.trained_tokens,
        overwritten=measured.discarded,
        contributors=len(given) / len(measured.merges),
        from_slow=sum(one.c_tokens for one in given if one.learner in slow) / merged,
    )


def row(way: str, runs: Sequence[Figures]) -> Mapping[str, str]:
    """One line of the table: means over the seeds, and the range of the loss."""
    losses = [run.loss for run in runs]
    return {
        "": way,
        "goodput of fast chips": f"{mean(run.goodput for run in runs):.0%}",
        "held-out loss": f"{mean(losses):.3f} ({min(losses):.3f} to {max(losses):.3f})",
        "time (fast steps)": f"{mean(run.virtual_s for run in runs):.0f}",
        "tokens trained": f"{mean(run.tokens for run in runs) / 1e6:.2f}M",
        "overwritten": f"{mean(run.overwritten for run in runs):.0%}",
        "contributors": f"{mean(run.contributors for run in runs):.1f}",
        "tokens of slow chips": f"{mean(run.from_slow for run in runs):.0%}",
    }


if __name__ == "__main__":
    sys.exit(main())
