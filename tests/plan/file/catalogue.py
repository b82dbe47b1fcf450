"""Small faults and checks for the tests of plan files and schedules: settings and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.units import (
    Bound,
    Bytes,
    BytesPerSecond,
    Count,
    Duration,
    Factor,
    Relative,
    Share,
)
from chaoslab.plan.file import Kinds, load
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.kinds import FLEETS, LINKS


class Signal(StrEnum):
    SIGKILL = "SIGKILL"
    SIGTERM = "SIGTERM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """End a process."""

    summary: ClassVar[str] = "ends the process"
    takes_away: ClassVar[bool] = True
    signal: Signal = Signal.SIGKILL
    """How it is ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """End the syncer: nobody else can be its target."""

    takes_away: ClassVar[bool] = True
    roles: ClassVar[frozenset[str]] = frozenset({"syncer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    takes_away: ClassVar[bool] = True
    times: int = 3
    lives_s: Duration = 1.0

    def __post_init__(self) -> None:
        if self.times < 1:
            raise PlanError("a loop has at least one turn: `times: 1`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    signal: Signal = Signal.SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """Something of everything that a setting can be."""

    takes_away: ClassVar[bool] = False
    ratio: float
    mode: Literal["up", "down"] = "up"
    limit_bytes: Bytes = 0
    store: Bytes = 10
    pace_bytes_per_s: BytesPerSecond = 0.0
    flow: BytesPerSecond = 1.0
    min_share: Share = 0.5
    depth: Share = 0.1
    tokens: Count = 100
    offsets_s: tuple[Duration, ...] = ()
    names: tuple[str, ...] = ()
    until_s: Duration | None = None
    is_loud: bool = False
    inner: Nested = Nested()


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuity:
    max_gap: Bound = Relative(factor=3.0)  # noqa: RUF009  # frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoin:
    within_s: Duration = 30.0
    contributions: int = 3
    max_slowdown: Factor = 1.25
    min_rounds: int = 3


FAULTS: dict[str, type] = {
    "process.kill": Kill,
    "process.crash_loop": Loop,
    "compute.ramp": Ramp,
    "syncer.crash": Crash,
}
CHECKS: dict[str, type] = {"continuity": Continuity, "rejoin": Rejoin}
KINDS = Kinds(faults=FAULTS, checks=CHECKS, fleets=FLEETS, links=LINKS)

HEAD = "version: 1\nname: trial\n"
KILL = "faults:\n- {fault: process.kill, target: {learners: 1}, at: {round: 3}, for: 5s}\n"

Loader = Callable[..., FaultPlan]


def loader(directory: Path) -> Loader:
    """A function that loads a text as a plan, from a file in `directory`."""

    def load_text(text: str, *overrides: str, **more: object) -> FaultPlan:
        path = directory / "trial.yaml"
        path.write_text(text, encoding="utf-8")
        return load(path, KINDS, overrides=overrides, **more)[0]  # type: ignore[arg-type]

    return load_text


def one_fault(entry: str) -> str:
    """A whole plan with this one fault, given without its braces."""
    return f"{HEAD}faults:\n- {{{entry}}}\n"


def told(load: Loader, text: str, *overrides: str) -> str:
    """How the plan is refused."""
    with pytest.raises(PlanError) as refused:
        load(text, *overrides)
    return str(refused.value)
