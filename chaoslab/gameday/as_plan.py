"""Plan of what was done in a game-day, as a gate: nothing waits, and nothing is left to chance.

schedule, journal ─► injections as they were ─► replay.explicit ─► plan
  skipped             left out
  healed early        for: as long as it was
  after another one   at: {after: that one, offset: at most 10 s}, however long people talked
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from chaoslab.core.errors import PlanError
from chaoslab.plan.model import FaultPlan, Injection, Trigger
from chaoslab.record.journal import FaultStory, History
from chaoslab.replay.explicit import explicit

_MOST_OFFSET_S: Final = 10.0


def as_plan(plan: FaultPlan, injections: Sequence[Injection], history: History) -> FaultPlan:
    """The plan with the injections that were carried out, in their order.

    PlanError if none was.
    """
    stories = sorted((one for one in history.faults if one.injected is not None), key=_began_s)
    if not stories:
        raise PlanError("nothing was injected: there is nothing to repeat")
    scheduled = {one.id: one for one in injections}
    by_spec = {one.spec: one for one in reversed(injections)}
    done = [
        _as_it_was(scheduled.get(story.injection, by_spec[story.spec]), story, stories[:at])
        for at, story in enumerate(stories)
    ]
    return explicit(plan, done)


def _as_it_was(one: Injection, story: FaultStory, before: Sequence[FaultStory]) -> Injection:
    """`one`: the injection as scheduled, or of which it is a repetition."""
    for_s = story.injecting.payload.for_s
    if story.healed is not None:
        held_s = round(story.healed.time_s - _began_s(story), 3)
        for_s = held_s if for_s is None else min(for_s, held_s)
    known = replace(one, targets=story.targets, for_s=for_s)
    over = [
        (healed.time_s, other.spec)
        for other in before
        if (healed := other.healed) is not None and healed.time_s <= _began_s(story)
    ]
    if not over or len(over) < len(before):
        return known  # it was the first, or came while another was open
    healed_s, last = max(over)
    offset_s = round(min(_MOST_OFFSET_S, _began_s(story) - healed_s), 3)
    return replace(known, trigger=Trigger(after=last, offset_s=offset_s))


def _began_s(story: FaultStory) -> float:
    return story.injected.time_s if story.injected else story.injecting.time_s
