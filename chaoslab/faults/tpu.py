"""Faults on the slice that a learner runs on: an outage by its provider, a preemption.

    inject ─► the provider is asked ─┬─► its states: late, early or wrong   ┐
                                     └─► the hosts go, and the learner ends ┴─► both: proved
    heal ─► repair: another slice, or the same one again; the learner starts when it is up

What took effect is decided by the learner's own life, why it did by the provider's states. With
only the first a fault is weak; with only the second it is failed, whatever the provider says.
`perform-maintenance` is not among them: it is real maintenance, which cannot be undone.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import (
    LearnerNoticed,
    LearnerStep,
    MemberLeft,
    NodeExited,
    ProviderReported,
)
from chaoslab.core.units import Duration
from chaoslab.faults.actions import GivesNotice
from chaoslab.faults.base import BaseFault, Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import LAG_S, EvidenceWindow, Found, no_evidence
from chaoslab.faults.process import Signal
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.protocols import HasSlices, SliceAct, able
from chaoslab.plan.model import Injection
from chaoslab.record.exits import how_it_ended


class _OnSlice(BaseFault):
    """A fault that the provider of the slice carries out."""

    __slots__ = ()

    layer = Layer.PROVIDER
    needs = frozenset({Ability.SLICE})
    takes_away = True
    duration_key = "down_s"
    is_preemption: ClassVar[bool] = False
    """Whether its repair counts with the preemptions."""

    @property
    @abstractmethod
    def conditions(self) -> frozenset[str]:
        """Conditions that the provider is to report."""

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Have every slice repaired; returns before that is done."""
        for name in injection.targets:
            able(fleet, HasSlices).repair_slice(name, is_preempted=self.is_preemption)

    def look(self, window: EvidenceWindow) -> Found:
        """The end of the learner's life, and the provider's word for its cause."""
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        said = window.first(ProviderReported, lambda e: e.payload.condition in self.conditions)
        exited = window.exited
        if exited is None:
            return _still_there(said)
        if exited.payload.exit_code not in (None, 0):
            text = f"crashed ({how_it_ended(exited)}) instead of losing its hosts"
            return no_evidence(Code.EXITED_INSTEAD, text)
        if (stepped := _stepped_after(window, exited)) is not None:
            text = f"made step {stepped.payload.step} after it was said to have ended"
            return no_evidence(Code.STILL_WORKING, text)
        return self._gone(window, exited, said)

    def lasted(self, window: EvidenceWindow, down_s: float) -> Code:
        """Whether it was down for long enough."""
        return window.lasted(down_s)

    def _gone(
        self,
        window: EvidenceWindow,
        exited: Event[NodeExited],
        said: Event[ProviderReported] | None,
    ) -> Found:
        down_s = window.down_s(exited)
        dropped = window.first(MemberLeft, lambda e: e.payload.incarnation == window.incarnation)
        text = f"ended ({how_it_ended(exited)}) and was down for {down_s:.1f} s; "
        if said is None:
            text += (
                "the provider had not reported the state asked of its slice when the fault ended"
            )
        else:
            lag_s = said.time_s - exited.time_s
            when = f"{abs(lag_s):.1f} s {'later' if lag_s >= 0 else 'before'}"
            text += f"the provider called its slice {said.payload.condition} {when}"
        return Found(
            code=self.lasted(window, down_s) if said else Code.DOUBTFUL_CAUSE,
            text=text,
            measured={
                "down_s": down_s,
                "exited_after_s": exited.time_s - window.begin_s,
                "provider_after_s": said.time_s - window.begin_s if said else None,
                "state": said.payload.state if said else None,
            },
            proof=(exited, said, dropped),
        )


class Loss(StrEnum):
    """Act of a provider on a slice."""

    DELETE = "delete"
    STOP = "stop"
    MAINTENANCE = "maintenance"


_SAID = {
    Loss.DELETE: frozenset({"leaving", "absent"}),
    Loss.STOP: frozenset({"stopped"}),
    Loss.MAINTENANCE: frozenset({"maintained", "coming", "stopped"}),
}
"""Reports expected from the provider about the slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuOutage(_OnSlice):
    """The provider takes the slice of the learner down; the heal has it repaired.

    The learner starts when the provider has the slice up again.
    """

    how: Loss = Loss.DELETE
    """delete: the slice and its request; the heal requests another one by the provider's queue.
    stop: the heal starts the same one. maintenance: an event on worker 0 that the provider
    simulates."""

    name = "tpu.outage"
    summary = "the slice is deleted, stopped, or under a maintenance event of the provider"
    imitates = "a slice that is deleted, lost for good or stopped; host maintenance, on one host"
    proof = "the learner ended, and the provider calls the slice deleted, stopped or maintained"

    @property
    def conditions(self) -> frozenset[str]:
        return _SAID[self.how]

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Ask the provider for it, for all targets side by side."""
        able(fleet, HasSlices).act_on_slices(SliceAct(self.how.value), *injection.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotPreempt(GivesNotice, _OnSlice):
    """Emulate the preemption of a spot slice: notice, SIGTERM, then the slice is deleted.

    The provider cannot be asked for a real preemption. The request stays suspended as after one,
    and the repair counts with the preemptions.
    """

    notice_s: Duration = 0.0
    """Time from the notice to SIGTERM."""
    grace_s: Duration = 30.0
    """Time from SIGTERM until the slice is deleted. Google gives at most 30 s."""

    name = "spot.preempt"
    summary = "emulated preemption of a spot slice: notice, SIGTERM, then it is deleted"
    imitates = "a spot preemption; emulated, as the provider's own cannot be asked for"
    proof = "the learner noticed it and ended, and the provider calls the slice deleted"
    needs = frozenset({Ability.SLICE, Ability.KILL, Ability.NOTICE})
    duration_key = ""
    conditions = frozenset({"leaving", "absent", "preempted"})
    is_preemption = True

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:
        """Ask the learners to leave, then delete their slices."""
        if step_index == 0:
            fleet.signal(*injection.targets, signal=Signal.SIGTERM)
        else:
            able(fleet, HasSlices).act_on_slices(SliceAct.TAKE, *injection.targets)

    def requested(self) -> Mapping[str, Json]:
        return {"notice_s": self.notice_s, "grace_s": self.grace_s, "is_emulated": True}

    def lasted(self, window: EvidenceWindow, down_s: float) -> Code:  # noqa: ARG002 - its base's
        """A learner may use its whole grace."""
        return Code.AS_ASKED

    def look(self, window: EvidenceWindow) -> Found:
        """Findings as for a deleted slice, and whether the learner received the notice."""
        found = super(SpotPreempt, self).look(window)  # slots make another class
        if found.code is not Code.AS_ASKED:
            return found
        exited, noticed = window.exited, window.first(LearnerNoticed)
        late_s = self.notice_s + self.grace_s + LAG_S
        gone_after_s = exited.time_s - window.begin_s if exited else 0.0
        return Found(
            code=Code.AS_ASKED if noticed else Code.NO_NOTICE,
            text=f"{'noticed' if noticed else 'never reported'} the emulated preemption, "
            f"{found.text}",
            measured={
                **found.measured,
                "noticed_after_s": noticed.time_s - window.begin_s if noticed else None,
                "left_by_itself": bool(exited and exited.payload.exit_code == 0),
                "is_in_grace": gone_after_s <= late_s,
            },
            proof=(noticed, *found.proof),
        )


def _still_there(said: Event[ProviderReported] | None) -> Found:
    """No exit: the provider's word alone proves nothing."""
    word = f"the provider calls its slice {said.payload.condition}, and it " if said else ""
    return no_evidence(Code.STILL_RUNNING, f"{word}was still running when the fault ended")


def _stepped_after(window: EvidenceWindow, exited: Event[NodeExited]) -> Event[LearnerStep] | None:
    """A step of the life that is said to have ended, later than what may still be on its way."""
    return window.first(
        LearnerStep,
        lambda e: e.payload.incarnation == window.incarnation and e.time_s > exited.time_s + LAG_S,
    )
