"""Optimizers of the training under test: the outer one of the syncer, the inner one of learners.

inner: {lr: 0.012, batch: 8}        outer: {lr: 0.5, momentum: 0.5}
"""

from collections.abc import Iterator
from dataclasses import dataclass

from chaoslab.core.errors import PlanError
from chaoslab.core.units import Share
from chaoslab.plan.model.rules import broken, refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    """Outer optimizer of the syncer: SGD with Nesterov momentum.

    Defaults are measured for nano, those of `inner` as well (`experiments/learning_rates`).
    """

    lr: float = 0.5
    """Learning rate of the outer steps."""
    momentum: float = 0.5
    """Nesterov momentum of the outer steps."""

    def __post_init__(self) -> None:
        refuse(self._mistakes())

    def _mistakes(self) -> Iterator[PlanError]:
        yield from broken(self.lr > 0, "lr", self.lr, "above 0")
        yield from broken(
            0 <= self.momentum < 1, "momentum", self.momentum, "at least 0 and below 1"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """AdamW of the learners with warm-up and cosine decay to `final_share` of `lr`."""

    lr: float = 12e-3
    """Learning rate at its peak."""
    warmup_steps: int = 50
    """Steps from zero to `lr`."""
    decay_steps: int | None = None
    """Steps until the learning rate is at `final_share`; default: those that `stop` stands for, or
    5,000 where that is not known."""
    final_share: Share = 0.1
    """Learning rate at the end of the cosine, as a share of `lr`."""
    weight_decay: float = 0.1
    """Applied to tensors of two or more axes."""
    batch: int = 8
    """Sequences per learner and step; also without this key it wins over the default of a task's
    make(batch)."""
    sequence: int = 128
    """Tokens per sequence; bytes in the built-in models. A task gets it as it gets `batch`."""

    def __post_init__(self) -> None:
        refuse(self._mistakes())

    def _mistakes(self) -> Iterator[PlanError]:
        yield from broken(self.lr > 0, "lr", self.lr, "above 0")
        yield from broken(self.warmup_steps >= 0, "warmup_steps", self.warmup_steps, "at least 0")
        if self.decay_steps is not None:
            yield from broken(self.decay_steps >= 1, "decay_steps", self.decay_steps, "at least 1")
            yield from broken(
                self.decay_steps < 1 or self.warmup_steps < self.decay_steps,
                "warmup_steps",
                self.warmup_steps,
                f"below `decay_steps`, which is {self.decay_steps}",
            )
        yield from broken(
            0 <= self.final_share <= 1, "final_share", f"{self.final_share:.0%}", "0% to 100%"
        )
        yield from broken(self.weight_decay >= 0, "weight_decay", self.weight_decay, "at least 0")
        yield from broken(self.batch >= 1, "batch", self.batch, "at least 1")
        yield from broken(self.sequence >= 1, "sequence", self.sequence, "at least 1")
