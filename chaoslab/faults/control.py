"""Faults of who takes part: learners that join a running training, and learners that leave it.

    control.scale_up   reserve ── start ──► join, adopt, contribute … ── heal: leave in order
    control.leave      member ── SIGTERM ─► goodbye, exit code 0 ─────── heal: start again

Neither breaks anything. Both are faults because a training must stand them at any moment: nobody
may wait for whoever leaves, and whoever joins takes over the state of the run. That a learner was
let in, and how soon it was of use, is a finding (check `join`), not a doubt about the fault.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import ClassVar

from chaoslab.core.events import Event, Json, Kind
from chaoslab.core.exits import has_code_0, how_it_ended
from chaoslab.faults.base import Layer, OneAct
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import (
    EvidenceWindow,
    Found,
    evidence_of_each,
    no_evidence,
)
from chaoslab.faults.process import Signal, start_all
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.plan.model import Injection
from chaoslab.record.journal import History


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlScaleUp(OneAct):
    """Start learners of the reserve in a running training; heal by letting them leave in order.

    With `for: rest` they stay to the end, and are learners like any other from then on.
    """

    name: ClassVar[str] = "control.scale_up"
    summary: ClassVar[str] = "learners of the reserve join the running training"
    layer: ClassVar[Layer] = Layer.PROCESS
    imitates: ClassVar[str] = "spare capacity that arrives in mid-training"
    proof: ClassVar[str] = "its process began in mid-training, said so itself, and stayed"
    needs: ClassVar[frozenset[Ability]] = frozenset({Ability.KILL})
    takes_away: ClassVar[bool] = False
    brings_in: ClassVar[bool] = True

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Start every one of them."""
        for name in injection.targets:
            fleet.restart(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Ask them to leave; whoever is gone already is left alone."""
        fleet.signal(*injection.targets, signal=Signal.SIGTERM)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """Nobody was there before, a process is there now, and the learner says so itself."""
        return evidence_of_each(injection, history, _look_joined, {"stays_s": injection.for_s})


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlLeave(OneAct):
    """Ask the learner to leave, as a scheduler that shrinks a job does; heal by starting it again.

    It ends its step, saves its checkpoint, says goodbye and exits with code 0.
    """

    name: ClassVar[str] = "control.leave"
    summary: ClassVar[str] = "the learner is asked to leave and leaves in order"
    layer: ClassVar[Layer] = Layer.PROCESS
    imitates: ClassVar[str] = "a scheduler that shrinks the job in order"
    proof: ClassVar[str] = "its goodbye on both sides, exit code 0, and no suspicion before it"
    needs: ClassVar[frozenset[Ability]] = frozenset({Ability.KILL})
    takes_away: ClassVar[bool] = True

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """SIGTERM."""
        fleet.signal(*injection.targets, signal=Signal.SIGTERM)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Start the next incarnation of each; one that never left is ended first."""
        start_all(injection, fleet)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        """What it said, what the syncer said, how it exited, and when the next round came."""
        look = partial(_look_left, history=history)
        return evidence_of_each(injection, history, look, {"away_s": injection.for_s})


# ---------------------------------------------------------------- who came


def _look_joined(window: EvidenceWindow) -> Found:
    started = window.first(Kind.NODE_STARTED)
    if window.incarnation is not None:
        return no_evidence(Code.ALREADY_RUNNING, "was there already when it was to join")
    if started is None:
        return no_evidence(Code.NOT_STARTED, "was not started")
    life = started.integer("incarnation")
    own = [event for event in window.during if event.data.get("incarnation") == life]
    first = {
        kind: next((event for event in own if event.kind is kind), None)
        for kind in (Kind.LEARNER_STARTED, Kind.MEMBER_JOINED, Kind.LEARNER_JOINED,
                     Kind.PUSH_ACCEPTED, Kind.NODE_EXITED)
    }  # fmt: skip
    exited = first[Kind.NODE_EXITED]
    stayed_s = (exited.time_s if exited else window.end_s) - started.time_s
    if exited is not None:
        code = Code.ENDED_AGAIN
    elif first[Kind.LEARNER_STARTED] is None:
        code = Code.NO_REPORT
    else:
        code = window.lasted(stayed_s)
    return Found(
        code=code,
        text=_how_it_joined(first, started),
        measured={
            "joined_after_s": _after_s(started, first[Kind.MEMBER_JOINED]),
            "held_everything_after_s": _after_s(started, first[Kind.LEARNER_JOINED]),
            "contributed_after_s": _after_s(started, first[Kind.PUSH_ACCEPTED]),
            **_from_whom(first[Kind.LEARNER_JOINED]),
            "stayed_s": stayed_s,
        },
        proof=(started, *(event for event in first.values() if event is not exited)),
    )


def _how_it_joined(first: Mapping[Kind, Event | None], started: Event) -> str:
    exited, joined = first[Kind.NODE_EXITED], first[Kind.MEMBER_JOINED]
    if first[Kind.LEARNER_STARTED] is None and exited is None:
        return "was started, and never said that it is a learner"
    text = "was started"
    if joined is not None:
        text += f", was a member after {_after_s(started, joined):.1f} s"
        donor = joined.data.get("donor")
        text += f" (state of {donor})" if donor else ""
    if (contributed_s := _after_s(started, first[Kind.PUSH_ACCEPTED])) is not None:
        text += f", contributed after {contributed_s:.1f} s"
    if exited is not None:
        return f"{text} and was gone again ({how_it_ended(exited)})"
    return text if joined is not None else f"{text}, and was not let in while the fault lasted"


def _from_whom(complete: Event | None) -> Mapping[str, Json]:
    """Where its parameters came from: a donor's checkpoint, or the syncer's fragments."""
    if complete is None:
        return {"source": None, "donor": None}
    return {"source": complete.data.get("source"), "donor": complete.data.get("donor")}


def _after_s(began: Event, event: Event | None) -> float | None:
    return None if event is None else max(0.0, event.time_s - began.time_s)


# ---------------------------------------------------------------- who went


def _look_left(window: EvidenceWindow, history: History) -> Found:
    exited = window.exited
    if window.incarnation is None:
        return no_evidence(Code.NOT_RUNNING, "was not running when it was asked to leave")
    if exited is None:
        text = "was asked to leave and was still running when the fault ended"
        return no_evidence(Code.STILL_RUNNING, text)
    if not has_code_0(exited):
        text = f"did not leave in order: it ended by {how_it_ended(exited)}"
        return no_evidence(Code.EXITED_INSTEAD, text)

    def own(kind: Kind) -> Event | None:
        return window.first(kind, lambda e: e.data.get("incarnation") == window.incarnation)

    said, dropped, suspected = (
        own(kind) for kind in (Kind.LEARNER_LEFT, Kind.MEMBER_LEFT, Kind.MEMBER_SUSPECTED)
    )
    is_goodbye = dropped is not None and dropped.data.get("reason") == "said_goodbye"
    is_asked = said is not None and said.data.get("reason") == "asked"
    is_orderly = is_asked and suspected is None and (is_goodbye or not window.was_member)
    left = dropped or exited
    away_s = (window.restarted.time_s if window.restarted else window.end_s) - left.time_s
    next_round_s, usual_gap_s = _rounds_around(left, history)
    return Found(
        code=window.lasted(away_s) if is_orderly else Code.NOT_ORDERLY,
        text=_how_it_left(said, dropped, suspected)
        + f", exited with code 0 and was away for {away_s:.1f} s"
        + (f"; the next round came {next_round_s:.2f} s later" if next_round_s is not None else ""),
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


def _how_it_left(said: Event | None, dropped: Event | None, suspected: Event | None) -> str:
    if suspected is not None:
        return "was suspected before it left"
    if said is None:
        return "never said that it leaves"
    if said.data.get("reason") != "asked":
        return f"left because of something else ({said.data.get('reason')})"
    if dropped is None:
        return "left without a goodbye that the syncer heard"
    if dropped.data.get("reason") != "said_goodbye":
        return f"left, and the syncer took it for {dropped.data.get('reason')}"
    return "said goodbye"


def _rounds_around(left: Event, history: History) -> tuple[float | None, float | None]:
    """Seconds from the goodbye to the next round, and the usual time between two before it."""
    rounds: Sequence[Event] = history.of(Kind.ROUND_MERGED)
    before_s = [event.time_s for event in rounds if event.seq < left.seq]
    after_s = [event.time_s for event in rounds if event.seq > left.seq]
    gaps_s = [b - a for a, b in pairwise(before_s)]
    next_s = max(0.0, after_s[0] - left.time_s) if after_s else None
    return next_s, median(gaps_s) if gaps_s else None
