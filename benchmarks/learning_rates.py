"""Held-out loss by inner and outer learning rate and other settings, at equal trained tokens.

    NPROC=1 python benchmarks/learning_rates.py measure --inner-lr 3e-3 8e-3 --seed 1 2
    python benchmarks/learning_rates.py tables

    trials ─ not in results.jsonl yet ─► a training in one process each ─► a line of results.jsonl
                                            results.jsonl ─► the tables of README.md beside it

`measure` takes lists, trains each combination, and may be interrupted and started again, also
several times at once. One training of 600 steps takes a core about a minute. Two commands that
measure the same setting give the same loss on one machine.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import inf
from pathlib import Path
from statistics import mean
from typing import Any

from figures import rewritten, table
from one_process import data_parallel, decoupled

from chaoslab.diloco.learner.inner_steps import Inner, InnerSettings
from chaoslab.diloco.model.load import load
from chaoslab.diloco.settings import Settings

HERE = Path(__file__).parent.parent / "experiments" / "learning_rates"
RESULTS = HERE / "results.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Settings of one training. With data parallelism those of rounds are not used, and null."""

    algorithm: str
    learners: int
    steps: int
    """Of each learner: warm-up, then a cosine to the last step."""
    inner_lr: float
    outer_lr: float | None
    momentum: float | None
    merge: str | None
    sync_every: int | None
    overlap: int | None
    compression: str | None
    seed: int
    decay_steps: int
    """Length of the cosine; the training may end before."""

    def measure(self) -> Mapping[str, float]:
        """Train and evaluate: loss, and what became of the tokens."""
        task = load("nano", data="stdlib")
        inner = Inner(task, InnerSettings(lr=self.inner_lr, decay_steps=self.decay_steps))
        if self.algorithm == "data_parallel":
            params = data_parallel(
                task, inner, learners=self.learners, steps=self.steps, seed=self.seed
            )
            return {"loss": task.evaluate(params), "discarded": 0.0}
        done = decoupled(task, inner, self._settings(), seed=self.seed)
        return {
            "loss": done.loss,
            "discarded": done.discarded,
            "rounds": len(done.merges),
            "steps_per_push": done.steps_per_push,
        }

    def _settings(self) -> Settings:
        given: dict[str, Any] = {  # the file of results has null for keys that are not used
            "outer_lr": self.outer_lr,
            "outer_momentum": self.momentum,
            "merge": self.merge,
            "sync_every": self.sync_every,
            "overlap": self.overlap,
            "compression": self.compression,
        }
        return Settings(
            learners=tuple(f"learner-{number}" for number in range(self.learners)),
            stop_steps=self.steps,
            **{key: value for key, value in given.items() if value is not None},
        )


ROUNDS = ("outer_lr", "momentum", "merge", "sync_every", "overlap", "compression")
"""Keys of a trial that only training in rounds has."""


def main() -> int:
    """Measure, or write the tables."""
    options = parser().parse_args()
    if options.do == "tables":
        page = HERE / "README.md"
        page.write_text(rewritten(page.read_text("utf-8"), tables(known())), encoding="utf-8")
        return 0
    for trial in trials(options):
        if trial in known():
            continue
        began_s = time.monotonic()
        found = trial.measure()
        line = {**asdict(trial), **found, "took_s": round(time.monotonic() - began_s, 1)}
        with RESULTS.open("a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line; defaults are the defaults of a training."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    modes = made.add_subparsers(dest="do", required=True)
    modes.add_parser("tables", help="write the tables of the page")
    measure = modes.add_parser("measure", help="train what is not in the results yet")
    settings, inner = Settings(), InnerSettings()
    defaults: Mapping[str, str | int | float] = {
        "algorithm": "decoupled",
        "learners": 4,
        "steps": 600,
        "inner_lr": inner.lr,
        "outer_lr": settings.outer_lr,
        "momentum": settings.outer_momentum,
        "merge": settings.merge,
        "sync_every": settings.sync_every,
        "overlap": settings.overlap,
        "compression": settings.compression,
        "seed": 1,
    }
    for key, value in defaults.items():
        flag = f"--{key.replace('_', '-')}"
        measure.add_argument(flag, nargs="+", type=type(value), default=[value])
    measure.add_argument("--decay-steps", type=int, help="default: the steps of the training")
    return made


def trials(options: argparse.Namespace) -> Iterator[Trial]:
    """Every combination of the lists, seed by seed."""
    keys = [field.name for field in fields(Trial) if field.name != "decay_steps"]
    keys.sort(key=lambda key: key != "seed")
    for values in itertools.product(*(getattr(options, key) for key in keys)):
        given = dict(zip(keys, values, strict=True))
        if given["algorithm"] == "data_parallel":
            given.update(dict.fromkeys(ROUNDS))
        yield Trial(**given, decay_steps=options.decay_steps or given["steps"])


def known() -> dict[Trial, Mapping[str, float]]:
    """All results so far."""
    if not RESULTS.exists():
        return {}
    lines = [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()]
    keys = [field.name for field in fields(Trial)]
    return {Trial(**{key: line[key] for key in keys}): line for line in lines}


# ---------------------------------------------------------------- tables

Losses = dict[int, float]
"""Loss by seed."""


def tables(results: Mapping[Trial, Mapping[str, float]]) -> str:
    """One table for each length of training and number of learners."""
    groups: dict[tuple[int, int, int], dict[Trial, Mapping[str, float]]] = {}
    for trial, found in results.items():
        key = (trial.learners, trial.steps, trial.decay_steps)
        groups.setdefault(key, {})[trial] = found
    return "\n\n".join(f"{head(*key)}\n\n{group_table(groups[key])}" for key in sorted(groups))


def head(learners: int, steps: int, decay_steps: int) -> str:
    """Heading of a table."""
    ends = "" if steps == decay_steps else f" of a cosine over {decay_steps:,}"
    return f"**{learners} learners, {steps:,} steps each{ends}**"


def group_table(results: Mapping[Trial, Mapping[str, float]]) -> str:
    """A row for each setting, the lowest loss with the first seed first; a column for each seed."""
    seeds = sorted({trial.seed for trial in results})
    by_setting: dict[Trial, Losses] = {}
    discarded: dict[Trial, float] = {}
    for trial, found in results.items():
        setting = replace(trial, seed=0)
        by_setting.setdefault(setting, {})[trial.seed] = found["loss"]
        discarded[setting] = found["discarded"]
    baseline = best_baseline(by_setting)
    keys = ("algorithm", "inner_lr", *ROUNDS)
    rows = [
        [
            *(getattr(setting, key) for key in keys),
            *(f"{losses[seed]:.3f}" if seed in losses else "" for seed in seeds),
            against(losses, baseline),
            f"{discarded[setting]:.1%}",
        ]
        for setting, losses in sorted(by_setting.items(), key=lambda one: one[1].get(seeds[0], inf))
    ]
    heads = [
        *(key.replace("_", " ") for key in keys),
        *(f"seed {seed}" for seed in seeds),
        "against data parallel",
        "discarded",
    ]
    return table(heads, rows)


def best_baseline(by_setting: Mapping[Trial, Losses]) -> Losses:
    """The best of those settings of data parallelism that were measured with the most seeds."""
    found = [losses for one, losses in by_setting.items() if one.algorithm == "data_parallel"]
    return min(found, key=lambda losses: (-len(losses), mean(losses.values())), default={})


def against(losses: Losses, baseline: Losses) -> str:
    """Mean difference to the baseline over the seeds that both have, as a share of it."""
    both = losses.keys() & baseline.keys()
    return f"{mean(losses[seed] / baseline[seed] - 1 for seed in both):+.1%}" if both else "-"


if __name__ == "__main__":
    sys.exit(main())
