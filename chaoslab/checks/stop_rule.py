"""End of training, one of the rules of every run: by its stop rule, and not by a request."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from statistics import fmean

from chaoslab.checks.base import Finding
from chaoslab.checks.codes import Code
from chaoslab.checks.outages import outages
from chaoslab.checks.timeline import is_script, training_end_s
from chaoslab.checks.violations import Violation, conclude, unknown
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    EvaluationMeasured,
    LearnerFinal,
    LearnerStep,
    MemberJoined,
    MemberLeft,
    Need,
    NodeExited,
    RoundMerged,
    RunFinished,
    RunLeft,
    RunOutcome,
    RunStarted,
    SyncerFinal,
    SyncerStopped,
    SyncerStopRuleMet,
)
from chaoslab.record.history import History

_CLOCKS_AGREE = 0.95
_LATEST = 5
"""Newest samples of a learner; their lowest loss counts."""


def stop_rule(history: History) -> Iterator[Finding]:
    """Training must end by its stop rule; only a run that was cut short may ask for the end.

    While faults are to come the syncer goes on beyond the rule, says that it is met, and waits.
    """
    final, finished = history.last(SyncerFinal), history.last(RunFinished)
    if finished is not None and finished.payload.outcome is not RunOutcome.COMPLETED:
        return
    if history.last(RunLeft) is not None:
        return  # others started it, and it goes on
    is_lost = not all(outage.was_to_be_healed for outage in outages(history))
    if is_lost and (final is None or final.payload.was_asked):
        return  # the plan ended it; the first answer says so
    yield from _stopped_early(history)
    yield from _before_its_twin(history)
    if finished and history.last(SyncerStopped) is None:
        yield unknown("stop", Code.STOP_NOT_SAID, "the syncer never said that training had ended")
    elif final and _waits_to_be_asked(history) and history.last(SyncerStopRuleMet) is None:
        yield unknown(
            "stop",
            Code.STOP_NOT_SAID,
            f"{final.source} ended training at {final.time_s:.1f} s by itself, and never said that "
            "its stop rule was met",
        )
    if final and final.payload.was_asked:
        yield unknown(
            "stop",
            Code.STOPPED_BY_REQUEST,
            f"{final.source} ended training at {final.time_s:.1f} s because it was asked to "
            f"({final.payload.reason}), not because its stop rule was met",
        )


def _stopped_early(history: History) -> Iterator[Finding]:
    """Training that had reached no limit of its stop rule when its syncer ended it."""
    started, final = history.last(RunStarted), history.last(SyncerFinal)
    rule = started.payload.stop if started and Need.WHOLE not in started.payload.without else {}
    if final is None or not rule or final.payload.was_asked:
        return
    reached = _reached(history, rule)
    if not any(map(_is_met, rule, rule.values(), map(reached.__getitem__, rule))):
        told = ", ".join(
            f"{name} {reached[name]:,.4g} of {limit:,.4g}" for name, limit in rule.items()
        )
        text = (
            f"{final.source} ended training at {final.time_s:.1f} s ({final.payload.reason}), and "
            f"its stop rule was not met: {told}"
        )
        found = [Violation.at(final, Code.STOPPED_EARLY, text)]
        yield conclude("stop", found, passed="", samples=1)


def _before_its_twin(history: History) -> Iterator[Finding]:
    """A script that ended by itself, at a step beyond which its twin went on."""
    final, stopped, twin = history.last(SyncerFinal), history.last(SyncerStopped), history.twin
    if not is_script(history) or twin is None or final is None or final.payload.was_asked:
        return
    own, its = history.of(LearnerStep), twin.of(LearnerStep)
    furthest = max((e.payload.step + e.payload.steps for e in own), default=0)
    beyond = next((e.payload.step for e in its if e.payload.step > furthest), None)
    exits = [e for e in history.of(NodeExited) if stopped is not None and e.seq < stopped.seq][-1:]
    has_finished = any(e.payload.exit_code == 0 and not e.payload.sent for e in exits)
    if stopped is not None and beyond is not None and has_finished:
        text = (
            f"training ended by itself at {stopped.time_s:.1f} s ({stopped.payload.reason}), and "
            f"its twin went on to step {beyond:,}, or further"
        )
        yield unknown("stop", Code.STOPPED_EARLY, text, evidence=[stopped])


def _reached(history: History, rule: Iterable[str]) -> Mapping[str, float]:
    """Progress towards each limit of a stop rule, by the whole record."""
    steps = history.of(LearnerStep, LearnerFinal)
    joined = history.of(MemberJoined)
    merged = history.of(RoundMerged)
    return {
        "rounds": len({(one.payload.fragment, one.payload.version) for one in merged}),
        "tokens": max((one.payload.committed_tokens for one in merged), default=0.0),
        "steps": max((one.payload.step for one in steps), default=0),
        "time_s": _lasted_s(joined[0], history) if joined else 0.0,
        "loss": _lowest_loss(history) if "loss" in rule else inf,
    }


def _lowest_loss(history: History) -> float:
    """The lowest mean over the members, or evaluation.

    Of each member the lowest of its latest samples is taken: the syncer heard of more steps than
    the record has samples, and losses vary from step to step.
    """
    found = [event.payload.loss for event in history.of(EvaluationMeasured)]
    latest: dict[str, deque[float]] = {}
    for event in history.of(LearnerStep, MemberLeft):
        if isinstance(event.payload, MemberLeft):
            latest.pop(event.payload.learner, None)
        elif event.payload.loss is not None:
            losses = latest.setdefault(event.payload.learner, deque(maxlen=_LATEST))
            losses.append(event.payload.loss)
            found.append(fmean(map(min, latest.values())))
    return min(found, default=inf)


def _lasted_s(joined: Event[MemberJoined], history: History) -> float:
    """From the first member to the end of training, by the harness's clock or by the syncer's own,
    which is right where the harness heard late of the first one.
    """
    by_harness_s = training_end_s(history) - joined.time_s
    final = history.last(SyncerFinal)
    if final is None or final.node_s is None or joined.node_s is None:
        return by_harness_s
    return max(by_harness_s, final.node_s - joined.node_s)


def _is_met(name: str, limit: float, reached: float) -> bool:
    """Times are told by two clocks."""
    if name == "loss":
        return reached <= limit
    return reached >= limit * (_CLOCKS_AGREE if name == "time_s" else 1)


def _waits_to_be_asked(history: History) -> bool:
    """Whether faults were scheduled."""
    started = history.last(RunStarted)
    return started is not None and any(one.injections for one in started.payload.entries)
