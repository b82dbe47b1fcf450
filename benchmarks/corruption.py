"""What finite corruption of one learner costs, and what shows it.

    python benchmarks/corruption.py [--rounds 84] [--only WORD]

    a training of 3 learners in one process and in virtual time, for each row: the first learner's
    state is corrupted in place, once in mid-training or after each step ─► a line of the table

Once: after step 240. Loss: held-out, of the global parameters in the end. Cosine: the lowest mean
of 12 consecutive contributions of the first learner, of all fragments or of one, as `real_work`
looks at them. Found: what `real_work` says of it; by losses it may find more.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import cast

from figures import Cell, table
from one_process import Measured, decoupled

from chaoslab.checks.update_vectors import misdirected_pushes
from chaoslab.core.events import Event, Json, Kind
from chaoslab.diloco.learner.exchange import Snapshot
from chaoslab.diloco.learner.inner_steps import Inner, InnerSettings, LearnerState
from chaoslab.diloco.learner.replica import Replica
from chaoslab.diloco.model.load import load
from chaoslab.diloco.model.task import Batch
from chaoslab.diloco.settings import Settings
from chaoslab.record.history import History
from chaoslab.selftest.mutants.replica import flip_moments, flip_parameters, flip_updates

ONCE_AT_STEP = 240
LEARNERS = ("learner-0", "learner-1", "learner-2")
WINDOW = 12

Corrupt = Callable[[Inner, LearnerState, LearnerState], LearnerState]
"""From the state before a step and that after it."""


def parameters(fragments: Sequence[int], share: float) -> Corrupt:
    """The signs of a share of these fragments."""

    def corrupt(inner: Inner, _: LearnerState, after: LearnerState) -> LearnerState:
        for fragment in fragments:
            after = flip_parameters(inner, after, fragment, share=share)
        return after

    return corrupt


def updates(fragments: Sequence[int], share: float) -> Corrupt:
    """What a step does to a share of these fragments."""

    def corrupt(inner: Inner, before: LearnerState, after: LearnerState) -> LearnerState:
        for fragment in fragments:
            after = flip_updates(inner, before, after, fragment, share=share)
        return after

    return corrupt


def moments(inner: Inner, _: LearnerState, after: LearnerState) -> LearnerState:
    """All first moments."""
    return flip_moments(inner, after)


def replica_of(corrupt: Corrupt, *, is_always: bool) -> type[Replica]:
    """A replica whose state is corrupted after its steps, or after one."""

    class Corrupted(Replica):
        async def step(self, batch: Batch) -> None:
            before = self._state
            await super().step(batch)
            if is_always or self.counters.step == ONCE_AT_STEP:
                self._state = corrupt(cast("Inner", self._inner), before, self._state)

    return Corrupted


def always(corrupt: Corrupt) -> type[Replica]:
    """After each step."""
    return replica_of(corrupt, is_always=True)


def once(corrupt: Corrupt) -> type[Replica]:
    """After one step in mid-training."""
    return replica_of(corrupt, is_always=False)


class Turned(Replica):
    """Pushes each update with the wrong sign, and trains on soundly."""

    def snapshot(self) -> Snapshot:
        held = super().snapshot()
        return held._replace(delta=lambda fragment: -held.delta(fragment))


ALL = range(Settings().fragments)
ROWS: Mapping[str, type[Replica]] = {
    "nothing": Replica,
    "each push": Turned,
    "parameters of one fragment, once": once(parameters([1], 1.0)),
    "a tenth of one fragment, once": once(parameters([1], 0.1)),
    "first moments after each step": always(moments),
    "first moments, once": once(moments),
    "each step": always(updates(ALL, 1.0)),
    "each step, in half of the values": always(updates(ALL, 0.5)),
    "each step, in a quarter of the values": always(updates(ALL, 0.25)),
    "each step, in one fragment": always(updates([1], 1.0)),
}
"""What changes its sign."""


def lowest_cosine(done: Measured) -> float:
    """Lowest mean of a window of the first learner, of all fragments and of each."""
    given = [
        (merge.fragment, one.cosine)
        for merge in done.merges
        for one in merge.contributions
        if one.learner == LEARNERS[0] and one.cosine is not None
    ]
    series = [[cosine for _, cosine in given]]
    series += [[cosine for index, cosine in given if index == fragment] for fragment in ALL]
    means = [
        fmean(own[end - WINDOW : end]) for own in series for end in range(WINDOW, len(own) + 1)
    ]
    return min(means)


def is_misdirected(done: Measured) -> bool:
    """Whether `real_work` would name the first learner, and nobody else."""
    told: list[tuple[Kind, dict[str, Json]]] = [(Kind.RUN_STARTED, {"learners": list(LEARNERS)})]
    for merge in done.merges:
        given: list[Json] = [asdict(one) for one in merge.contributions]
        data: dict[str, Json] = {
            "round": merge.round, "fragment": merge.fragment, "contributors": given,
            "version": merge.base_version + 1,
        }  # fmt: skip
        told.append((Kind.ROUND_MERGED, data))
    events = [
        Event(seq=seq, time_s=float(seq), source="syncer", kind=kind, data=data)
        for seq, (kind, data) in enumerate(told)
    ]
    return {one.culprit for one in misdirected_pushes(History(events))} == {LEARNERS[0]}


def rows(options: argparse.Namespace) -> Iterator[list[Cell]]:
    """A training each."""
    task = load("nano", batch=4, sequence=64)
    inner = Inner(task, InnerSettings())
    settings = Settings(learners=LEARNERS, stop_rounds=options.rounds)
    for name, first in ROWS.items():
        if options.only in name:
            done = decoupled(task, inner, settings, seed=1, first=first)
            found = ["misdirected_push"] if is_misdirected(done) else []
            found += ["oversized_push"] if done.bounded else []
            yield [name, round(done.loss, 3), round(lowest_cosine(done), 2), ", ".join(found)]


def main() -> int:
    """Train and print the table, line by line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=84, help="rounds of each training")
    parser.add_argument("--only", default="", help="the rows whose name contains this")
    found = []
    for row in rows(parser.parse_args()):
        print(*row, sep=" | ", file=sys.stderr, flush=True)
        found.append(row)
    print(table(["flipped in learner-0", "loss", "lowest cosine", "found"], found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
