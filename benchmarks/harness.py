"""Benchmarks of the harness: its cost and its timing, from real runs of a nano model.

    python benchmarks/harness.py [--only 3,5] [--json] [--no-fail]

    3 step time   in the harness, compared with the same learner without it (step_time)
    4 injection   requested time and actual time; two targets of one fault  (injection)
    5 rejoin      kill to first accepted contribution, minus the outage     (kills)
    6 survivors   longest pause around a kill, in steps                     (kills)

Each takes minutes of real training in a temporary folder. Exit code 1 if a target is missed.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

import injection
import kills
import step_time
from figures import Result, add_options, finish
from trainings import BenchmarkError

_MEASURES: dict[tuple[int, ...], Callable[[], Sequence[Result]]] = {
    (3,): lambda: [step_time.measure()],
    (4,): lambda: [injection.measure()],
    (5, 6): kills.measure,
}
"""Functions by the numbers of the benchmarks that they measure."""


def main() -> int:
    """Measure what was asked for and print it; the exit code says whether all targets are met."""
    options = _options()
    results: list[Result] = []
    for numbers, measure in _MEASURES.items():
        if options.only & set(numbers):
            try:
                measured = measure()
            except BenchmarkError as error:
                print(f"not measured: {error}", file=sys.stderr)
                return 2
            results += [result for result in measured if result.number in options.only]
    return finish(results, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="example: python benchmarks/harness.py --only 5,6",
    )
    known = frozenset(number for numbers in _MEASURES for number in numbers)
    parser.add_argument(
        "--only", type=_numbers, default=known, metavar="3,5", help="only these numbers"
    )
    add_options(parser)
    options = parser.parse_args()
    if unknown := options.only - known:
        parser.error(f"--only knows {sorted(known)}, not {sorted(unknown)}")
    return options


def _numbers(given: str) -> frozenset[int]:
    return frozenset(int(word) for word in given.split(","))


if __name__ == "__main__":
    sys.exit(main())
