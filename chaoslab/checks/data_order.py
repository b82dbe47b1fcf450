"""Order of data: each learner's position in its data goes on as its steps do.

    between    one batch further with each step
    at a join  not behind its merged work, whatever the source and the life; not behind its own last
               report if it kept its state; no further than it can have stepped since it was heard

Part of `real_work`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from operator import attrgetter

from chaoslab.checks.absence import absences
from chaoslab.checks.codes import Code
from chaoslab.checks.duty import Duty, duty
from chaoslab.checks.resume import script_of
from chaoslab.checks.timeline import RESUMED, Part, of_learner, once, parts_of
from chaoslab.checks.violations import Violation
from chaoslab.core.events import Event
from chaoslab.core.payloads import LearnerJoined, LearnerStep, MemberJoined, NodeExited
from chaoslab.core.units import plural
from chaoslab.record.history import History

_UNHEARD_STEPS = 16
_LATE_S = 1.0
_FASTER = 2.0
"""Steps that a learner makes and does not report come at no more than this many times its pace."""


def disordered_data(history: History) -> Iterator[Violation]:
    """The first place of each learner where its data do not go on, and its first join behind."""
    found = duty(history)
    if script_of(history) is not None:
        return  # where it is in its data, a script does not say
    for learner in history.learners:
        said = [*_strays(history, learner, found)]
        yield from sorted(said, key=attrgetter("seq"))[:1]
        yield from islice(_repeats(history, learner), 1)


def _strays(history: History, learner: str, found: Duty | None) -> Iterator[Violation]:
    ends = _ends(history)
    events: list[Event[LearnerJoined] | Event[LearnerStep]] = [
        *of_learner(history, LearnerJoined, learner),
        *of_learner(history, LearnerStep, learner),
    ]
    for before, event in pairwise(sorted(events, key=attrgetter("seq"))):
        last, said = before.payload, event.payload
        moved = said.position - last.position
        if isinstance(said, LearnerJoined):
            most, until_s = _UNHEARD_STEPS, event.time_s
            if said.life != last.life and last.life in ends:  # no process stepped since then
                until_s = min(until_s, ends[last.life].time_s)
            if found is not None:
                unheard_s = max(0.0, until_s - before.time_s) + _LATE_S
                most += round(_FASTER * found.pace(learner) * unheard_s)
            if moved > most:
                text = (
                    f"{learner} joined at batch {said.position:,} of its data, {moved:,} "
                    f"after the last one that it reported: it skipped data"
                )
                yield Violation.at(event, Code.DATA_SKIPPED, text, learner)
        elif said.life == last.life and said.epoch == last.epoch:
            steps = said.step - last.step
            if moved != steps:
                code = Code.DATA_SKIPPED if moved > steps else Code.DATA_REPEATED
                text = (
                    f"{learner} made {plural(steps, 'step')} up to step {said.step:,}, and took "
                    f"{plural(moved, 'batch', 'batches')} of its data for them"
                )
                yield Violation.at(event, code, text, learner)


def _repeats(history: History, learner: str) -> Iterator[Violation]:
    """Its joins behind what was merged of its work when the syncer let it in.

    What another life did after a fault came to it does not count: it is not known what the syncer
    had heard of it.
    """
    taken = [a.stories[0].injecting for a in absences(history) if a.learner == learner]
    events: list[Event | Part] = [
        *of_learner(history, LearnerJoined, learner),
        *of_learner(history, LearnerStep, learner),
        *of_learner(history, MemberJoined, learner),
        *parts_of(history, learner),
        *taken,
    ]
    lives: dict[int, _Reached] = defaultdict(_Reached)
    let_in: dict[int, int] = {}
    for event in sorted(events, key=attrgetter("seq")):
        if isinstance(event, Part):
            lives[event.contributor.incarnation].merge(event.contributor.step)
            continue
        said = event.payload
        if isinstance(said, LearnerStep):
            lives[said.incarnation].step(said.step, said.position)
        elif isinstance(said, MemberJoined):
            let_in[said.epoch] = lives[said.incarnation].merged
        elif isinstance(said, LearnerJoined):
            own = lives[said.incarnation]
            others = [life.before for number, life in lives.items() if number != said.incarnation]
            reached = max([let_in.get(said.epoch, own.merged), *others])
            if said.source == RESUMED:
                reached = max(reached, own.position)
            if said.position < reached:
                text = (
                    f"{learner} joined ({said.source}, incarnation {said.incarnation}) at batch "
                    f"{said.position:,} of its data, although it had reached {reached:,} "
                    f"before: it trains again on what it had trained on"
                )
                yield Violation.at(event, Code.DATA_REPEATED, text, learner)
        else:
            for life in lives.values():
                life.before = life.merged


class _Reached:
    """Position of one life in its data."""

    def __init__(self) -> None:
        self.position = 0
        """Last reported position."""
        self.merged = 0
        """Position up to which its work was merged."""
        self.before = 0
        """The same, when a fault last took the learner away."""
        self._merged_step = -1.0
        self._waiting: list[tuple[int, int]] = []

    def step(self, step: int, position: int) -> None:
        """Note a reported step, and its position."""
        self.position = position
        if step <= self._merged_step:
            self.merged = max(self.merged, position)
        else:
            self._waiting.append((step, position))

    def merge(self, step: float) -> None:
        """A push of it, after a step, was merged."""
        self._merged_step = max(self._merged_step, step)
        done = [position for step, position in self._waiting if step <= self._merged_step]
        self.merged = max([self.merged, *done])
        self._waiting = [one for one in self._waiting if one[0] > self._merged_step]


@once
def _ends(history: History) -> Mapping[tuple[str, int], Event[NodeExited]]:
    """First seen end of the process of each life."""
    return {
        (event.payload.node, event.payload.incarnation): event
        for event in reversed(history.of(NodeExited))
        if event.payload.is_seen
    }
