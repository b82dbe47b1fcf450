"""Speed of the syncer's merge, compared with a memory copy of the same bytes.

    python benchmarks/merge.py [--learners 8] [--floats 16000000] [--repeat 9] [--json] [--no-fail]

Each subject is measured right after a copy; its ratio is its rate over the rate of that copy, and
the median over the repeats is shown. Rates count input bytes. The copy is `np.copyto` of all deltas
into existing arrays; `merge … into a buffer` writes into an existing array too, the other rows
allocate their result. One thread everywhere.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np
from figures import Cell, Figure, MachineLoad, Result, add_options, finish

from chaoslab.diloco.model.fragments import FloatArray, Fragment, Layout, TensorSpec
from chaoslab.diloco.syncer.merge import Method, OuterState, merge, outer_step

RATIO_TARGET = 0.5
"""Least rate of `merge rda` as a share of the copy's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A function to time; `input_bytes` are the bytes that it reads at least once."""

    name: str
    input_bytes: int
    call: Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Medians over the repeats: rate in bytes per second, and ratio to the copy."""

    name: str
    seconds: float
    gigabytes_per_s: float
    ratio_to_copy: float


def main() -> int:
    """Measure and print; the exit code says whether the target is met."""
    options = _options()
    load = MachineLoad()
    fragment = _fragment(options.floats, options.tensors)
    generator = np.random.default_rng(0)
    deltas = [
        generator.standard_normal(options.floats, dtype=np.float32) for _ in range(options.learners)
    ]
    copy, *subjects = _subjects(deltas, fragment)
    measurements = _measure(copy, subjects, options.repeat)
    return finish([_result(options, measurements, load.place())], options)


def _result(
    options: argparse.Namespace, measurements: list[Measurement], place: Mapping[str, Cell]
) -> Result:
    return Result(
        number=2,
        name="merge",
        what=f"merging a fragment of {options.floats:,} floats from {options.learners} learners, "
        "against a memory copy of the same bytes",
        command="python benchmarks/merge.py",
        figures=tuple(
            Figure(
                name=f"rate of {row.name} / of a copy",
                observed=row.ratio_to_copy,
                at_least=RATIO_TARGET if row.name.startswith("merge rda") else None,
                samples=options.repeat,
            )
            for row in measurements[1:]
        ),
        rows=tuple(
            {
                "subject": row.name,
                "seconds": row.seconds,
                "GB/s of input": row.gigabytes_per_s,
                "ratio to copy": row.ratio_to_copy,
            }
            for row in measurements
        ),
        place=place,
    )


def _subjects(deltas: list[FloatArray], fragment: Fragment) -> list[Subject]:
    """What is timed; the copy is the first."""
    total_bytes = sum(delta.nbytes for delta in deltas)
    weights = [float(1 + index) for index in range(len(deltas))]
    copies = [np.ones_like(delta) for delta in deltas]
    out = np.ones(fragment.size, np.float32)
    state = OuterState(theta=out.copy(), momentum=out.copy())

    def copy() -> None:
        for source, target in zip(deltas, copies, strict=True):
            np.copyto(target, source)

    def merging(method: Method, into: FloatArray | None) -> Callable[[], object]:
        return lambda: merge(deltas, weights, fragment, method, out=into)

    return [
        Subject(name="copy", input_bytes=total_bytes, call=copy),
        Subject(
            name="merge rda into a buffer",
            input_bytes=total_bytes,
            call=merging(Method.RDA, out),
        ),
        Subject(name="merge rda", input_bytes=total_bytes, call=merging(Method.RDA, None)),
        Subject(name="merge average", input_bytes=total_bytes, call=merging(Method.AVERAGE, None)),
        Subject(
            name="outer_step",
            input_bytes=3 * out.nbytes,
            call=lambda: outer_step(state, deltas[0], 0.7, 0.9),
        ),
    ]


def _measure(copy: Subject, subjects: list[Subject], repeat: int) -> list[Measurement]:
    """Measurements, the copy's first; one unmeasured round warms caches and allocators."""
    rates: dict[str, list[float]] = {subject.name: [] for subject in (copy, *subjects)}
    ratios: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for subject in (copy, *subjects):
        subject.call()
    for _ in range(repeat):
        for subject in subjects:
            copy_rate, rate = _rate(copy), _rate(subject)
            rates[copy.name].append(copy_rate)
            rates[subject.name].append(rate)
            ratios[subject.name].append(rate / copy_rate)
    return [
        Measurement(
            name=subject.name,
            seconds=subject.input_bytes / median(rates[subject.name]),
            gigabytes_per_s=median(rates[subject.name]) / 1e9,
            ratio_to_copy=median(ratios.get(subject.name, [1.0])),
        )
        for subject in (copy, *subjects)
    ]


def _rate(subject: Subject) -> float:
    """Input bytes per second of one call."""
    start_s = perf_counter()
    subject.call()
    return subject.input_bytes / (perf_counter() - start_s)


def _fragment(floats: int, tensors: int) -> Fragment:
    sizes = [len(part) for part in np.array_split(np.empty(floats, np.bool_), tensors)]
    specs = [
        TensorSpec(name=f"tensor-{index:03d}", shape=(size,), is_averaged=False)
        for index, size in enumerate(sizes)
    ]
    return Layout.balance(specs, 1).fragments[0]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--learners", type=int, default=8)
    parser.add_argument("--floats", type=int, default=16_000_000, help="floats of the fragment")
    parser.add_argument("--tensors", type=int, default=8, help="tensors in the fragment")
    parser.add_argument("--repeat", type=int, default=9)
    add_options(parser)
    options = parser.parse_args()
    if min(options.learners, options.repeat, options.tensors) < 1:
        parser.error("--learners, --repeat and --tensors are at least 1")
    if options.floats < options.tensors:
        parser.error("--floats is at least --tensors: a tensor has at least one float")
    return options


if __name__ == "__main__":
    sys.exit(main())
