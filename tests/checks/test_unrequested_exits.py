"""Which exits and departures nobody asked for: each is judged by itself."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from chaoslab.checks.absence import absences
from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.rules import always_judged
from chaoslab.checks.unrequested_exits import (
    by_lease,
    left_early,
    orphans,
    said_exit,
    strangers,
    unrequested,
)
from chaoslab.checks.violations import Violation
from chaoslab.core.events import Event, Json, Kind
from chaoslab.record.history import History
from tests.checks.cases import Tell
from tests.histories import Story, half_killed
from tests.trainers.script_story import ScriptStory


def unasked_exits(history: History) -> tuple[Event, ...]:
    return tuple(history.events[violation.seq] for violation in unrequested(history))


def unasked(history: History) -> list[Violation]:
    return [*unrequested(history), *left_early(history)]


def looped(**ended: Json) -> Story:
    """The second life of a victim ends under the fault as well, in some way."""
    story = Story().baseline().kill("learner-1").train(1).restart("learner-1").train(1)
    return story.exit("learner-1", **ended).train(2).heal().train(9).end()  # type: ignore[arg-type]


def newcomer(exit_code: int) -> Story:
    story = Story(reserve=["learner-4"]).baseline().bring_in("learner-4", for_s=6.0).train(6)
    story.heal().altered(Kind.NODE_EXITED, lambda _: {"exit_code": exit_code})
    return story.train(9).end()


def cut_short() -> Story:
    story = Story().baseline().train(30)
    for name in story.learners:
        story.exit(name, code=0, sent=["SIGTERM"])
    return story.finish("interrupted")


def other_signal() -> Story:
    story = Story().baseline().kill("learner-1").train(6).heal(status="failed").train(9).end()
    story.altered(Kind.NODE_EXITED, lambda _: {"signal": "SIGSEGV"}, which=0)
    return story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"proof": []})


def other_is_killed() -> Story:
    story = Story().baseline().kill("learner-1").train(1).strike("learner-2").train(5)
    return story.heal().train(9).end()


def paused_is_killed() -> Story:
    story = Story().baseline().pause("learner-1").train(2).strike("learner-1").train(4)
    return story.heal(restarts=False).train(9).end()


def all_finish() -> Story:
    """The words of two nodes may reach the record in any order."""
    story = half_killed()
    for learner in story.learners.values():
        story.finish_learner(learner)
        story.exit(learner.name, code=0)
    return story.end()


def one_leaves_early(crash: str = "") -> Story:
    story = half_killed()
    story.finish_learner(story.learners["learner-0"])
    if crash:
        return story.train(1).exit(crash, signal="SIGSEGV").train(6).end()
    return story.exit("learner-0", code=0).train(6).end()


def evaluator_fails() -> Story:
    story = half_killed().end()
    at: Mapping[str, Json] = {"node": "evaluator", "role": "evaluator", "incarnation": 1}
    story.say(Kind.NODE_STARTED, "evaluator", **at, pid=1, labels={})
    return story.exit("evaluator", code=1)


def says_it_was_asked(story: Story, incarnation: int = 1) -> Story:
    who = {**story.learners["learner-1"].who, "incarnation": incarnation}
    return story.say(Kind.LEARNER_LEFT, "learner-1", **who, step=9, reason="asked").train(9)


def notice(then_s: float) -> Story:
    """An injection asks learner-1 to leave, and its next life says so `then_s` after the heal."""
    story = says_it_was_asked(Story().baseline().kill("learner-1")).heal().train(then_s)
    return says_it_was_asked(story, 2).end()


def asked_at_the_end(reason: str) -> Story:
    """The plan took the syncer for good, so that the harness ends the learners."""
    story = Story().baseline().lose_syncer(for_s=None).stall(20)
    who = story.learners["learner-1"].who
    return story.say(Kind.LEARNER_LEFT, "learner-1", **who, step=9, reason="asked").finish(reason)


SEGV = "SIGSEGV"
FOUND: dict[str, tuple[Tell, set[tuple[str, int]]]] = {
    "regular ends, and exits that the proof names": (lambda: half_killed().end(), set()),
    "every exit of a crash loop": (lambda: looped(signal="SIGKILL", sent=["SIGKILL"]), set()),
    "a stranger's kill": (
        lambda: half_killed().strike("learner-2").train(2).end(), {("learner-2", 1)},
    ),
    "a kill of another learner than the victim": (other_is_killed, {("learner-2", 1)}),
    "a kill of a paused learner": (paused_is_killed, {("learner-1", 1)}),
    "a victim that dies again": (
        lambda: half_killed().strike("learner-1").train(2).end(), {("learner-1", 2)},
    ),
    "a victim that is ended long after its heal": (
        lambda: (
            half_killed().exit("learner-1", signal="SIGKILL", sent=["SIGKILL"]).train(2).end()
        ),
        {("learner-1", 2)},
    ),
    "nodes of a run that was cut short": (cut_short, set()),
    "a later life that crashes": (lambda: looped(code=1), {("learner-1", 2)}),
    "a later life that crashes when it is killed": (
        lambda: looped(code=1, sent=["SIGKILL"]), {("learner-1", 2)},
    ),
    "a later life that crashes when it is asked to end": (
        lambda: looped(code=1, sent=["SIGTERM"]), {("learner-1", 2)},
    ),
    "a newcomer that crashes when it is asked to leave": (
        lambda: newcomer(1), {("learner-4", 1)},
    ),
    "a newcomer that leaves in order": (lambda: newcomer(0), set()),
    "a victim that dies by another signal": (other_signal, {("learner-1", 1)}),
    "an exit that the harness sent, without evidence": (
        lambda: Story().baseline().kill("learner-1").train(3).finish("aborted"), set(),
    ),
    "words of two nodes in any order": (all_finish, set()),
    "a crash after training had ended": (
        lambda: half_killed().enter("stop").stop_training().exit("learner-2", signal=SEGV).end(),
        {("learner-2", 1)},
    ),
    "an evaluator that fails is told elsewhere": (evaluator_fails, set()),
    "one that says it was asked to leave, and lives on": (
        lambda: says_it_was_asked(Story().baseline()).end(), {("learner-1", 1)},
    ),
    "one that says so in vain under a fault that takes nobody away": (
        lambda: says_it_was_asked(Story().baseline().touch("learner-1")).heal().end(),
        {("learner-1", 1)},
    ),
    "one that an injection asks": (lambda: notice(0), set()),
    "its next life, long after the heal": (lambda: notice(20), {("learner-1", 2)}),
    "those of a run whose syncer is gone": (lambda: asked_at_the_end("completed"), set()),
    "those of a run that is cut short": (lambda: asked_at_the_end("aborted"), set()),
    "a crash after the word of another learner": (
        lambda: one_leaves_early("learner-2"), {("learner-2", 1), ("learner-0", 1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("tell", "lives"), FOUND.values(), ids=FOUND)
def test_exits_that_nobody_asked_for(tell: Tell, lives: set[tuple[str, int]]) -> None:
    history = tell().history()
    found = [history.events[violation.seq].data for violation in unasked(history)]
    whose = {(data.get("node") or data["learner"], data["incarnation"]) for data in found}
    assert whose == lives


def test_a_crash_of_the_syncer_is_found_with_its_exit_code() -> None:
    (event,) = unasked_exits(Story().baseline().exit("syncer", code=1).train(2).end().history())[:1]
    assert said_exit(event).startswith("syncer exited with code 1 at 5.0 s")


def test_deaths_are_told_apart() -> None:
    (event,) = unasked_exits(half_killed().strike("learner-2").train(2).end().history())
    assert said_exit(event).startswith("learner-2 was killed by SIGKILL at 46.0 s")
    starved = replace(event, data={**event.data, "out_of_memory": True})
    assert "memory" in said_exit(starved)
    removed = replace(event, data={**event.data, "signal": None, "exit_code": None})
    assert "removed" in said_exit(removed)


def test_a_learner_that_leaves_six_seconds_early_is_found_by_its_exit_and_its_word() -> None:
    history = one_leaves_early().history()
    assert {violation.culprit for violation in left_early(history)} == {"learner-0"}
    assert [event.data["node"] for event in unasked_exits(history)] == ["learner-0"]


def test_an_exit_by_the_lease_of_its_host_is_a_doubt_because_the_harness_is_to_blame() -> None:
    story = says_it_was_asked(Story().baseline()).exit(
        "learner-1", sent=[], host_lost=True, lease_over=True
    )
    history = story.train(2).end().history()
    assert unasked_exits(history) == ()
    (doubt,) = by_lease(history)
    assert "learner-1" in doubt.text
    (finding,) = [one for one in always_judged(history) if one.check == "unasked"]
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.MACHINE_STALLED,))


def test_lives_that_the_harness_started_are_no_strangers() -> None:
    assert list(strangers(half_killed().end().history())) == []


def test_a_life_that_nobody_started_is_found_by_name() -> None:
    story = half_killed()
    joined = story.last(Kind.MEMBER_JOINED)
    story.say(Kind.MEMBER_JOINED, "syncer", **{**joined.data, "incarnation": 99})
    history = story.end().history()
    (violation,) = strangers(history)
    assert violation.culprit == joined.payload.learner
    (finding,) = (f for f in always_judged(history) if f.check == "strangers")
    assert finding.codes == (Code.NEVER_STARTED,)


def launched() -> ScriptStory:
    """Two workers of a launcher train."""
    story = ScriptStory().start("launcher").train(20).measure()
    return story.train(20)


def test_workers_that_end_beside_one_that_was_killed_were_ended_by_their_launcher() -> None:
    story = launched().kill("worker-0").exit("worker-1").exit("launcher", code=1)
    story.start("launcher").start("worker-1").heal("worker-0", at=30)
    history = story.train(20).end().history()
    assert unasked(history) == []
    assert [one.learner for one in absences(history)] == ["worker-0", "worker-1"]


def test_a_worker_that_ends_while_no_fault_is_open_was_not_asked_to() -> None:
    history = launched().exit("worker-1").train(9).end().history()
    assert [violation.culprit for violation in unasked(history)] == ["worker-1"]


def test_workers_of_a_launcher_that_ends_well_have_finished() -> None:
    story = launched().exit("worker-0").exit("worker-1").exit("launcher", code=0)
    assert unasked(story.history()) == []


@pytest.mark.parametrize(("steps", "culprits"), [(5, []), (30, ["worker-0", "worker-1"])])
def test_workers_that_outlive_their_launcher_are_orphans(steps: int, culprits: list[str]) -> None:
    story = launched().kill("launcher").train(steps).exit("worker-0").exit("worker-1")
    history = story.heal("launcher", at=0).start("worker-0").start("worker-1").train(9).end()
    assert [violation.culprit for violation in orphans(history.history())] == culprits


def test_a_script_that_was_told_to_end_may_end_with_any_code() -> None:
    history = launched().end(code=143).history()
    assert unasked(history) == []


def test_workers_may_end_by_a_launcher_that_was_told_to_end_before_they_are_told() -> None:
    assert unasked(launched().end(code=143, by_launcher=True).history()) == []
    early = launched().exit("worker-1").end(code=143, by_launcher=True).history()
    assert [violation.culprit for violation in unasked(early)] == ["worker-1"]


@pytest.mark.parametrize(("more", "told"), [(40, True), (13, False), (5, False)])
def test_a_worker_that_ends_as_if_all_had_while_another_gets_further_was_not_asked(
    more: int, told: bool
) -> None:
    """Ahead of one that was killed: that one may come to the same step, and no further; what is
    read late may be told after the end.
    """
    story = ScriptStory().train(30).measure().kill("worker-1").train(5).heal("worker-1", at=30)
    history = story.train(2).exit("worker-0", code=0).train(more).end().history()
    assert [one.culprit for one in unrequested(history)] == (["worker-0"] if told else [])
