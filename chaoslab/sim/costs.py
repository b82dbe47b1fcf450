"""Costs of a simulation: what each piece of work takes, with the source of every default.

    defaults, each with its source ─┐
    costs.toml, some of them anew ──┴─► Costs ─► learners, syncer, links, disks of `sim`

A file has one line for each cost that differs, `start_s = 1.2`; `to_toml` writes all of them.
Times are means of undisturbed work on the node's own machine; `spread` is the standard deviation
of those of a learner, as a share of the mean. A table `[quantiles]` says how the work of a round
varies: `push_s = [0.001, 0.004, 0.03]`, from the shortest to the longest, half of it below 0.004.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

from chaoslab.core.errors import PlanError
from chaoslab.core.regular_files import read_written

Quantiles: TypeAlias = Mapping[str, Sequence[float]]
"""Ordered durations by cost; as many samples lie between any two neighbours."""
_KILL_HALF = "median of a real kill_half on two shared cores"
_STEP = "a nano step takes 38 ms while four learners share two cores, in a real kill_half; at 6 \
FLOP per parameter and token"
_KILLS = "benchmarks/results/kills.json"
_LAYOUT = "the codec: bytes per value, and what heads and scales add in a real kill_half"


def cost(default: float | None, source: str) -> Any:
    """A field with its default and where that comes from."""
    return field(default=default, metadata={"source": source})


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Costs of work, in seconds, bytes and bytes per second."""

    ABOVE_ZERO: ClassVar[frozenset[str]] = frozenset(
        {"flops_per_s", "step_s", "rate_bytes_per_s", "checkpoint_bytes", "norm", "save_s", "cores"}
    )
    """Costs that cannot be 0."""
    VARYING: ClassVar[frozenset[str]] = frozenset({"push_s", "merge_s", "store_s", "publish_s"})
    """Costs that may have quantiles: work of each round."""

    # -- a learner
    start_s: float = cost(0.656, f"{_KILLS}: process up")
    """From the start of a process to its first report."""
    compile_s: float = cost(0.219, f"{_KILLS}: from there to the first step, compiled before")
    """Compilation of all functions."""
    flops_per_s: float = cost(1.893e10, _STEP)
    """Speed of the chip of each host; a step takes 6 FLOP per parameter and token."""
    step_s: float | None = cost(None, "none: by `flops_per_s`")
    """Duration of a step whatever the model and the number of hosts; absent: by `flops_per_s`."""
    spread: float = cost(0.05, "benchmarks/results/step_time.json: between turns")
    """Spread of every duration of a learner."""
    push_s: float = cost(0.006, f"{_KILL_HALF}: from push to acceptance, less the decoding")
    """Copying a fragment from the device, and encoding it."""
    adopt_s: float = cost(0.001, f"{_KILL_HALF}: from publication to adoption, less half a step")
    """Decoding a published fragment."""
    pack_s: float = cost(0.005, f"{_KILL_HALF}: as a checkpoint to disk")
    """Packing a checkpoint for another learner."""
    save_s: float = cost(0.005, f"{_KILL_HALF}: checkpoint.saved")
    """Writing a checkpoint to disk, beside training."""
    leave_s: float = cost(0.17, f"{_KILL_HALF}: from learner.left to the exit")
    """From a learner's last report to the end of its process."""

    # -- the syncer
    syncer_start_s: float = cost(0.355, f"{_KILL_HALF}: to syncer.ready")
    """From the start of the syncer's process to its readiness, with an empty disk."""
    syncer_resume_s: float = cost(0.355, "as `syncer_start_s`")
    """The same, with a training on its disk that it continues."""
    decode_s: float = cost(0.002, f"{_KILL_HALF}: part of push to acceptance")
    """Decoding and examining a push; several at once."""
    merge_s: float = cost(0.0009, f"{_KILL_HALF}: from the last acceptance to the disk")
    """Merging a fragment, and the outer step."""
    store_s: float = cost(0.002, f"{_KILL_HALF}: round.stored")
    """Writing a merge to disk."""
    publish_s: float = cost(0.0011, f"{_KILL_HALF}: from the disk to round.merged")
    """Encoding a publication."""
    syncer_leave_s: float = cost(0.18, f"{_KILL_HALF}: from syncer.final to the exit")

    # -- the machine
    cores: float | None = cost(None, "none: each node has a machine of its own")
    """Cores of one machine for all nodes; absent: nodes take nothing from each other."""

    # -- links, and ends of processes
    latency_s: float = cost(0.000125, f"{_KILL_HALF}: half of probe_rtt_s")
    """One-way latency of a link without effects."""
    rate_bytes_per_s: float = cost(1e9, "raw sockets on loopback; a link is never the bottleneck")
    """Each way, of a link without effects."""
    connect_s: float = cost(0.05, f"{_KILL_HALF}: from checkpoint.found to link.opened")
    """Setting a connection up, beside a round trip."""
    exit_s: float = cost(0.04, f"{_KILL_HALF}: from SIGKILL to node.exited")
    """From a signal that ends a process to its end."""

    # -- the model
    norm: float = cost(0.54, f"{_KILL_HALF}: norm of a push by the root of its steps")
    up_bytes_share: float = cost(0.02, _LAYOUT)
    """Overhead of a push, as a share of the values."""
    checkpoint_bytes: float = cost(12.0, f"{_KILL_HALF}: checkpoint.saved")
    """Size of a checkpoint, for each parameter."""

    # -- evaluation
    evaluator_start_s: float = cost(0.48, f"{_KILL_HALF}: to its first report")
    evaluate_s: float = cost(0.024, f"{_KILL_HALF}: between two reports")
    """Evaluation of one snapshot."""

    quantiles: Quantiles = field(default_factory=dict)
    """Quantiles of costs in `VARYING`: drawn each time, in place of the mean."""

    def __post_init__(self) -> None:
        if not isinstance(self.quantiles, Mapping):
            raise PlanError(f"quantiles: must be a table, got {self.quantiles!r}")
        for name, values in self.quantiles.items():
            _check_quantiles(name, values)
        for one in self.each():
            value = getattr(self, one.name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise PlanError(f"{one.name}: must be a number, got {value!r}")
            is_possible = value > 0 if one.name in self.ABOVE_ZERO else value >= 0
            if not (is_possible and math.isfinite(value)):
                least = "above 0" if one.name in self.ABOVE_ZERO else "at least 0"
                raise PlanError(f"{one.name}: must be {least}, got {value!r}")

    @classmethod
    def each(cls) -> Sequence[Field[Any]]:
        """Costs of the file, without their quantiles."""
        return [one for one in fields(cls) if "source" in one.metadata]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The costs of a file; PlanError names the line or the key that is wrong."""
        try:
            given = tomllib.loads(read_written(path).decode("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise PlanError(f"costs {path}: cannot be read: {error}") from error
        known = {one.name for one in fields(cls)}
        if unknown := sorted(given.keys() - known):
            raise PlanError(
                f"costs {path}: {unknown[0]}: must be one of {', '.join(sorted(known))}"
            )
        try:
            return cls(**given)
        except PlanError as error:
            raise PlanError(f"costs {path}: {error.message}") from error

    def to_toml(self) -> str:
        """All costs with their sources, as `read` takes them."""
        lines = []
        for one in self.each():
            value = getattr(self, one.name)
            source = one.metadata["source"] if value == one.default else "given"
            lines.append(f"{'# ' if value is None else ''}{one.name} = {value!r}  # {source}")
        return "".join(f"{line}\n" for line in (*lines, *quantile_lines(self.quantiles)))

    def step_takes_s(self, parameters: int, tokens: int, *, chips: int = 1) -> float:
        """Mean duration of one step of a learner, with nothing lost between its chips."""
        if self.step_s is not None:
            return self.step_s
        return FLOP * parameters * tokens / (self.flops_per_s * chips)


def quantile_lines(quantiles: Quantiles) -> Sequence[str]:
    """Table of quantiles at the end of a file; no line without any."""
    lines = [f"{name} = {list(values)!r}" for name, values in quantiles.items()]
    return ["", "[quantiles]", *lines] if lines else []


def _check_quantiles(name: str, values: Sequence[float]) -> None:
    """PlanError for a cost that has none, or for what is not in order."""
    if name not in Costs.VARYING:
        raise PlanError(f"quantiles.{name}: must be one of {', '.join(sorted(Costs.VARYING))}")
    is_fine = (
        isinstance(values, Sequence)
        and len(values) > 1
        and all(type(value) in {int, float} and 0 <= value < math.inf for value in values)
        and all(low <= high for low, high in pairwise(values))
    )
    if not is_fine:
        raise PlanError(
            f"quantiles.{name}: must be two or more numbers from the least to the greatest, none "
            f"below 0, got {values!r}"
        )


FLOP = 6.0
"""Operations for each parameter and token of a training step (Kaplan et al., arXiv 2001.08361)."""
