"""Checks, and settings of checks, that a run was never to answer: named, and not judged.

    run.started `without` ─┐
    needs of each check ───┴─► judgeable ─► checks as they can be judged, and what was left out

A run may have no fault-free twin because none was asked for. What would have been compared with
it is then no doubt about the run. A twin that was asked for and is missing is one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from chaoslab.checks.base import Check, HasNeeds
from chaoslab.core.payloads import Need, RunStarted
from chaoslab.record.history import History

_REASONS: Final[Mapping[Need, str]] = {
    Need.TWIN: "the run has no fault-free twin (`--no-twin`, `twin: false`, a "
    "game-day or `chaoslab attach`)",
    Need.WHOLE: "the training began before the run and continues after it",
    Need.STEP_TIME: "learners keep no step time (`training.step_time: off`, or `chaoslab attach`)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NotJudged:
    """A check of the plan, or one setting of it, that was left out."""

    check: str
    """Name of the check."""
    setting: str
    """The setting that was left out; empty: all of the check."""
    need: Need
    """Requirement that the run lacked by choice."""
    reason: str
    """A sentence that says what the run did not have."""

    @property
    def name(self) -> str:
        """`loss_parity`, or `goodput.max_share`."""
        return f"{self.check}.{self.setting}" if self.setting else self.check


def judgeable(
    history: History, expect: Iterable[Check]
) -> tuple[Sequence[Check], tuple[NotJudged, ...]]:
    """The checks as this run can answer them, and what was left out."""
    started = history.last(RunStarted)
    without = started.payload.without if started else ()
    checks: list[Check] = []
    found: list[NotJudged] = []
    for check in expect:
        missing = left_out(check, without)
        found += missing
        if all(one.setting for one in missing):
            unset = dict.fromkeys(one.setting for one in missing)
            checks.append(replace(check, **unset) if unset else check)  # type: ignore[type-var]
    return checks, tuple(found)


def left_out(check: object, without: Collection[Need]) -> tuple[NotJudged, ...]:
    """All of a check, or those of its settings that have a value, which lack what they need."""
    if not isinstance(check, HasNeeds):
        return ()
    missing = {
        setting: need
        for setting, need in check.needs.items()
        if need in without and (not setting or getattr(check, setting) is not None)
    }
    if "" in missing:
        missing = {"": missing[""]}
    return tuple(
        NotJudged(check=check.name, setting=setting, need=need, reason=_REASONS[need])
        for setting, need in missing.items()
    )
