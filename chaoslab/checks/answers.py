"""The answers that stand first in every report, whatever the plan expects.

did training continue?      `training_continued`, by a rule that no plan can loosen
which rejoined?             `returns`, for every learner that a fault took away
what was done to it?        `injections`, with what was asked for and what was measured
and after a return?         `afterwards`, to how many rounds it contributed, and how it left
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from chaoslab.checks.absence import Absence, absences
from chaoslab.checks.mixed_lines import mixed
from chaoslab.checks.moot import moot
from chaoslab.checks.outages import Outage, nothing_merged, outages
from chaoslab.checks.resume import began_anew, script_of
from chaoslab.checks.stretches import overlap_s, union
from chaoslab.checks.timeline import (
    Gap,
    baseline_end_s,
    delays_script,
    ended_by_its_rule,
    fault_windows,
    gaps,
    longest_gap,
    of_learner_between,
    parts_after,
    parts_of,
    rounds_with_work,
    training_end,
    training_end_s,
    usual_gap_s,
)
from chaoslab.checks.violations import said_once
from chaoslab.core.events import Json
from chaoslab.core.payloads import FaultSkipped, MemberLeft, NodeExited, RunFinished, RunOutcome
from chaoslab.core.protocol import LeaveReason
from chaoslab.record.history import FaultStory, History

_SURE_FACTOR, _SURE_S = 10.0, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """Whether a learner that faults took away came back the last time, and after how long."""

    rejoined: bool | None
    """None: the run was cut short before the learner had as long after its heal as the `rejoin`
    check of the plan allows, 30 s without one, or nothing tells the lines of a script's workers
    apart."""
    after_s: float | None
    """Time from the beginning of a heal to the first accepted contribution, the longest of all
    its returns; None if it is not back."""
    was_asked: bool = True
    """False: the plan never heals what took it away (`for: rest`), so it need not return."""


_NOT_ASKED = Return(rejoined=False, after_s=None, was_asked=False)


STATUSES = ["proved", "weak", "failed", "moot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """Result of one injection. `requested` and `measured` are keyed by target."""

    id: str
    """Its name in events: injection-0, injection-1, …"""
    fault: str
    """Name of the fault, such as process.kill."""
    targets: tuple[str, ...]
    """Names of the nodes that were hit."""
    status: str = field(metadata={"enum": STATUSES})
    """See docs/verdict.md; an injection that was skipped is failed or moot."""
    reason: str
    """Reason for the status."""
    requested: Mapping[str, Json]
    """Requested settings, by target."""
    measured: Mapping[str, Json]
    """Measured values, by target."""


def training_continued(history: History) -> bool | None:
    """Whether rounds went on being merged from the baseline to the end of training.

    False: a gap, the tail included, was longer than ten times the longest usual gap of the baseline
    and than 5 s, or a script `began_anew`. True: neither, and training ended by its own rule. None:
    nothing was measured, nothing tells the lines of a script's workers apart, or the run or its
    record was cut short before the end could be seen. The time for which injections kept the syncer
    or every learner away, so that nothing was merged, is taken off the gap, the start of the next
    process included, unless the plan never gives them back.
    """
    start_s = baseline_end_s(history)
    baseline_s = usual_gap_s(history)
    if start_s is None or baseline_s is None:
        return None
    away = nothing_merged(history)
    usual_s = max(_SURE_FACTOR * baseline_s, _SURE_S)
    if any(
        gap.length_s - overlap_s(away, gap.start_s, gap.end_s) > usual_s + _paused_s(gap, history)
        for gap in gaps(history, start_s, training_end_s(history))
    ) or began_anew(history):
        return False
    finished = history.last(RunFinished)
    was_cut = finished is not None and finished.payload.outcome is not RunOutcome.COMPLETED
    is_unknown = was_cut or training_end(history) is None or mixed(history) is not None
    return None if is_unknown else True


def _paused_s(gap: Gap, history: History) -> float:
    """How much longer a gap of a script may be, whose workers may need each other: the time for
    which faults held any of them, and that of one start if it is beside such a fault.
    """
    script = script_of(history)
    taken = union(
        (one.start_s, one.end_s)
        for one in fault_windows(history)
        if one.story.takes_away or one.story.injection in delays_script(history)
    )
    if script is None or not any(start_s <= gap.end_s and gap.start_s <= end_s
                                 for start_s, end_s in taken):  # fmt: skip
        return 0.0
    return overlap_s(taken, gap.start_s, gap.end_s) + script.max_pause_s


def longest_gap_s(history: History) -> float | None:
    """The longest stretch without a merged round since the baseline; None without a baseline."""
    start_s = baseline_end_s(history)
    if start_s is None:
        return None
    return longest_gap(history, start_s, training_end_s(history)).length_s


def returns(history: History, *, within_s: float) -> Mapping[str, Return]:
    """By learner that a fault took away, or that lost its syncer to one: one counts as back if a
    round holds a contribution.

    Whether it rejoined is answered by the last absence from which it was asked to return, and by
    the last end of its syncer; earlier ones count if they left it `within_s`. That long after its
    heal a learner has had its chance, however the run ended.
    """
    found: dict[str, Return] = {}
    longest_s: dict[str, float] = {}
    missed: set[str] = set()
    """Learners that were not back once, though they had time for it."""
    for absence in absences(history):
        learner, clock_s = absence.learner, absence.clock_s(absence.accepted)
        if not absence.was_to_be_healed:
            found.setdefault(learner, _NOT_ASKED)
            continue
        is_back, is_late = bool(absence.merged), _is_late(absence, within_s)
        longest_s[learner] = max(longest_s.get(learner, 0.0), clock_s or 0.0)
        if is_late:
            missed.add(learner)
        found[learner] = Return(
            rejoined=_has_rejoined(is_back=is_back, had_time=is_late, history=history),
            after_s=round(longest_s[learner], 3) if is_back else None,
        )
    for outage in outages(history):
        if not outage.was_to_be_healed:
            found = dict.fromkeys(outage.returns, _NOT_ASKED) | found
            continue
        missed.update(learner for learner, left_s in outage.unheard_s.items() if left_s >= within_s)
        for learner in outage.returns:
            is_back = _has_merged(history, outage, learner)
            longest_s[learner] = max(longest_s.get(learner, 0.0), outage.after_s(learner) or 0.0)
            if outage.is_last and (learner not in found or found[learner].rejoined is not False):
                found[learner] = Return(
                    rejoined=_has_rejoined(
                        is_back=is_back,
                        had_time=_had_time(outage, within_s),
                        history=history,
                    ),
                    after_s=round(longest_s[learner], 3) if is_back else None,
                )
    return {
        learner: replace(back, rejoined=False, after_s=None) if learner in missed else back
        for learner, back in found.items()
    }


def overdue(history: History, *, within_s: float) -> frozenset[str]:
    """Those of the learners that did not rejoin that had `within_s` from their heal for it."""
    late = {
        absence.learner
        for absence in absences(history)
        if absence.was_to_be_healed and _is_late(absence, within_s)
    }
    for outage in outages(history):
        if outage.is_last and _had_time(outage, within_s):
            late.update(
                learner for learner in outage.returns if not _has_merged(history, outage, learner)
            )
    found = returns(history, within_s=within_s)
    return frozenset(
        learner for learner, back in found.items() if back.rejoined is False and learner in late
    )


def _has_rejoined(*, is_back: bool, had_time: bool, history: History) -> bool | None:
    """Whether the learner rejoined; None: the run was cut short before its time was over."""
    if is_back:
        return True
    return False if had_time or ended_by_its_rule(history) else None


def _is_late(absence: Absence, within_s: float) -> bool:
    """Whether it had `within_s` from its heal, and no round holds anything of it."""
    since = absence.since
    had_time = since is not None and absence.until_s - since.time_s >= within_s
    return had_time and not absence.merged


def _has_merged(history: History, outage: Outage, learner: str) -> bool:
    """Whether a round after the heal of the syncer holds a contribution of a learner."""
    if outage.since is None:
        return False
    later = parts_after(history, learner, outage.since, outage.until_s)
    return any(not part.merged.payload.is_restated for part in later)


def _had_time(outage: Outage, within_s: float) -> bool:
    return outage.since is not None and outage.until_s - outage.healed_s >= within_s


def injections(history: History) -> Iterator[Injected]:
    """Every injection that was begun, in order, then those that were skipped."""
    excused = moot(history)
    for story in history.faults:
        yield _begun(story, excused.get(story.injection, ""))
    for event in history.of(FaultSkipped):
        had = excused.get(event.payload.injection, "")
        yield Injected(
            id=event.payload.injection,
            fault=event.payload.fault,
            targets=event.payload.targets,
            status="moot" if had else "failed",
            reason=f"never injected: {had or event.payload.reason}",
            requested={},
            measured={},
        )


def _begun(story: FaultStory, had: str) -> Injected:
    """`had`: which other injection had its targets already; "" if it found them there."""
    said = [had] if had else []
    said += [story.failed.payload.reason] if story.failed else []
    said += said_once((e.payload.target, e.payload.text) for e in story.evidence)
    said += [f"weak on {target}: {why}" for target, why in story.doubts.items()]
    return Injected(
        id=story.injection,
        fault=story.fault,
        targets=story.targets,
        status="moot" if had else story.status,
        reason="; ".join(said) or "there is no evidence",
        requested={e.payload.target: e.payload.requested for e in story.evidence},
        measured={e.payload.target: e.payload.measured for e in story.evidence},
    )


# ---------------------------------------------------------------- after a return


_SILENT_ROUNDS = 12


class StopReason(StrEnum):
    """How a learner that was back stopped working before training ended."""

    DIED = "died"
    DROPPED = "dropped"
    SILENT = "silent"
    """It contributed to none of the last 12 rounds or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterWork:
    """Work of a learner from its last return to the end of training, or to its next fault."""

    rounds: int
    """Rounds that were merged since."""
    contributed: int
    """Those of them that it contributed to."""
    left: StopReason | None = None
    """How it stopped working before training ended; None if it worked to the end."""
    left_s: float | None = None
    """Time at which it stopped: its death, its end as a member, or its last contribution."""


def afterwards(history: History, found: Mapping[str, Return]) -> Mapping[str, LaterWork]:
    """Later work of each learner that is back."""
    return {
        learner: _since(history, learner, back_s)
        for learner, back in found.items()
        if back.rejoined
        for back_s in [max(_backs_s(history, learner), default=None)]
        if back_s is not None
    }


def _backs_s(history: History, learner: str) -> Iterator[float]:
    """Times at which its work was accepted again after a fault."""
    for absence in absences(history):
        if absence.learner == learner and absence.accepted is not None:
            yield absence.accepted.time_s
    for outage in outages(history):
        heard = outage.returns.get(learner)
        if heard is not None:
            yield heard.time_s


def _since(history: History, learner: str, back_s: float) -> LaterWork:
    again_s = (one.gone_s for one in absences(history) if one.learner == learner)
    end_s = min([training_end_s(history), *(gone_s for gone_s in again_s if gone_s > back_s)])
    rounds = [
        event.time_s
        for event in rounds_with_work(history)
        if back_s <= event.time_s <= end_s and not event.payload.is_restated
    ]
    given = [
        part.time_s
        for part in parts_of(history, learner)
        if back_s <= part.time_s <= end_s and not part.merged.payload.is_restated
    ]
    last_s = given[-1] if given else back_s
    left, left_s = _left(history, learner, last_s, end_s)
    if left is None and sum(time_s > last_s for time_s in rounds) >= _SILENT_ROUNDS:
        left, left_s = StopReason.SILENT, last_s
    return LaterWork(rounds=len(rounds), contributed=len(given), left=left, left_s=left_s)


def _left(
    history: History, learner: str, last_s: float, end_s: float
) -> tuple[StopReason | None, float | None]:
    """How it stopped working after its last contribution, if it did."""
    for died in history.between(last_s, end_s, NodeExited):
        if died.payload.node == learner and died.time_s < end_s:
            return StopReason.DIED, round(died.time_s, 3)
    for dropped in of_learner_between(history, MemberLeft, learner, last_s, end_s):
        if dropped.payload.reason is not LeaveReason.SAID_GOODBYE and dropped.time_s < end_s:
            return StopReason.DROPPED, round(dropped.time_s, 3)
    return None, None
