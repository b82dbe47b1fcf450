"""Cost of durable merges: rounds per second with fsync, as a share of those without.

    python benchmarks/durability.py [--turns 6] [--folder DIRECTORY] [--json] [--no-fail]

    turn 1: syncer, learners      turn 2: the same with --not-durable      turn 3: syncer, learners

The same training by hand, in turns, so that a busy machine slows both. Rounds per second are
counted from the first merge to the last, by the syncer's clock. Also shown is the cost of one merge
on this disk, with and without fsync, for a small and a large fragment. In a file system in memory
fsync costs nothing: `--folder` says where to put the state.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from figures import Cell, Figure, MachineLoad, Result, add_options, finish
from trainings import by_hand

from chaoslab.core.events import Kind
from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.syncer.commit_log import CommitRecord
from chaoslab.diloco.syncer.store import SyncerStore, Tensors

AT_LEAST = 0.9
"""Least rounds per second with fsync, as a share of those without."""
TURNS = 6
TRAIN_S = 8
WITHIN_S = 120.0
FLOATS = (20_000, 2_000_000)
"""Floats in a fragment of the model `nano`, and of a hundred times as large a model."""
SAVES = 40

PLAN = f"""
version: 1
name: durability
training: {{learners: 2, model: nano, stop: {{time: {TRAIN_S}s}}}}
faults: []
"""


def main() -> int:
    """Measure and print; the exit code says whether the target is met."""
    options = _options()
    load = MachineLoad()
    rates: dict[bool, list[float]] = {True: [], False: []}
    with TemporaryDirectory(prefix="chaoslab-benchmark-", dir=options.folder) as name:
        folder = Path(name)
        saves = [_save_ms(folder / f"store-{floats}", floats) for floats in FLOATS]
        by_hand(folder / "warm-up", PLAN, within_s=WITHIN_S)
        for turn in range(options.turns):
            for is_durable in (True, False) if turn % 2 == 0 else (False, True):
                here = folder / f"{turn}-{is_durable}"
                rates[is_durable].append(_rounds_per_s(here, is_durable=is_durable))
    return finish([_result(rates, saves, load.place())], options)


def _rounds_per_s(folder: Path, *, is_durable: bool) -> float:
    more = () if is_durable else ("--not-durable",)
    said = by_hand(folder, PLAN, within_s=WITHIN_S, syncer_flags=more)["syncer"]
    times_s = [event.time_s for event in said if event.kind is Kind.ROUND_MERGED]
    return (len(times_s) - 1) / (times_s[-1] - times_s[0])


def _save_ms(folder: Path, floats: int) -> tuple[float, float]:
    """Median milliseconds of one `save_round`, with and without fsync, in turns."""
    values: FloatArray = np.zeros(floats, np.float32)
    tensors = Tensors(theta={"all": values}, momentum={"all": values})
    stores = [SyncerStore(folder / str(durable), durable=durable) for durable in (True, False)]
    for store in stores:
        store.begin("[]", {0: tensors})
    took_ms: list[list[float]] = [[], []]
    for version in range(1, SAVES + 1):
        for found, store in zip(took_ms, stores, strict=True):
            began_s = perf_counter()
            store.save_round(
                CommitRecord(round=version, fragment=0, version=version, begun=version), tensors
            )
            found.append(1e3 * (perf_counter() - began_s))
    for store in stores:
        store.close()
    return median(took_ms[0]), median(took_ms[1])


def _result(
    rates: Mapping[bool, Sequence[float]],
    saves: Sequence[tuple[float, float]],
    place: Mapping[str, Cell],
) -> Result:
    with_fsync, without = median(rates[True]), median(rates[False])
    rows: list[Mapping[str, Cell]] = [
        {
            "turn": turn,
            "durable (rounds/s)": mine,
            "not durable (rounds/s)": its,
            "ratio": mine / its,
        }
        for turn, (mine, its) in enumerate(zip(rates[True], rates[False], strict=True), 1)
    ]
    turns = len(rates[True])
    costs = [
        Figure(name=f"one merge of {floats:,} floats, {how}", observed=ms, unit="ms", samples=SAVES)
        for floats, pair in zip(FLOATS, saves, strict=True)
        for how, ms in zip(("durable", "not durable"), pair, strict=True)
    ]
    return Result(
        number=9,
        name="durability",
        what="rounds per second of a nano training whose syncer waits for its disk in each round, "
        "against the same training that does not wait",
        command="python benchmarks/durability.py",
        figures=(
            Figure(
                name="rounds per second durable / not durable",
                observed=with_fsync / without,
                at_least=AT_LEAST,
                samples=2 * turns,
            ),
            Figure(name="durable", observed=with_fsync, unit="rounds/s", samples=turns),
            Figure(name="not durable", observed=without, unit="rounds/s", samples=turns),
            *costs,
        ),
        rows=tuple(rows),
        place=place,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--folder", type=Path, help="where the state is put; a temporary folder")
    add_options(parser)
    options = parser.parse_args()
    if options.turns < 1:
        parser.error("--turns is at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
