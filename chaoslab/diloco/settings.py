"""What syncer and learners must agree on. The syncer is told once and passes it on in Welcome.

Defaults follow arXiv 2604.21428 where it publishes them (P = 24 and H = 24 there, P smaller here
because the preset models are small); outer learning rate and momentum are not published and are
measured for this project (`experiments/outer_optimizer/`).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Literal

from chaoslab.core.events import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The rules of one training; ValueError when they cannot work together."""

    learners: tuple[str, ...] = ("learner-0", "learner-1", "learner-2", "learner-3")
    """The roster: names that may join."""
    fragments: int = 6
    """P."""
    sync_every: int = 24
    """H: inner steps between two rounds of one fragment."""
    overlap: int = 2
    """tau: steps a round may take while the learners go on; at most max(1, tau) rounds at once."""
    quorum: int = 1
    """K: learners that must be ready before a round begins, and contribute before it ends."""
    gamma: float = 0.8
    """Share of the spare time that the grace window may use."""
    grace_max_steps: float = 1.0
    merge: Literal["rda", "average"] = "rda"
    outer_lr: float = 0.7
    outer_momentum: float = 0.6
    compression: Literal["f32", "bf16", "int8", "int4"] = "int8"
    norm_limit: float | None = 8.0
    """A push larger than this many times what is usual for its fragment is shortened to the usual;
    None: never. See `norms`."""
    norm_rounds: int = 8
    """Rounds of a fragment after which it is known what is usual."""
    suspect_after_s: float = 2.0
    """No step for this long, or for 20 of its own steps: a member is waited for no more."""
    drop_after_s: float = 6.0
    """No step for this long, or for 60 of its own steps: it is no member any more."""
    start_patience_s: float = 90.0
    """Time from joining to the first step; compiling may take a while."""
    evaluate_every: int | None = None
    """Committed tokens between two snapshots of the global parameters; None: see
    `snapshots_kept`."""
    snapshots_kept: int | None = None
    """Where nobody knows how many tokens there will be: this many or up to twice as many snapshots,
    evenly spread over the training. None, without `evaluate_every`: only the last."""
    stop_rounds: int | None = None
    stop_tokens: int | None = None
    stop_steps: int | None = None
    stop_time_s: float | None = None
    stop_loss: float | None = None

    def __post_init__(self) -> None:
        if not self.learners or len(set(self.learners)) != len(self.learners):
            raise ValueError("`learners` is a list of different names")
        if self.fragments < 1 or self.sync_every < 1 or self.overlap < 0:
            raise ValueError("`fragments` and `sync_every` are at least 1, `overlap` at least 0")
        if not 1 <= self.quorum <= len(self.learners):
            raise ValueError(f"`quorum` is 1 to {len(self.learners)}, not {self.quorum}")
        if not 0 <= self.gamma < 1:
            raise ValueError("`gamma` is at least 0 and below 1")
        if (self.norm_limit is not None and self.norm_limit <= 1) or self.norm_rounds < 1:
            raise ValueError("`norm_limit` is above 1 or null, `norm_rounds` at least 1")
        if not 0 < self.suspect_after_s < self.drop_after_s:
            raise ValueError("`suspect_after_s` is above 0 and below `drop_after_s`")
        if self.snapshots_kept is not None and self.snapshots_kept < 2:
            raise ValueError("`snapshots_kept` is at least 2 or null")
        if self.merge not in ("rda", "average"):
            raise ValueError("`merge` is rda or average")
        if self.compression not in ("f32", "bf16", "int8", "int4"):
            raise ValueError("`compression` is f32, bf16, int8 or int4")

    def to_json(self) -> str:
        """One JSON object with every field."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """Read `to_json` or a subset of it; ValueError names an unknown or wrong key."""
        try:
            given = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"settings are not JSON: {error}") from error
        if not isinstance(given, dict):
            raise ValueError("settings are one JSON object")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(given) - known):
            raise ValueError(f"unknown settings {unknown}; known are {sorted(known)}")
        return cls(**_typed(given))


def _typed(given: Mapping[str, Json]) -> dict[str, Any]:  # checked here, then passed by name
    kinds: dict[str, tuple[type, ...]] = {
        "learners": (list,), "merge": (str,), "compression": (str,),
        "fragments": (int,), "sync_every": (int,), "overlap": (int,), "quorum": (int,),
        "norm_rounds": (int,),
    }  # fmt: skip
    for key, value in given.items():
        wanted = kinds.get(key, (int, float, type(None)))
        if isinstance(value, bool) or not isinstance(value, wanted):
            raise ValueError(f"setting {key!r} is {value!r}, not {wanted[0].__name__}")
    names = given.get("learners")
    if isinstance(names, list):
        return {**given, "learners": tuple(str(name) for name in names)}
    return dict(given)


class Source(StrEnum):
    """Where a joining learner's parameters come from."""

    INITIAL = "initial"
    """Training has not begun: this learner hands in the initial parameters."""
    DONOR = "donor"
    """A checkpoint of a healthy learner: global fragments, AdamW moments, data position."""
    SYNCER = "syncer"
    """The syncer's fragments, with fresh moments: no healthy learner could help."""
    RESUMED = "resumed"
    """It kept its own state; only newer fragments are sent."""
