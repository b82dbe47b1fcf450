"""Unrequested exits: nodes that ended, left or joined, asked by neither harness nor syncer.

    exit that the evidence of an injection on the node names              ─► asked for
    exit by a signal that the harness sent while an injection was on it   ─► asked for
    exit with code 0 once training had ended, or by the harness's signal  ─► asked for
    exit by the lease of its host, because the harness stalled            ─► a doubt
    exit beside a worker or launcher that an injection had taken away     ─► asked for
    exit of a worker before its launcher ended with 0                     ─► asked for
    exit of a script that was told to end, or its launcher, at the end    ─► asked for
    exit of a worker with 0, and others then got further than it          ─► unasked
    any other exit                                                        ─► unasked
    a learner's "training has stopped" before the syncer ended it         ─► unasked
    a learner's "asked to leave", and no injection had it                 ─► unasked
    member.joined of a life that was never started                        ─► a stranger

Each exit is judged by itself: that one exit of a node was asked for excuses no other one. A
launcher ends its workers together, and with them itself or not. Workers that outlive it by more
than 1.5 s are orphans: nothing ends them, and they write beside those that are started next.
"""

from collections.abc import Iterator

from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import (
    ENDING_S,
    before_the_end,
    is_script,
    launchers,
    leaves_at_end,
    training_end,
)
from chaoslab.checks.violations import Doubt, Violation
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import (
    LearnerLeft,
    LearnerStep,
    LeftBecause,
    MemberJoined,
    NodeExited,
    NodeStarted,
    RunFinished,
    RunOutcome,
    Status,
)
from chaoslab.record.exits import was_ended_by_harness
from chaoslab.record.history import FaultStory, History

_ALONE_S = 1.5
_SLACK_S = 1.0
"""Most time between the reading of lines that two nodes printed at once."""


def unrequested(history: History) -> Iterator[Violation]:
    """Every exit of a learner or the syncer that was not asked for, in order."""
    for event in _unasked(history):
        if not event.payload.lease_over:
            yield Violation.at(event, Code.UNEXPECTED_EXIT, said_exit(event), event.payload.node)


def by_lease(history: History) -> Iterator[Doubt]:
    """Every exit for which the harness itself is to blame."""
    for event in _unasked(history):
        if event.payload.lease_over:
            node, words = event.payload.node, event.payload.last_words
            text = (
                f"{node} was ended by its host, which had lost contact with the harness ({words})"
            )
            yield Doubt(Code.MACHINE_STALLED, text)


def _unasked(history: History) -> Iterator[Event[NodeExited]]:
    for event in _judged_exits(history):
        was_asked = any(_asked_for(story, event, history) for story in history.faults)
        if not was_asked and not _is_ending(event, history):
            yield event


def left_early(history: History) -> Iterator[Violation]:
    """Every learner that left before training ended for a reason that is not true: it reported that
    training had stopped, or that it had been asked to leave.
    """
    yield from _left_unasked(history)
    end = training_end(history)
    if end is None or end.kind is not Kind.SYNCER_STOPPED:
        return
    for left in leaves_at_end(history):
        if left.time_s < end.time_s - _SLACK_S:
            learner = left.payload.learner
            text = (
                f"{learner} left at {left.time_s:.1f} s as if training had ended, and the syncer "
                f"ended it at {end.time_s:.1f} s"
            )
            yield Violation.at(left, Code.LEFT_EARLY, text, learner)


def _left_unasked(history: History) -> Iterator[Violation]:
    """Lives that left as if asked while under no injection, and not just after one."""
    exits = history.of(NodeExited)
    by_lease = {(e.payload.node, e.payload.incarnation) for e in exits if e.payload.lease_over}
    for left in before_the_end(history, history.of(LearnerLeft)):
        learner, life = left.payload.life
        if left.payload.reason is not LeftBecause.ASKED or (learner, life) in by_lease:
            continue
        if not _is_at_the_end(left, history) and not any(
            learner in story.targets and (story.takes_away or story.brings_in)
            and story.injecting.seq < left.seq and left.time_s <= _let_go_s(story, history)
            for story in history.faults
        ):  # fmt: skip
            text = (
                f"{learner} (incarnation {life}) left at {left.time_s:.1f} s and reported that it "
                "had been asked to, but no injection had asked it"
            )
            yield Violation.at(left, Code.LEFT_EARLY, text, learner)


def _is_at_the_end(left: Event[LearnerLeft], history: History) -> bool:
    """Whether the harness ended the nodes then of a run whose syncer did not end training."""
    end = training_end(history)
    is_run = end is None or end.kind not in (Kind.SYNCER_STOPPED, Kind.SYNCER_FINAL)
    return is_run and left.time_s > (history.end_s if end is None else end.time_s) - ENDING_S


def _let_go_s(story: FaultStory, history: History) -> float:
    """Time until which an exit may follow from an injection."""
    return (story.healed.time_s if story.healed else history.end_s) + ENDING_S


def said_exit(event: Event[NodeExited]) -> str:
    """An exit that was not asked for, as a sentence."""
    signal = event.payload.signal
    code = event.payload.exit_code
    how = f"was killed by {signal}" if signal else f"exited with code {code}"
    if event.payload.out_of_memory:
        how += " out of memory"
    elif signal is None and code is None:
        how = "was removed, so that its end is unknown,"
    return f"{event.payload.node} {how} at {event.time_s:.1f} s, and no injection asked for it"


def _judged_exits(history: History) -> Iterator[Event[NodeExited]]:
    """Exits of all nodes but the evaluator, which the end of the run covers."""
    evaluators = {
        event.payload.node for event in history.of(NodeStarted) if event.payload.role == "evaluator"
    }
    for event in history.of(NodeExited):
        if event.payload.node not in evaluators:
            yield event


def _asked_for(story: FaultStory, exited: Event[NodeExited], history: History) -> bool:
    """Whether an injection on this node asked for this very exit."""
    node = exited.payload.node
    if exited.seq < story.injecting.seq:
        return False
    if node not in story.targets:
        is_beside = bool(launchers(history)) and story.takes_away
        return is_beside and exited.time_s <= _let_go_s(story, history)
    evidence = [e for e in story.evidence if e.payload.target == node]
    if any(
        exited.seq in e.payload.proof for e in evidence if e.payload.status is not Status.FAILED
    ):
        return True
    return exited.time_s <= _let_go_s(story, history) and was_ended_by_harness(exited)


def _is_ending(exited: Event[NodeExited], history: History) -> bool:
    """Whether the node ended because training, or a run that was cut short, did."""
    end, finished = training_end(history), history.last(RunFinished)
    is_asked = was_ended_by_harness(exited)
    if is_script(history) and _is_outdone(exited, history):
        return False
    if _is_last_of_launcher(exited, history):
        return True
    if is_script(history) and end is not None and exited.seq > end.seq:
        told = {exited.payload.node, *launchers(history)}  # which may end them before they are told
        late = (e.payload for e in history.of(NodeExited) if e.seq > end.seq)
        if any(one.sent and one.node in told for one in late):
            return True  # as a script ends that was told to, with any code
    if end is not None and exited.time_s >= end.time_s - _SLACK_S:
        has_ended = exited.seq > end.seq
        if exited.payload.exit_code == 0 or (has_ended and is_asked):
            return True
    if finished is None:
        return False
    if finished.payload.outcome is RunOutcome.COMPLETED:  # the syncer was away for good
        return end is not None and end.kind in (Kind.RUN_LEFT, Kind.RUN_FINISHED) and is_asked
    return is_asked and exited.time_s > finished.time_s - ENDING_S


def _is_outdone(exited: Event[NodeExited], history: History) -> bool:
    """Whether another worker got further, and not just then, after a worker had ended by itself, as
    if all had.
    """
    said, reports = exited.payload, history.of(LearnerStep)
    own = [e.payload for e in reports if e.payload.learner == said.node and e.seq < exited.seq]
    if said.sent or not own:
        return False
    furthest = max(one.step for one in own) + max(one.steps for one in own)
    return any(
        e.payload.step > furthest and e.payload.learner != said.node
        for e in reports
        if e.time_s > exited.time_s + _ALONE_S and not e.payload.is_inferred
    )


def _is_last_of_launcher(exited: Event[NodeExited], history: History) -> bool:
    """Whether its launcher ended with 0 afterwards, and had not started it again."""
    said, above = exited.payload, launchers(history)
    if not above or said.node in above or said.exit_code or said.signal:
        return False
    starts = (e.payload for e in history.of(NodeStarted) if e.seq > exited.seq)
    is_again = any(start.node == said.node for start in starts)
    ends = (e.payload for e in history.of(NodeExited) if e.seq > exited.seq)
    return not is_again and any(end.node in above and end.exit_code == 0 for end in ends)


def orphans(history: History) -> Iterator[Violation]:
    """Every worker that ran on after its launcher had ended, before training did."""
    end, above, exits = training_end(history), launchers(history), history.of(NodeExited)
    if not above:
        return
    ended_s = {(e.payload.node, e.payload.incarnation): e.time_s for e in exits}
    for gone in exits:
        if gone.payload.node not in above or (end is not None and gone.seq > end.seq):
            continue
        for started in history.of(NodeStarted):
            node, life = started.payload.node, started.payload.incarnation
            alone_s = ended_s.get((node, life), history.end_s) - gone.time_s
            if node not in above and started.seq < gone.seq and alone_s > _ALONE_S:
                text = (
                    f"{node} ran for {alone_s:.1f} s after {gone.payload.node} had ended at "
                    f"{gone.time_s:.1f} s"
                )
                yield Violation.at(started, Code.ORPHANED, text, node)


# ---------------------------------------------------------------- lives that were never started


def strangers(history: History) -> Iterator[Violation]:
    """Every membership of a life that the harness never started, in order."""
    started = {(e.payload.node, e.payload.incarnation) for e in history.of(NodeStarted)}
    for event in history.of(MemberJoined):
        said = event.payload
        if said.life not in started:
            life = f"incarnation {said.incarnation} of {said.learner}"
            text = f"the syncer let in {life} at {event.time_s:.1f} s, which was never started"
            yield Violation.at(event, Code.NEVER_STARTED, text, said.learner)
