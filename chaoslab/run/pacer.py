"""Pacer of a run: the step time of its learners, measured or given, and told to each that starts.

    learners share the machine ─► step times ─► median x 1.3 ─► pace.set ─► fleet.tell("pace", …)
    given by the plan: learners know it from their command line             every later life, too

With a reserve it is longer by the learners that will share the machine, too. The baseline waits
until every learner reports that it keeps the step time; if too many periods are lost in it, the
measurement was of a calmer machine, and is made again.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Final

from chaoslab.checks.pacing import LOST_MOST
from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import LearnerStep, PaceSet
from chaoslab.core.units import Pacing
from chaoslab.fleet.base import Role
from chaoslab.fleet.protocols import Hookable, able
from chaoslab.plan.model import HEADROOM, Training
from chaoslab.run.event_recorder import EventRecorder
from chaoslab.run.verbs import Verbs

_SAMPLES: Final = 8
"""Reports of each learner that the measurement takes; the first one may hold a step that was
compiled."""


@dataclass(slots=True, kw_only=True)
class Pacer:
    """The step time of one run."""

    training: Training
    recorder: EventRecorder
    verbs: Verbs
    _since_s: float | None = None
    """When the measurement began."""
    _took_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Step times that each learner has reported since then."""
    _read: int = 0
    """How many reports of the record are in `_took_s`, or are older than the measurement."""
    _step_s: float | None = None
    """The step time in force; None: none yet."""
    _told: set[tuple[str, int]] = field(default_factory=set)
    """Names and incarnations of those that were told."""
    _seen: object = None
    """Nodes that `Progress.alive` named when all of them were told: none has started since, if it
    is that very tuple."""

    @property
    def is_asked(self) -> bool:
        """Whether the plan asks for a step time."""
        return self.training.step_time is not Pacing.OFF

    def is_known(self) -> bool:
        """Whether the step time is given, or every living learner has reported enough steps."""
        if self.training.step_time is not Pacing.AUTO:
            return True
        if self._since_s is None:
            self._since_s = self.recorder.now_s
        self._listen()
        measured = {name for name, took in self._took_s.items() if len(took) > _SAMPLES}
        return bool(measured) and measured.issuperset(self._learners())

    def begin(self) -> None:
        """Note the step time, and tell it to every node that does not know it yet."""
        step_s, measured_s = self.training.step_time, dict[str, float]()
        if isinstance(step_s, Pacing):
            measured_s = self._measured_s()
            crowd = len(self.training.roster) / self.training.learner_count
            step_s = round(HEADROOM * crowd * median(measured_s.values()), 4)
        self._step_s = step_s
        self.recorder.note(PaceSet(step_s=step_s, measured_s=measured_s))
        self._told.clear()
        self._seen = None
        self.tell()

    def is_too_short(self, since_s: float) -> bool:
        """Whether a measured step time lost too many periods since then; it is measured from then
        on if it is begun again.
        """
        if self.training.step_time is not Pacing.AUTO:
            return False
        self._since_s, self._read = since_s, 0
        self._took_s.clear()
        heard = self.recorder.journal.history.between(since_s, self.recorder.now_s, LearnerStep)
        said = [event.payload for event in heard]
        lost, made = sum(one.overruns for one in said), sum(one.steps for one in said)
        return lost > LOST_MOST * (made + lost) and self.is_known()

    def tell(self) -> None:
        """Tell a measured step time to every learner that has started since the last call."""
        if self.training.step_time is not Pacing.AUTO or self._step_s is None:
            return
        learners = self.recorder.progress.alive(Role.LEARNER)
        if learners is self._seen:
            return
        lives = [(name, self.recorder.progress.incarnations[name]) for name in learners]
        for life in lives:
            if life not in self._told and life[0] not in self.verbs.busy:
                self.verbs.begin(self._tell(life))
        self._seen = learners if self._told.issuperset(lives) else None

    def missing(self) -> list[str]:
        """Living learners that have not reported yet that they keep the step time."""
        speeds = self.training.speeds
        return [name for name in self._learners() if not self._is_kept(name, speeds.get(name, 1.0))]

    def _is_kept(self, name: str, speed: float) -> bool:
        period_s = self.recorder.progress.periods_s.get(name)
        if period_s is None or self._step_s is None:
            return False
        return math.isclose(period_s * speed, self._step_s)

    async def _tell(self, life: tuple[str, int]) -> None:
        """Later again if it cannot be told: it may be out of reach, or have died a moment ago."""
        name, step_s = life[0], self._step_s
        tell = partial(able(self.recorder.fleet, Hookable).tell, name, "pace", step_s=step_s)
        with suppress(FleetError):
            await self.verbs.call([name], tell, what="the step time")
            if step_s == self._step_s:
                self._told.add(life)

    def _learners(self) -> Iterator[str]:
        return iter(self.recorder.progress.alive(Role.LEARNER))

    def _measured_s(self) -> dict[str, float]:
        """Median step time at full speed of each learner that has reported enough of them."""
        self._listen()
        speeds = self.training.speeds
        return {
            name: median(one_s * speeds.get(name, 1.0) for one_s in took[1:])
            for name, took in self._took_s.items()
            if len(took) > _SAMPLES
        }

    def _listen(self) -> None:
        """Take in what was reported since the last call: this is done after each event."""
        reports = self.recorder.journal.history.of(LearnerStep)
        for event in reports[self._read :]:
            if event.time_s >= (self._since_s or 0.0):
                self._took_s[event.payload.learner].append(event.payload.step_s)
        self._read = len(reports)
