"""Faults of membership: learners that join a running training, and learners that leave it.

    control.scale_up   reserve ── start ──► join, adopt, contribute … ── heal: leave in order
    control.leave      member ── SIGTERM ─► goodbye, exit code 0 ─────── heal: start again

Neither breaks anything. Both are faults because a training must stand them at any moment: no
learner may wait for one that leaves, and one that joins takes over the state of the run. That a
learner was let in, and how soon it was of use, is a finding (check `rejoin`), not a doubt about the
fault.
"""

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    LearnerLeft,
    LeftBecause,
    MemberLeft,
    MemberSuspected,
    RoundMerged,
)
from chaoslab.core.protocol import LeaveReason
from chaoslab.core.units import delay
from chaoslab.faults.actions import EndsProcess
from chaoslab.faults.base import BaseFault, Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.lives import Life, lives
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.faults.process import Signal
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.plan.model import Injection
from chaoslab.record.exits import how_it_ended
from chaoslab.record.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlScaleUp(BaseFault):
    """Start learners of the reserve in a running training; heal by letting them leave in order.

    With `for: rest` they stay to the end, and are learners like any other from then on.
    """

    name = "control.scale_up"
    summary = "learners of the reserve join the running training"
    layer = Layer.PROCESS
    imitates = "spare capacity that arrives in mid-training"
    proof = "its process started in mid-training, reported that it is ready, and stayed"
    needs = frozenset({Ability.KILL})
    takes_away = False
    brings_in = True
    duration_key = "stays_s"

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Start every one of them."""
        for name in injection.targets:
            fleet.restart(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Ask them to leave; those that are gone already are left alone."""
        fleet.signal(*injection.targets, signal=Signal.SIGTERM)

    def look(self, window: EvidenceWindow) -> Found:
        """No process was there before, one is there now, and the learner says so itself."""
        if window.incarnation is not None:
            return no_evidence(Code.ALREADY_RUNNING, "was there already when it was to join")
        life = next(iter(lives(window)), None)
        if life is None:
            return no_evidence(Code.NOT_STARTED, "was not started")
        stayed_s = life.end_s - life.started.time_s
        if not life.is_to_the_end:
            code = Code.ENDED_AGAIN
        elif life.ready is None:
            code = Code.NO_REPORT
        else:
            code = window.lasted(stayed_s)
        return Found(
            code=code,
            text=_how_it_joined(life),
            measured={
                "joined_after_s": life.after_s(life.member),
                "complete_after_s": life.after_s(life.complete),
                "contributed_after_s": life.contributed_s,
                "source": life.source,
                "donor": life.donor,
                "stayed_s": stayed_s,
            },
            proof=(life.started, life.ready, life.member, life.complete, life.accepted),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlLeave(EndsProcess):
    """Ask the learner to leave, as a scheduler that shrinks a job does; heal by starting it again.

    It ends its step, saves its checkpoint, says goodbye and exits with code 0. The heal ends one
    that never left.
    """

    name = "control.leave"
    summary = "the learner is asked to leave and leaves in order"
    imitates = "a scheduler that shrinks the job in order"
    proof = "its goodbye on both sides, exit code 0, and no suspicion before it"
    duration_key = "away_s"

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Ask every target to leave, by SIGTERM."""
        fleet.signal(*injection.targets, signal=Signal.SIGTERM)

    def look(self, window: EvidenceWindow) -> Found:
        """Its goodbye, the syncer's account, its exit, and the time of the next round."""
        exited = window.exited
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when it was asked to leave")
        if exited is None:
            text = "was asked to leave and was still running when the fault ended"
            return no_evidence(Code.STILL_RUNNING, text)
        if exited.payload.exit_code != 0:
            text = f"did not leave in order: it ended by {how_it_ended(exited)}"
            return no_evidence(Code.EXITED_INSTEAD, text)

        said, dropped = window.own(LearnerLeft), window.own(MemberLeft)
        suspected = window.own(MemberSuspected)
        is_goodbye = dropped is not None and dropped.payload.reason is LeaveReason.SAID_GOODBYE
        is_asked = said is not None and said.payload.reason is LeftBecause.ASKED
        is_orderly = is_asked and suspected is None and (is_goodbye or not window.was_member)
        left = dropped or exited
        away_s = (window.restarted.time_s if window.restarted else window.end_s) - left.time_s
        next_round_s, usual_gap_s = _rounds_around(left, window.history)
        return Found(
            code=window.lasted(away_s) if is_orderly else Code.NOT_ORDERLY,
            text=_how_it_left(said, dropped, suspected)
            + f", exited with code 0 and was away for {away_s:.1f} s"
            + (
                f"; the next round came {delay(next_round_s, '{} later')}"
                if next_round_s is not None
                else ""
            ),
            measured={
                "left_after_s": max(0.0, exited.time_s - window.begin_s),
                "said_goodbye": is_goodbye,
                "was_suspected": suspected is not None,
                "next_round_after_s": next_round_s,
                "usual_gap_s": usual_gap_s,
                "away_s": away_s,
            },
            proof=(said, dropped, suspected, exited, window.restarted),
        )


def _how_it_joined(life: Life) -> str:
    exited, joined = life.exited, life.member
    if life.ready is None and exited is None:
        return "was started, and never reported that it is ready"
    text = "was started"
    if joined is not None:
        text += f", was a member {delay(joined.time_s - life.started.time_s)}"
        donor = joined.payload.donor
        text += f" (state of {donor})" if donor else ""
    if (contributed_s := life.contributed_s) is not None:
        text += f", contributed {delay(contributed_s)}"
    if exited is not None and not life.is_to_the_end:
        return f"{text} and was gone again ({how_it_ended(exited)})"
    return text if joined is not None else f"{text}, and was not let in while the fault lasted"


# ---------------------------------------------------------------- evidence


def _how_it_left(
    said: Event[LearnerLeft] | None,
    dropped: Event[MemberLeft] | None,
    suspected: Event[MemberSuspected] | None,
) -> str:
    if suspected is not None:
        return "was suspected before it left"
    if said is None:
        return "never reported that it leaves"
    if said.payload.reason is not LeftBecause.ASKED:
        return f"left because of something else ({said.payload.reason})"
    if dropped is None:
        return "left, but the syncer received no goodbye"
    if dropped.payload.reason is not LeaveReason.SAID_GOODBYE:
        return f"left, and the syncer took it for {dropped.payload.reason}"
    return "said goodbye"


def _rounds_around(left: Event, history: History) -> tuple[float | None, float | None]:
    """Seconds from the goodbye to the next round, and the usual time between two before it."""
    rounds = history.of(RoundMerged)
    before_s = [event.time_s for event in rounds if event.seq < left.seq]
    after_s = [event.time_s for event in rounds if event.seq > left.seq]
    gaps_s = [b - a for a, b in pairwise(before_s)]
    next_s = max(0.0, after_s[0] - left.time_s) if after_s else None
    return next_s, median(gaps_s) if gaps_s else None
