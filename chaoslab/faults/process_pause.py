"""Faults that stop a process without ending it: pause, hang.

From far away the two look alike, and yet systems that survive one fall to the other: a paused
process is silent altogether, a hung one goes on sending heartbeats and never does its work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import (
    LearnerStep,
    LearnerWaiting,
    MemberLeft,
    MemberSuspected,
    NodeProbed,
    PushAccepted,
)
from chaoslab.core.protocol import LeaveReason
from chaoslab.core.units import plural
from chaoslab.faults.actions import HitsTogether
from chaoslab.faults.base import BaseFault, Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import LAG_S, EvidenceWindow, Found, no_evidence, of_life
from chaoslab.fleet.base import Ability, Fleet, Role
from chaoslab.fleet.protocols import Pausable, Wedgeable, able
from chaoslab.plan.model import Injection
from chaoslab.record.exits import how_it_ended

_STILL_S = 0.02
"""Two ticks of the kernel's accounting."""
_SILENCE = 3.0
"""A learner hangs when it is silent for this many of its usual intervals between reports."""
_STEPS_GIVEN = 3
"""A hung learner's pushes are all of the step at which it hangs, but for one still on its way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPause(HitsTogether):
    """Stop the node's whole tree, as SIGSTOP does: alive, silent, its sockets and streams open."""

    name = "process.pause"
    summary = (
        "stop the process without ending it; its sockets stay open; of learners or of the syncer"
    )
    layer = Layer.PROCESS
    imitates = "a machine that stalls: live migration, a hypervisor's pause, heavy swapping"
    proof = "process state T, probed from outside, and no report meanwhile"
    needs = frozenset({Ability.PAUSE})
    roles = frozenset({Role.LEARNER, Role.SYNCER})
    takes_away = True
    to_pause = True
    duration_key = "paused_s"

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Stop the processes of all targets at once."""
        able(fleet, Pausable).pause(*injection.targets)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Let every target go on."""
        for name in injection.targets:
            able(fleet, Pausable).resume(name)

    def look(self, window: EvidenceWindow) -> Found:
        """State T from the first probe to the last, and silence."""
        probes = window.of(NodeProbed)
        stopped = [e for e in probes if e.payload.state == "T"]
        if not stopped:
            seen = ", ".join(window.probed_states) or "none"
            return no_evidence(Code.NOT_STOPPED, f"was never seen stopped (state {seen})")
        spoke = [
            e
            for e in window.during
            if e.source == window.target
            and not e.kind.startswith("node.")
            and e.time_s > stopped[0].time_s + LAG_S
        ]
        quiet = [e for e in probes if e.payload.state == "T" or _was_still(e, stopped[-1])]
        paused_s = stopped[-1].time_s - quiet[0].time_s
        code = window.lasted(paused_s)
        text = f"was stopped (state T) for {paused_s:.1f} s"
        if len(quiet) < len(probes):
            code = Code.NOT_THROUGHOUT
            text += f", but not all the time: {', '.join(window.probed_states)}"
        if spoke:
            code = Code.WORKED_MEANWHILE
            text += f", but reported {plural(len(spoke), 'time')} meanwhile"
        return Found(
            code=code,
            text=text,
            measured={"paused_s": paused_s, "reports": len(spoke)},
            proof=(quiet[0], stopped[-1], *spoke[:1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHang(BaseFault):
    """Hang the learner's training thread while its process, sockets and heartbeats stay alive."""

    name = "process.hang"
    summary = "hang the training thread; heartbeats go on"
    layer = Layer.PROGRAM
    imitates = "a collective or driver call that never returns while heartbeats go on"
    proof = "no steps, process neither stopped nor gone, connection open"
    needs = frozenset({Ability.WEDGE})
    takes_away = True
    duration_key = "hung_s"

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Ask the hook of every target to hang its training thread."""
        for name in injection.targets:
            able(fleet, Wedgeable).wedge(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Let the training thread of every target go on."""
        for name in injection.targets:
            able(fleet, Wedgeable).unwedge(name)

    def look(self, window: EvidenceWindow) -> Found:
        """It stepped, then made no step for far longer than it ever pauses, and was not gone.

        A learner that reports that it waits for a round does not hang.
        """
        earlier = _steps(window, window.before)
        usual_s = _usual_interval_s(earlier) if earlier else 0.0
        if not earlier or window.begin_s - earlier[-1].time_s > _SILENCE * usual_s + LAG_S:
            return no_evidence(Code.NOT_STEPPING, "was not stepping when the fault began")
        if otherwise := _not_hung(window):
            return otherwise
        waits = of_life(window.during, LearnerWaiting, window.incarnation)
        signs = [*earlier, *_steps(window, window.during), *waits]
        last = max(signs, key=lambda event: event.time_s)
        hung_s = window.end_s - max(last.time_s, window.begin_s)
        measured: dict[str, Json] = {"hung_s": hung_s, "usual_interval_s": usual_s}
        if hung_s < _SILENCE * usual_s:
            return no_evidence(
                Code.NO_EFFECT,
                f"was without a step for the last {hung_s:.1f} s of the fault, which is nothing "
                f"unusual: it reports every {usual_s:.1f} s",
                **measured,
            )
        noticed = (*window.of(MemberSuspected), *window.of(MemberLeft))[:1]
        return Found(
            code=window.lasted(hung_s),
            text=f"lived and did not step for {hung_s:.1f} s (usually every {usual_s:.1f} s)",
            measured=measured,
            proof=(last, *noticed, *window.of(NodeProbed)[-1:]),
        )


# ---------------------------------------------------------------- evidence


def _was_still(probe: Event[NodeProbed], stopped: Event[NodeProbed]) -> bool:
    """Whether it used no processor from the probe until it was seen stopped.

    On a starved machine a stopped process shows its old state until its next turn to run.
    """
    return 0.0 <= stopped.payload.cpu_s - probe.payload.cpu_s <= _STILL_S


def _steps(window: EvidenceWindow, events: Sequence[Event]) -> list[Event[LearnerStep]]:
    """The reports of the life that the fault met."""
    return of_life(events, LearnerStep, window.incarnation)


def _not_hung(window: EvidenceWindow) -> Found | None:
    """Finding about a learner that did not hang."""
    states = window.probed_states
    closed = window.first(MemberLeft, lambda e: e.payload.reason is LeaveReason.CLOSED)
    if window.exited:
        text = f"exited ({how_it_ended(window.exited)}) instead of hanging"
        return no_evidence(Code.EXITED_INSTEAD, text)
    if not states:
        text = "was not probed, so whether it lived is unknown"
        return no_evidence(Code.NOT_MEASURED, text)
    if not set(states) <= {"R", "S", "D"}:
        text = f"was stopped or gone (state {', '.join(states)}), not hung"
        return no_evidence(Code.STOPPED_INSTEAD, text)
    if closed:
        text = "lost its connection instead of hanging"
        return no_evidence(Code.DISCONNECTED_INSTEAD, text)
    steps = _steps_given(window)
    if len(steps) < _STEPS_GIVEN:
        return None
    given = f"was given work of the steps {min(steps)} to {max(steps)}"
    text = f"was silent and went on working: the syncer {given} meanwhile"
    return no_evidence(Code.STILL_WORKING, text)


def _steps_given(window: EvidenceWindow) -> set[int]:
    """Steps at which its pushes were made, by the syncer's account."""
    from_s = window.begin_s + LAG_S
    return {e.payload.step for e in window.of(PushAccepted) if e.time_s > from_s}


def _usual_interval_s(steps: list[Event[LearnerStep]]) -> float:
    """Median seconds between the latest ten reports; of a single one, the time that it covers."""
    times_s = [e.time_s for e in steps[-11:]]
    if len(times_s) > 1:
        return median(late - early for early, late in pairwise(times_s))
    return steps[-1].payload.step_s * steps[-1].payload.steps
