"""The run under test: which training, by how many learners, by which rules, and where it ends.

How it becomes command lines of the nodes is `launch`'s affair.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from chaoslab.errors import PlanError
from chaoslab.units import Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Grace:
    """The adaptive grace window: gamma times the slack, at most `max_steps` step times."""

    gamma: float = 0.8
    max_steps: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    """The syncer's outer optimizer: SGD with Nesterov momentum."""

    lr: float = 0.7
    momentum: float = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """The learners' AdamW with warm-up and cosine decay to `final_share` of `lr`."""

    lr: float = 3e-3
    warmup_steps: int = 50
    decay_steps: int = 5000
    final_share: float = 0.1
    weight_decay: float = 0.1
    batch: int = 8
    """Sequences per learner and step."""
    sequence: int = 128
    """Tokens per sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where training ends; whichever comes first. At least one is given.

    A run with faults goes on beyond it until they are over, however fast the machine is.
    """

    rounds: int | None = None
    tokens: Count | None = None
    """Committed tokens."""
    steps: int | None = None
    """Of the furthest learner."""
    time_s: float | None = None
    loss: float | None = None

    def __post_init__(self) -> None:
        values = (self.rounds, self.tokens, self.steps, self.time_s, self.loss)
        if all(value is None for value in values):
            raise PlanError("`stop` needs at least one of rounds, tokens, steps, time, loss")
        if any(value is not None and value <= 0 for value in values):
            raise PlanError("every limit under `stop` is above zero")


class Algorithm(StrEnum):
    """Which training runs. Streaming is decoupled with K = M; diloco also P = 1, no overlap."""

    DECOUPLED = "decoupled"
    STREAMING = "streaming"
    DILOCO = "diloco"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The run under test. Defaults are measured for two shared cores."""

    algorithm: Algorithm = Algorithm.DECOUPLED
    learners: int = 4
    model: str = "nano"
    task: str | None = None
    """package.module:make, in place of `model`."""
    data: str = "stdlib"
    fragments: int = 6
    sync_every: int = 24
    overlap: int = 2
    quorum: int = 1
    grace: Grace = field(default_factory=Grace)
    merge: Literal["rda", "average"] = "rda"
    outer: Outer = field(default_factory=Outer)
    inner: Inner = field(default_factory=Inner)
    compression: Literal["f32", "bf16", "int8", "int4"] = "int8"
    suspect_after_s: float = 2.0
    """No step for this long (or twenty of its own steps): nobody waits for the learner."""
    drop_after_s: float = 6.0
    """No step for this long: it is no longer a member and must register again."""
    evaluate_every: Count | None = None
    """Committed tokens between two snapshots for evaluation; default: `stop.tokens` / 10."""
    stop: Stop = field(default_factory=lambda: Stop(rounds=120))

    def __post_init__(self) -> None:
        if self.learners < 1:
            raise PlanError("`training.learners` is at least 1")
        if not 1 <= self.quorum <= self.learners:
            raise PlanError(
                f"`training.quorum` is {self.quorum}, but there are {self.learners} learners: "
                f"use 1 to {self.learners}"
            )
        if self.sync_every < 1 or self.fragments < 1 or self.overlap < 0:
            raise PlanError("`sync_every` and `fragments` are at least 1, `overlap` at least 0")
        if self.overlap >= self.sync_every and self.sync_every > 1:
            raise PlanError("`overlap` is smaller than `sync_every`")
        if self.suspect_after_s >= self.drop_after_s:
            raise PlanError("`suspect_after` is shorter than `drop_after`")

    @property
    def learner_names(self) -> tuple[str, ...]:
        """learner-0, learner-1, …"""
        return tuple(f"learner-{index}" for index in range(self.learners))
