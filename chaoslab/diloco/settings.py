"""Settings of a training that syncer and learners share; learners get them in Welcome.

Defaults follow arXiv 2604.21428 where it publishes them (P = 24 and H = 24 there; P is smaller here
because the preset models are small). Outer learning rate and momentum are not published; they were
measured for this project, together with the inner rate (`experiments/learning_rates/`).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Literal

_CHOICES = {
    "contribute": ("all", "ready"),
    "data_parallel": ("off", "rigid", "elastic"),
    "merge": ("rda", "average"),
    "compression": ("f32", "bf16", "int8", "int4", "e3m0"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one training; ValueError if they contradict each other."""

    learners: tuple[str, ...] = ("learner-0", "learner-1", "learner-2", "learner-3")
    """The roster: names of the learners that may join."""
    fragments: int = 6
    """P: number of fragments that the model is cut into."""
    sync_every: int = 24
    """H: inner steps between two rounds of one fragment."""
    overlap: int = 2
    """tau: steps that learners make during a round; at most max(1, tau) rounds are open at once."""
    quorum: int = 1
    """K: learners that must be ready before a round begins, and must contribute before it ends."""
    contribute: Literal["all", "ready"] = "all"
    """Learners that a round pulls from: all that have made a step on the fragment, or only those
    that have made H - tau steps on it."""
    blocking: bool = False
    """Whether a learner waits for the next version of a fragment once it has made H steps on it, as
    in the synchronous algorithms."""
    data_parallel: Literal["off", "rigid", "elastic"] = "off"
    """Whether learners average their gradients in every step (`syncer.communicators`): rigid: K
    learners or none, which go back to the last version whenever one is lost; elastic: K at first,
    then those that are present. With one fragment, no overlap and `blocking`, a version is then a
    checkpoint."""
    gamma: float = 0.8
    """Share of the slack of a round that the grace window may use, 0 to 1."""
    grace_max_steps: float = 1.0
    spacing: float = 0.9
    """Least time between the beginnings of two rounds, as a share of the mean time between them,
    H steps / P. Below 1, so that fragments that are late catch up; 0: none."""
    merge: Literal["rda", "average"] = "rda"
    outer_lr: float = 0.5
    outer_momentum: float = 0.5
    blend: float = 0.0
    """alpha (Streaming DiLoCo, arXiv 2501.18512): share of its own trained values that a learner
    keeps when it adopts a version, at least 0 and below 1; 0: a version overwrites them."""
    compression: Literal["f32", "bf16", "int8", "int4", "e3m0"] = "int8"
    norm_limit: float | None = 8.0
    """A push whose norm is more than this many times the usual for its fragment is scaled down to
    the usual; None: never. See `norms`."""
    norm_rounds: int = 8
    """Rounds of a fragment after which its usual norm is known."""
    suspect_after_s: float = 2.0
    """A member is suspected (no longer waited for) after this long without a step, but not before
    20 of its own step times."""
    drop_after_s: float = 6.0
    """A member is dropped after this long without a step, but not before 60 of its own step
    times."""
    start_patience_s: float = 90.0
    """Allowed time from joining to the first step, which includes compilation; with `data_parallel`
    also that in which no learner of a communicator makes a step (or twenty of their steps)."""
    evaluate_every: int | None = None
    """Committed tokens between two snapshots of the global parameters; None: see
    `snapshots_kept`."""
    snapshots_kept: int | None = None
    """Without `evaluate_every`: keep this many to twice as many snapshots, evenly spread over the
    training. If both are None, only the last one is kept."""
    stop_rounds: int | None = None
    stop_tokens: int | None = None
    stop_steps: int | None = None
    stop_time_s: float | None = None
    stop_loss: float | None = None

    def __post_init__(self) -> None:
        if not self.learners or len(set(self.learners)) != len(self.learners):
            raise ValueError(
                f"learners: must be a list of different names, got {list(self.learners)}"
            )
        if self.fragments < 1 or self.sync_every < 1 or self.overlap < 0:
            raise ValueError("fragments, sync_every: must be at least 1; overlap: at least 0")
        if not 1 <= self.quorum <= len(self.learners):
            raise ValueError(f"quorum: must be 1 to {len(self.learners)}, got {self.quorum}")
        for key in ("gamma", "blend"):
            if not 0 <= getattr(self, key) < 1:
                raise ValueError(f"{key}: must be at least 0 and below 1, got {getattr(self, key)}")
        if not 0 <= self.spacing <= 1:
            raise ValueError(f"spacing: must be 0 to 1, got {self.spacing}")
        if (self.norm_limit is not None and self.norm_limit <= 1) or self.norm_rounds < 1:
            raise ValueError("norm_limit: must be above 1 or null; norm_rounds: at least 1")
        if not 0 < self.suspect_after_s < self.drop_after_s:
            raise ValueError("suspect_after_s: must be above 0 and below drop_after_s")
        if self.snapshots_kept is not None and self.snapshots_kept < 2:
            raise ValueError("snapshots_kept: must be at least 2 or null")
        self._refuse_modes()

    def _refuse_modes(self) -> None:
        """ValueError for a choice that is unknown, or that contradicts another setting."""
        for key, values in _CHOICES.items():
            if (value := getattr(self, key)) not in values:
                allowed = f"{', '.join(values[:-1])} or {values[-1]}"
                raise ValueError(f"{key}: must be {allowed}, got {value!r}")
        whole = (self.fragments, self.overlap, self.blend, self.blocking) == (1, 0, 0, True)
        if self.data_parallel != "off" and not whole:
            raise ValueError(
                "data_parallel: needs fragments 1, overlap 0, blend 0 and blocking true"
            )

    @property
    def steps_before_wait(self) -> int | None:
        """H: steps past the adoption of a fragment at which a learner waits; None: it never does.

        Its snapshot was taken tau steps before the adoption, so this is H + tau steps past that.
        """
        return self.sync_every if self.blocking else None

    def to_json(self) -> str:
        """All fields as one JSON object."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """Read `to_json` or a subset of it; ValueError names an unknown key or a wrong value."""
        try:
            given = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"settings: must be JSON: {error}") from error
        if not isinstance(given, dict):
            raise ValueError(f"settings: must be a JSON object, got {type(given).__name__}")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(given) - known):
            raise ValueError(f"settings: unknown keys {unknown}; known are {sorted(known)}")
        return cls(**_typed(given))


def _typed(given: Mapping[str, object]) -> dict[str, Any]:  # checked here, then passed by name
    kinds: dict[type, tuple[type, ...]] = {tuple: (list,), str: (str,), int: (int,), bool: (bool,)}
    defaults = {field.name: field.default for field in fields(Settings)}
    for key, value in given.items():
        wanted = kinds.get(type(defaults[key]), (int, float, type(None)))
        if (isinstance(value, bool) and wanted != (bool,)) or not isinstance(value, wanted):
            raise ValueError(f"{key}: must be {wanted[0].__name__}, got {value!r}")
    names = given.get("learners")
    if isinstance(names, list):
        return {**given, "learners": tuple(str(name) for name in names)}
    return dict(given)


class Source(StrEnum):
    """Source of a joining learner's parameters."""

    INITIAL = "initial"
    """No training yet: this learner sends the initial parameters."""
    DONOR = "donor"
    """Checkpoint of a healthy learner: global fragments, AdamW moments, data position."""
    SYNCER = "syncer"
    """The syncer's fragments, with fresh AdamW moments: no donor was available."""
    RESUMED = "resumed"
    """Its own state, which it kept; only newer fragments are sent."""


def learning_rate(
    step: int, *, lr: float, warmup_steps: int, decay_steps: int, final_share: float
) -> float:
    """Learning rate of a step, the first being 0: the schedule of `learner.inner_steps`.

    To six digits, as the last bits of a cosine differ between machines.
    """
    if step < warmup_steps:
        rate = lr * step / warmup_steps
    else:
        share = min(1.0, (step - warmup_steps) / (decay_steps - warmup_steps))
        rate = lr * (final_share + (1 - final_share) * (1 + math.cos(math.pi * share)) / 2)
    return float(f"{rate:.6g}")
