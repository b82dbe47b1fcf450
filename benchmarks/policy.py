"""Speed of the syncer's policy: inputs per second with many learners and fragments.

    python benchmarks/policy.py [--learners 64] [--steps 200] [--repeat 5] [--json] [--no-fail]

    simulated training ─► its calls of the policy, recorded ─► the same calls again, timed

An input is a learner's report or push, with the `advance` and `next_s` that follow it as in the
syncer's program. The same is done for a small training right before; the ratio of the two times for
an input says how much it depends on the number of learners and fragments. Processor time of one
thread.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from statistics import median
from time import process_time

from figures import Cell, Figure, MachineLoad, Result, add_options, finish
from simulated_training import Scenario, Simulation

from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.policy import Policy

INPUTS_PER_S_TARGET = 100_000
RATIO_TARGET = 3.0
"""Most time for an input, as a multiple of that in the small training."""
SMALL = Settings(learners=("a", "b", "c", "d"), fragments=6, sync_every=24)
METHODS = (
    "hello", "seeded", "progress", "offer", "accept", "reject_answer", "advance", "next_s",
    "rounds.published",
)  # fmt: skip
"""What a simulated training calls."""
INPUTS = ("progress", "offer")

Call = tuple[str, tuple[object, ...]]


def main() -> int:
    """Measure and print; the exit code says whether the targets are met."""
    options = _options()
    load = MachineLoad()
    large = _large(options)
    calls = {settings: recorded(settings, options.steps) for settings in (SMALL, large)}
    seconds: dict[Settings, list[float]] = {SMALL: [], large: []}
    ratios = []
    for _ in range(options.repeat):
        for settings, made in calls.items():
            inputs = sum(name in INPUTS for name, _ in made)
            seconds[settings].append(timed(settings, made) / inputs)
        ratios.append(seconds[large][-1] / seconds[SMALL][-1])
    return finish([_result(options, seconds, ratios, load.place())], options)


def _result(
    options: argparse.Namespace,
    seconds: Mapping[Settings, Sequence[float]],
    ratios: Sequence[float],
    place: Mapping[str, Cell],
) -> Result:
    what = f"{options.learners} learners and {options.fragments} fragments"
    return Result(
        number=13,
        name="policy",
        what=f"inputs of the policy with {what}, against 4 learners and 6 fragments",
        command="python benchmarks/policy.py",
        figures=(
            Figure(
                name=f"inputs per second, {what}",
                observed=1 / median(seconds[_large(options)]),
                at_least=INPUTS_PER_S_TARGET,
                samples=options.repeat,
            ),
            Figure(
                name="time for an input / with 4 learners and 6 fragments",
                observed=median(ratios),
                at_most=RATIO_TARGET,
                samples=options.repeat,
            ),
        ),
        rows=tuple(
            {
                "learners": len(settings.learners),
                "fragments": settings.fragments,
                "microseconds for an input": 1e6 * median(times),
            }
            for settings, times in seconds.items()
        ),
        place=place,
    )


def _large(options: argparse.Namespace) -> Settings:
    names = tuple(f"learner-{index}" for index in range(options.learners))
    return Settings(learners=names, fragments=options.fragments, sync_every=24)


def recorded(settings: Settings, steps: int) -> list[Call]:
    """The calls of the policy in a simulated training."""
    policy, calls = Policy(settings), list[Call]()

    def recording(name: str, method: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            calls.append((name, arguments))
            return method(*arguments)

        return call

    for name in METHODS:
        owner, _, own_name = name.rpartition(".")
        part = getattr(policy, owner) if owner else policy
        setattr(part, own_name, recording(name, getattr(part, own_name)))
    Simulation(Scenario(settings=settings, steps=steps), policy).run()
    return calls


def timed(settings: Settings, calls: Sequence[Call]) -> float:
    """Processor seconds that a new policy takes for these calls."""
    policy = Policy(settings)
    methods = {name: attrgetter(name)(policy) for name in METHODS}
    bound = [(methods[name], arguments) for name, arguments in calls]
    start_s = process_time()
    for method, arguments in bound:
        method(*arguments)
    return process_time() - start_s


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--learners", type=int, default=64)
    parser.add_argument("--fragments", type=int, default=24)
    parser.add_argument("--steps", type=int, default=200, help="steps of each learner")
    parser.add_argument("--repeat", type=int, default=5)
    add_options(parser)
    options = parser.parse_args()
    if min(options.learners, options.fragments, options.steps, options.repeat) < 1:
        parser.error("all sizes must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
