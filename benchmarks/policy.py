"""Speed of the syncer's policy: inputs per second with many learners and fragments.

    python benchmarks/policy.py [--learners 64] [--rounds 200] [--repeat 5] [--json] [--no-fail]

    simulated run ─► its calls of the policy, recorded ─► the same calls again, timed

An input is a learner's report or push, with the `advance` and `next_s` that follow it as in the
syncer's program. The same is done for a small training right before; the ratio of the two times for
an input says how much it depends on the number of learners and fragments. Processor time of one
thread.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from operator import attrgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from unittest.mock import patch

from figures import Cell, Figure, MachineLoad, Result, add_options, finish

from chaoslab.cli.main import main as main_command
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.policy import Policy

INPUTS_PER_S_TARGET = 100_000
RATIO_TARGET = 3.0
"""Most time for an input, as a multiple of that in the small training."""
METHODS = (
    "hello", "seeded", "progress", "offer", "accept", "decline", "reject_answer", "closed",
    "advance", "next_s", "rounds.published",
)  # fmt: skip
"""What a syncer calls in a run without faults."""
INPUTS = ("progress", "offer")

PLAN = """
version: 1
name: policy
training:
  learners: {learners}
  model: micro
  fragments: {fragments}
  sync_every: 24
  stop: {{rounds: {rounds}}}
"""
Call = tuple[str, tuple[object, ...], dict[str, object]]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What one run called."""

    learners: int
    fragments: int
    settings: Settings
    calls: Sequence[Call]


def main() -> int:
    """Measure and print; the exit code says whether the targets are met."""
    options = _options()
    load = MachineLoad()
    small = recorded(4, 6, options.rounds)
    large = recorded(options.learners, options.fragments, options.rounds)
    times: dict[int, list[float]] = {small.learners: [], large.learners: []}
    for _ in range(options.repeat):
        for run in (small, large):
            inputs = sum(name in INPUTS for name, *_ in run.calls)
            times[run.learners].append(timed(run) / inputs)
    return finish([_result((small, large), times, load.place())], options)


def _result(
    runs: tuple[Recorded, Recorded],
    times: Mapping[int, Sequence[float]],
    place: Mapping[str, Cell],
) -> Result:
    small, large = runs
    what = f"{large.learners} learners and {large.fragments} fragments"
    pairs = zip(times[large.learners], times[small.learners], strict=True)
    repeats = len(times[large.learners])
    return Result(
        number=13,
        name="policy",
        what=f"inputs of the policy with {what}, against 4 learners and 6 fragments",
        command="python benchmarks/policy.py",
        figures=(
            Figure(
                name=f"inputs per second, {what}",
                observed=1 / median(times[large.learners]),
                at_least=INPUTS_PER_S_TARGET,
                samples=repeats,
            ),
            Figure(
                name="time for an input / with 4 learners and 6 fragments",
                observed=median(ours / theirs for ours, theirs in pairs),
                at_most=RATIO_TARGET,
                samples=repeats,
            ),
        ),
        rows=tuple(
            {
                "learners": run.learners,
                "fragments": run.fragments,
                "microseconds for an input": 1e6 * median(times[run.learners]),
            }
            for run in runs
        ),
        place=place,
    )


def recorded(learners: int, fragments: int, rounds: int) -> Recorded:
    """The calls of the policy in a simulated run without faults."""
    made: list[Policy] = []
    calls: list[Call] = []

    def recording(name: str, method: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            calls.append((name, arguments, named))
            return method(*arguments, **named)

        return call

    def policy(settings: Settings) -> Policy:
        made.append(one := Policy(settings))
        for name in METHODS:
            owner, _, own_name = name.rpartition(".")
            part = getattr(one, owner) if owner else one
            setattr(part, own_name, recording(name, getattr(part, own_name)))
        return one

    with TemporaryDirectory(prefix="chaoslab-benchmark-") as name:
        plan = Path(name, "plan.yaml")
        plan.write_text(PLAN.format(learners=learners, fragments=fragments, rounds=rounds))
        patched = patch("chaoslab.sim.syncer.Policy", policy)
        with patched, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            main_command(
                ["run", str(plan), "--fleet", "sim", "--quiet", "--out", name],
                standalone_mode=False,
            )
    (one,) = made
    return Recorded(learners, fragments, one.settings, calls)


def timed(run: Recorded) -> float:
    """Processor seconds that a new policy takes for these calls."""
    policy = Policy(run.settings)
    methods = {name: attrgetter(name)(policy) for name in METHODS}
    bound = [(methods[name], arguments, named) for name, arguments, named in run.calls]
    start_s = process_time()
    for method, arguments, named in bound:
        method(*arguments, **named)
    return process_time() - start_s


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--learners", type=int, default=64)
    parser.add_argument("--fragments", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=5)
    add_options(parser)
    options = parser.parse_args()
    if min(options.learners, options.fragments, options.rounds, options.repeat) < 1:
        parser.error("all sizes must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
