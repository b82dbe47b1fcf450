"""Which exits and departures nobody asked for: each is judged by itself."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.rules import always_judged
from chaoslab.checks.unrequested_exits import by_lease, left_early, said_exit, unrequested
from chaoslab.checks.violations import Violation
from chaoslab.core.events import Event, Json, Kind
from chaoslab.record.journal import History
from tests.histories import Story, half_killed


def unasked_exits(history: History) -> tuple[Event, ...]:
    return tuple(history.events[violation.seq] for violation in unrequested(history))


def unasked(history: History) -> list[Violation]:
    return [*unrequested(history), *left_early(history)]


def test_exits_that_the_proof_names_and_regular_ends_were_asked_for() -> None:
    assert unasked_exits(half_killed().end().history()) == ()


def test_every_exit_of_a_crash_loop_was_asked_for() -> None:
    story = Story().baseline().kill("learner-1").train(1).restart("learner-1").train(1)
    story.exit("learner-1", signal="SIGKILL", sent=["SIGKILL"]).train(2).heal().train(9).end()
    assert unasked_exits(story.history()) == ()


def test_a_strangers_kill_is_found_and_told() -> None:
    (event,) = unasked_exits(half_killed().strike("learner-2").train(2).end().history())
    assert said_exit(event) == (
        "learner-2 was killed by SIGKILL at 46.0 s, and no injection asked for it"
    )


def test_a_kill_of_another_learner_than_the_victim_is_not_excused_by_the_fault() -> None:
    story = Story().baseline().kill("learner-1").train(1).strike("learner-2").train(5).heal()
    (event,) = unasked_exits(story.train(9).end().history())
    assert event.data["node"] == "learner-2"


def test_a_paused_learner_that_somebody_kills_is_found() -> None:
    story = Story().baseline().pause("learner-1").train(2).strike("learner-1").train(4)
    (event,) = unasked_exits(story.heal(restarts=False).train(9).end().history())
    assert event.data["node"] == "learner-1"


def test_a_victim_that_dies_again_after_it_came_back_is_found() -> None:
    (event,) = unasked_exits(half_killed().strike("learner-1").train(2).end().history())
    assert event.data["incarnation"] == 2


def test_a_crash_of_the_syncer_is_found_with_its_exit_code() -> None:
    story = Story().baseline().exit("syncer", code=1).train(2).end()
    (event,) = unasked_exits(story.history())[:1]
    assert said_exit(event).startswith("syncer exited with code 1 at 5.0 s")


def test_a_death_for_want_of_memory_and_one_that_nobody_saw_are_told_apart() -> None:
    (event,) = unasked_exits(half_killed().strike("learner-2").train(2).end().history())
    starved = replace(event, data={**event.data, "out_of_memory": True})
    assert "was killed by SIGKILL for want of memory at" in said_exit(starved)
    removed = replace(event, data={**event.data, "signal": None, "exit_code": None})
    assert "learner-2 was removed, so that nobody can say how it ended, at" in said_exit(removed)


def test_the_nodes_of_a_run_that_was_cut_short_are_ended_by_the_harness() -> None:
    story = Story().baseline().train(30)
    for name in story.learners:
        story.exit(name, code=0, sent=["SIGTERM"])
    assert unasked_exits(story.finish("interrupted").history()) == ()


# ---------------------------------------------------------------- one exit excuses no other


@pytest.mark.parametrize("sent", [[], ["SIGKILL"], ["SIGTERM"]])
def test_a_later_life_of_a_victim_that_crashes_is_found(sent: list[str]) -> None:
    story = Story().baseline().kill("learner-1").train(1).restart("learner-1").train(1)
    story.exit("learner-1", code=1, sent=sent).train(4).heal().train(9).end()
    (event,) = unasked_exits(story.history())
    assert (event.data["node"], event.data["incarnation"]) == ("learner-1", 2)


def test_a_newcomer_that_crashes_when_it_is_asked_to_leave_is_found() -> None:
    story = Story(reserve=["learner-4"]).baseline().bring_in("learner-4", for_s=6.0).train(6)
    story.heal().altered(Kind.NODE_EXITED, lambda _: {"exit_code": 1}).train(9).end()
    (event,) = unasked_exits(story.history())
    assert event.data["node"] == "learner-4"


def test_a_newcomer_that_leaves_in_order_was_asked_to() -> None:
    story = Story(reserve=["learner-4"]).baseline().bring_in("learner-4", for_s=6.0).train(6)
    assert unasked_exits(story.heal().train(9).end().history()) == ()


def test_a_victim_that_dies_by_another_signal_than_it_was_sent_is_found() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal(status="failed").train(9).end()
    story.altered(Kind.NODE_EXITED, lambda _: {"signal": "SIGSEGV"}, which=0)
    story.altered(Kind.EVIDENCE_MEASURED, lambda _: {"proof": []})
    (event,) = unasked_exits(story.history())
    assert said_exit(event).startswith("learner-1 was killed by SIGSEGV at 5.0 s")


def test_an_exit_that_the_harness_sent_needs_no_evidence() -> None:
    story = Story().baseline().kill("learner-1").train(3).finish("aborted")
    assert unasked_exits(story.history()) == ()


# ---------------------------------------------------------------- the end of training


def test_a_learner_that_leaves_six_seconds_early_is_found() -> None:
    story = half_killed()
    story.finish_learner(story.learners["learner-0"])
    story.exit("learner-0", code=0).train(6).end()
    left = {(v.culprit, v.text.partition(" at ")[0]) for v in unasked(story.history())}
    assert left == {
        ("learner-0", "learner-0 exited with code 0"),
        ("learner-0", "learner-0 left"),
    }


def test_after_one_learners_word_the_crash_of_another_is_found() -> None:
    story = half_killed()
    story.finish_learner(story.learners["learner-0"])
    story.train(1).exit("learner-2", signal="SIGSEGV").train(6).end()
    assert {v.culprit for v in unasked(story.history())} == {"learner-0", "learner-2"}


def test_words_of_two_nodes_may_reach_the_record_in_any_order() -> None:
    story = half_killed()
    for learner in story.learners.values():
        story.finish_learner(learner)
        story.exit(learner.name, code=0)
    story.end()
    assert list(unasked(story.history())) == []


def test_a_crash_after_training_had_ended_is_found() -> None:
    story = half_killed().enter("stop").stop_training().exit("learner-2", signal="SIGSEGV")
    (violation,) = unasked(story.end().history())
    assert violation.culprit == "learner-2"


def test_an_evaluator_that_fails_is_told_by_the_end_of_the_run() -> None:
    story = half_killed().end()
    at: Mapping[str, Json] = {"node": "evaluator", "role": "evaluator", "incarnation": 1}
    story.say(Kind.NODE_STARTED, "evaluator", **at, pid=1, labels={})
    story.exit("evaluator", code=1)
    assert unasked_exits(story.history()) == ()


# ---------------------------------------------------------------- records without `sent`


def _as_format_1(story: Story) -> Story:
    def without_sent(event: Event) -> Event:
        return replace(event, data={k: v for k, v in event.data.items() if k != "sent"})

    story.events = [
        without_sent(event) if event.kind is Kind.NODE_EXITED else event for event in story.events
    ]
    return story.altered(Kind.RUN_STARTED, lambda _: {"record": 1}).without(Kind.SYNCER_STOPPED)


def test_a_record_of_format_1_is_judged_by_its_proofs() -> None:
    assert unasked_exits(_as_format_1(half_killed().end()).history()) == ()
    story = Story().baseline().kill("learner-1").train(1).restart("learner-1").train(1)
    story.exit("learner-1", code=1).train(4).heal().train(9).end()
    story.altered(Kind.EVIDENCE_MEASURED, lambda e: {"proof": [e.payload.proof[0]]})
    (event,) = unasked_exits(_as_format_1(story).history())
    assert event.data["incarnation"] == 2


def test_an_exit_by_the_lease_of_its_host_is_a_doubt_because_the_harness_is_to_blame() -> None:
    story = Story().baseline().exit("learner-1", sent=[], host_lost=True, lease_over=True)
    history = story.train(2).end().history()
    assert unasked_exits(history) == ()
    (doubt,) = by_lease(history)
    assert "learner-1" in doubt.text
    (finding,) = [one for one in always_judged(history) if one.check == "unasked"]
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.MACHINE_HELD_UP,))
