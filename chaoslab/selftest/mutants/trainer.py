"""Trainer of the standard library: a linear model by SGD with momentum, which saves and resumes.

    python -m chaoslab.selftest.mutants.trainer --rank 0 --folder F [--broken HOW]

It knows nothing of chaoslab: all that it says of itself are lines of ordinary text. With `--broken`
its resume is wrong in one way.
"""

# ruff: noqa: T201 - a trainer prints

import argparse
import json
import os
import random
import time
from pathlib import Path

SIZE, EVERY = 8, 15
BROKEN = (
    "no_resume", "older", "weights", "moments", "rate", "data", "shard", "skips", "hangs", "ends",
    "leaves", "unsaved",
)  # fmt: skip


def main() -> None:
    flags = argparse.ArgumentParser()
    flags.add_argument("--rank", type=int, default=0)
    flags.add_argument("--folder", type=Path, required=True)
    flags.add_argument("--steps", type=int, default=1_000_000)
    flags.add_argument("--pause", type=float, default=0.04)
    flags.add_argument("--broken", default="none", choices=("none", *BROKEN))
    train(flags.parse_args())


def train(options: argparse.Namespace) -> None:
    options.folder.mkdir(exist_ok=True)
    target = [random.Random(99 + i).uniform(-1, 1) for i in range(SIZE)]
    values, moments, step, data = [0.0] * SIZE, [0.0] * SIZE, 0, 0
    shard, broken = options.rank, options.broken
    files = sorted(options.folder.glob(f"rank{options.rank}-*.json"))
    if files and broken != "no_resume":
        file = files[-3 if broken == "older" and len(files) > 2 else -1]
        state = json.loads(file.read_text())
        step, data, values, moments = (state[key] for key in ("step", "data", "values", "moments"))
        values = [0.0] * SIZE if broken == "weights" else values
        moments = [0.0] * SIZE if broken == "moments" else moments
        data = 0 if broken == "data" else data
        shard += broken == "shard"
        print(f"resumed from step {step}", flush=True)
    began = step
    while step < options.steps:
        if began and broken in ("hangs", "ends") and step == began + 20:
            time.sleep(0 if broken == "ends" else 3600)
            return
        if broken == "leaves" and not shard and step == 200:
            return
        step += 100 if began and broken == "skips" and step == began + 20 else 0
        step, data = step + 1, data + 1
        time.sleep(options.pause)
        since = step - began if broken == "rate" and began else step
        rate = 0.05 * min(1, since / 100)
        chance = random.Random(1000 * data + shard)
        inputs = [chance.gauss(0, 1) for _ in range(SIZE)]
        wanted = sum(a * b for a, b in zip(target, inputs, strict=True)) + chance.gauss(0, 0.1)
        error = sum(a * b for a, b in zip(values, inputs, strict=True)) - wanted
        moments = [0.9 * m + 0.1 * error * x for m, x in zip(moments, inputs, strict=True)]
        values = [value - rate * m for value, m in zip(values, moments, strict=True)]
        loss = sum((a - b) ** 2 for a, b in zip(values, target, strict=True)) + 0.01
        print(f"step {step} loss {loss:.6f} lr {rate:.5f}", flush=True)
        if step % EVERY == 0 and not (began and broken == "unsaved"):
            state = {"step": step, "data": data, "values": values, "moments": moments}
            file = options.folder / f"rank{options.rank}-{step:06d}.json"
            partial = file.with_suffix(".partial")
            partial.write_text(json.dumps(state))
            os.replace(partial, file)
            print(f"saved step {step}", flush=True)


if __name__ == "__main__":
    main()
