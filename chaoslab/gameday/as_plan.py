"""Plan of what was done in a game-day, as a gate: nothing waits, and nothing is left to chance.

    schedule, journal ─► injections as they were ─► plan
      skipped                   left out
      changed, repeated         as often, on the targets that it had
      sealed                    as any other: nothing is drawn any more
      healed early              for: as long as it was
      the first of all          at: as the plan says, or once the baseline is measured
      after all before it       at: {after: the last that was healed, offset: at most 10 s}
      while another was open    as long after that one's injection as it was, in time or in rounds

So the time in which people talked is left out. A trigger by phase stays, since nothing else hits
the moment, but for one that was repeated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from chaoslab.core.errors import PlanError
from chaoslab.core.events import encode
from chaoslab.core.payloads import RoundMerged
from chaoslab.plan.model import (
    FaultPlan,
    FaultSpec,
    Injection,
    Outage,
    Pick,
    Stop,
    Target,
    Trigger,
)
from chaoslab.plan.schedule import Schedule, from_lines, to_lines
from chaoslab.record.history import FaultStory, History
from chaoslab.replay.explicit import exactly, numbered

_MOST_OFFSET_S: Final = 10.0
_LEAST_S: Final = 0.1
"""Shortest outage that is written."""
_ROOM_S: Final = 300.0
"""Extra length of the plan's run, beside outages and offsets."""


def as_plan(plan: FaultPlan, injections: Sequence[Injection], history: History) -> FaultPlan:
    """The plan with the injections that were carried out, in their order.

    PlanError if none was.
    """
    stories = sorted((one for one in history.faults if one.injected is not None), key=_began_s)
    if not stories:
        raise PlanError("nothing was injected: there is nothing to repeat")
    by_id = {one.id: one for one in injections}
    by_spec = {one.spec: one for one in reversed(injections)}
    names = numbered([one.spec for one in stories])
    done: list[_Done] = []
    for story, name in zip(stories, names, strict=True):
        one = by_id.get(story.injection, by_spec[story.spec])
        at = _trigger(plan, story, by_id.get(story.injection), done, history)
        done.append(_Done(name=name, story=story, injection=one, at=at))
    faults = tuple(_fault(plan, one) for one in done)
    return replace(
        plan,
        faults=faults,
        gameday=None,
        training=replace(plan.training, stop=_stop(plan, faults)),
        limits=replace(plan.limits, timeout_s=_timeout_s(plan, faults)),
    )


def unplanned(
    plan: FaultPlan, history: History, faults: Mapping[str, type]
) -> tuple[Injection, ...]:
    """Injections of no entry of the plan, as they are on record: those that were sealed.

    `faults` decodes their settings; PlanError for one that is not known.
    """
    ids = {spec.id for spec in plan.faults}
    lines = [
        encode(
            {
                "injection": story.injection.rpartition("-")[2],
                "spec": story.spec,
                "fault": story.fault,
                "settings": story.injecting.payload.settings,
                "targets": story.targets,
                "trigger": {"time_s": _began_s(story)},
                "for_s": story.injecting.payload.for_s,
            }
        )
        for story in history.faults
        if story.spec not in ids
    ]
    head, *_ = to_lines(Schedule(seed=plan.seed, injections=()))
    return from_lines([head, *lines], faults).injections


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """An injection that was carried out, and its trigger in the plan."""

    name: str
    story: FaultStory
    injection: Injection
    """Injection as scheduled, or the one that it repeats."""
    at: Trigger


def _trigger(
    plan: FaultPlan,
    story: FaultStory,
    scheduled: Injection | None,
    before: Sequence[_Done],
    history: History,
) -> Trigger:
    if scheduled is not None and scheduled.trigger.phase is not None:
        return scheduled.trigger
    began_s = _began_s(story)
    still_open = [one for one in before if _healed_s(one.story) > began_s]
    if still_open:
        return _beside(still_open[-1], began_s, history)
    if before:
        last = max(before, key=lambda one: _healed_s(one.story))
        offset_s = min(_MOST_OFFSET_S, began_s - _healed_s(last.story))
        return Trigger(after=last.name, offset_s=round(offset_s, 3))
    is_of_plan = scheduled is not None and scheduled.spec in {one.id for one in plan.faults}
    own = scheduled.trigger if scheduled and is_of_plan else Trigger(round=_first_round(plan))
    is_of_another = own.after is not None
    return Trigger(round=_first_round(plan)) if is_of_another else own


def _beside(other: _Done, began_s: float, history: History) -> Trigger:
    """Trigger at the same delay after an injection that was open at that time."""
    later_s, at = began_s - _began_s(other.story), other.at
    if at.after is not None:
        return replace(at, offset_s=round(at.offset_s + later_s, 3))
    if at.time_s is not None:
        return Trigger(time_s=round(at.time_s + later_s, 3))
    merged = history.of(RoundMerged)
    rounds_before = sum(one.time_s <= _began_s(other.story) for one in merged)
    more = sum(one.time_s <= began_s for one in merged) - rounds_before
    return Trigger(round=(rounds_before if at.round is None else at.round) + max(1, more))


def _first_round(plan: FaultPlan) -> int:
    """Soon after the baseline."""
    return plan.baseline.warmup + plan.baseline.window + 1


# ---------------------------------------------------------------- one fault of the plan


def _fault(plan: FaultPlan, done: _Done) -> FaultSpec:
    of_plan = {spec.id: spec.target for spec in plan.faults}
    asked = of_plan.get(done.story.spec, Target(names=done.story.targets))
    return FaultSpec(
        id=done.name,
        fault=done.injection.fault,
        settings=done.injection.settings,
        target=_target(done, asked),
        at=done.at,
        outage=_outage(done.story),
    )


def _target(done: _Done, asked: Target) -> Target:
    """Target with the nodes that were hit; `pick: at_phase` stays where the phase does."""
    is_open = asked.pick is Pick.AT_PHASE and done.at.phase is not None
    return asked if is_open else exactly(done.story.targets, asked)


def _outage(story: FaultStory) -> Outage:
    for_s = story.injecting.payload.for_s
    if story.healed is not None:
        held_s = story.healed.time_s - _began_s(story)
        for_s = held_s if for_s is None else min(for_s, held_s)
    return Outage(rest=True) if for_s is None else Outage(seconds=max(_LEAST_S, round(for_s, 3)))


# ---------------------------------------------------------------- the whole plan


def _stop(plan: FaultPlan, faults: Sequence[FaultSpec]) -> Stop:
    """Stop rule that ends after the last of the rounds in which something is injected."""
    stop = plan.training.stop
    last = max((one.at.round or 0 for one in faults if one.at is not None), default=0)
    if stop.rounds is None or last < stop.rounds:
        return stop
    return replace(stop, rounds=last + plan.baseline.window)


def _timeout_s(plan: FaultPlan, faults: Sequence[FaultSpec]) -> float:
    outages_s = sum(one.outage.seconds or 0.0 for one in faults)
    offsets_s = sum(_MOST_OFFSET_S for _ in faults)
    return max(plan.limits.timeout_s, round(outages_s + offsets_s + _ROOM_S))


def _began_s(story: FaultStory) -> float:
    return story.injected.time_s if story.injected else story.injecting.time_s


def _healed_s(story: FaultStory) -> float:
    return story.healed.time_s if story.healed is not None else inf
