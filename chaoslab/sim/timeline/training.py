"""Training over links between data centres, as frozen settings: what is sent, when, and how."""

import math
from dataclasses import dataclass
from enum import StrEnum

from chaoslab.core import units
from chaoslab.core.errors import PlanError
from chaoslab.core.units import Duration, Share

GBIT = 1e9 / 8
"""Bytes per second."""


class Method(StrEnum):
    """Exchange between learners, and whether they wait for it."""

    DATA_PARALLEL = "data_parallel"
    """The gradient of the whole model in every step."""
    DILOCO = "diloco"
    """The whole model every `sync_every` steps."""
    STREAMING = "streaming"
    """Each fragment every `sync_every` steps, one after the other."""
    DECOUPLED = "decoupled"
    """The same as `streaming`, through a syncer, and no learner waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A training with one learner in each data centre."""

    method: Method
    """Exchange between learners. `data_parallel`: the gradient in every step. `diloco`: the whole
    model every `sync_every` steps. `streaming`: each fragment every `sync_every` steps.
    `decoupled`: as `streaming`, through a syncer, and no learner waits."""
    parameters: units.Count
    """Parameters of the model."""
    step_s: Duration
    """Time of one step without any transfer."""
    layers: int = 1
    """Layers, all of the same size: their gradients are ready one after the other."""
    centres: int = 2
    """Data centres, with one learner in each."""
    latency_s: Duration = 0.0
    """One-way latency between a learner and the next one or the syncer."""
    sync_every: int = 100
    """H: steps between two transfers of the same parameters; `data_parallel` sends in each step."""
    fragments: int = 0
    """P: parts of the model that are sent one after the other; 0: one for every `fragment_layers`
    layers. Only for `streaming` and `decoupled`."""
    fragment_layers: int = 3
    """Layers of a fragment, spread over the depth of the model."""
    overlap: int = 0
    """Steps that learners make while a transfer is under way."""
    bits: float = 16.0
    """Bits of one parameter or gradient that a learner sends."""
    merged_bits: float = 16.0
    """Bits of one parameter from the syncer; without a syncer, `bits` counts both ways."""
    sent_share: Share = 1.0
    """Share of the parameters that is sent."""
    syncer: bool = False
    """Whether learners send to a syncer and back, as whole messages between two steps; if not, all
    data centres reduce layer by layer in a ring. With `decoupled` always."""
    merge_s: Duration = 0.0
    """Time from the last push to the publication, at the syncer."""

    def __post_init__(self) -> None:
        _require(self.step_s > 0, "step", "above 0", self.step_s)
        _require(self.parameters >= 1, "parameters", "at least 1", self.parameters)
        _require(1 <= self.layers <= 10_000, "layers", "1 to 10,000", self.layers)
        _require(2 <= self.centres <= 10_000, "centres", "2 to 10,000", self.centres)
        _require(0 < self.bits <= 64, "bits", "above 0 and at most 64", self.bits)
        _require(0 < self.merged_bits <= 64, "merged_bits", "above 0 and at most 64",
                 self.merged_bits)  # fmt: skip
        _require(0 < self.sent_share <= 1, "sent_share", "above 0% and at most 100%",
                 units.show_share(self.sent_share))  # fmt: skip
        _require(1 <= self.sync_every <= 100_000, "sync_every", "1 to 100,000", self.sync_every)
        _require(self.fragment_layers >= 1, "fragment_layers", "at least 1", self.fragment_layers)
        most = self.period
        _require(self.fragments >= 0, "fragments", "at least 0", self.fragments)
        _require(self.parts <= most, "fragments", f"at most {most}, one for each step", self.parts)
        if self.fragments and not self.through_syncer:
            _require(self.fragments <= self.layers, "fragments", f"at most {self.layers}, the "
                     "layers", self.fragments)  # fmt: skip
        _require(0 <= self.overlap < most, "overlap", f"0 to {most - 1}, less than the steps "
                 "between two transfers", self.overlap)  # fmt: skip

    @property
    def through_syncer(self) -> bool:
        """Whether learners send to a syncer; if not, they reduce in a ring."""
        return self.syncer or self.method is Method.DECOUPLED

    @property
    def period(self) -> int:
        """Steps between two transfers of the same parameters."""
        return 1 if self.method is Method.DATA_PARALLEL else self.sync_every

    @property
    def parts(self) -> int:
        """Fragments that are sent one after the other within a period."""
        if self.method in {Method.DATA_PARALLEL, Method.DILOCO}:
            return 1
        return self.fragments or math.ceil(self.layers / self.fragment_layers)

    @property
    def sent_bytes(self) -> float:
        """Bytes of the whole model, as a learner sends it."""
        return self.parameters * self.sent_share * self.bits / 8

    @property
    def merged_bytes(self) -> float:
        """Bytes of the whole model, as the syncer sends it."""
        return self.parameters * self.sent_share * self.merged_bits / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of a training over links of one bandwidth."""

    utilisation: float
    """Share of the time in which learners compute."""
    rounds: float
    """Share of the planned transfers that were made; below 1 only where no learner waits."""
    step_s: float
    """Mean time of a step, with what learners wait."""


def _require(is_right: bool, key: str, allowed: str, given: float | str) -> None:
    if not is_right:
        raise PlanError(f"must be {allowed}, got {given}", key=key)
