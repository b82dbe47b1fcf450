"""The fold over events: what each node, fault and count says at a moment, and said before."""

from collections.abc import Sequence

import pytest

from chaoslab.core.events import Kind
from chaoslab.plan.model import Stop
from chaoslab.report.story import RunStory
from chaoslab.report.story_parts import State
from tests.histories import Story, half_killed
from tests.trainers.script_story import ScriptStory


def seen(story: Story, told: RunStory | None = None) -> tuple[RunStory, list[str]]:
    """What is known at the end of a story, and all that was said."""
    told = told or RunStory()
    return told, [said.text for event in story.events for said in told.see(event)]


def states(story: Story, name: str) -> Sequence[State]:
    """What a node did, one after the other."""
    spans = [span.state for span in seen(story)[0].nodes.by_name[name].spans]
    return [state for state, before in zip(spans, [None, *spans], strict=False) if state != before]


def reserve() -> Story:
    return Story(reserve=["learner-4"]).baseline().bring_in("learner-4").train(6).heal().train(1)


def last_words(story: Story) -> Story:
    """A report of the first life of learner-1."""
    said = next(e for e in story.events if (e.kind, e.source) == (Kind.LEARNER_STEP, "learner-1"))
    return story.say(Kind.LEARNER_STEP, "learner-1", **said.data)


RECOVERED = {"learner": "learner-1", "incarnation": 1, "epoch": 1, "idle_s": 2.0}


@pytest.mark.parametrize(
    ("story", "name", "shown"),
    [
        (half_killed().end(), "learner-1", "dead, rejoining, stepping, ended"),
        (last_words(Story().baseline().kill("learner-1")), "learner-1", "stepping, dead"),
        (Story().baseline().pause("learner-1").train(9).heal().train(4), "learner-1",
         "stepping, suspected, dropped, rejoining, stepping"),
        (Story().baseline().suspect("learner-1").say(Kind.MEMBER_RECOVERED, **RECOVERED),
         "learner-1", "stepping, suspected, stepping"),
        (Story().baseline().say(Kind.NODE_PROBED, node="learner-1", state="T").train(2),
         "learner-1", "paused, stepping"),
        (reserve(), "learner-4", "in reserve, joining, stepping, left"),
        (reserve().restart("learner-4"), "learner-4", "left, rejoining"),
    ],
)  # fmt: skip
def test_a_learner_is_in_the_state_that_the_record_says(
    story: Story, name: str, shown: str
) -> None:
    assert ", ".join(states(story, name)).endswith(shown)


def settled(story: Story) -> str:
    return seen(story.settle())[1][-1]


def test_a_settled_run_names_who_stays_away_and_whether_the_plan_asked_for_it() -> None:
    assert "learner-1" not in settled(Story().baseline())
    by_plan = settled(Story().baseline().kill("learner-1"))
    unplanned = settled(Story().baseline().kill("learner-1").heal(restarts=False))
    assert "learner-1" in by_plan
    assert "learner-1" in unplanned != by_plan
    assert settled(Story().baseline().touch("learner-1").strike("learner-1")) == unplanned
    left = Story(reserve=["learner-4"]).baseline().bring_in("learner-4").train(6).heal()
    assert settled(left) == by_plan.replace("learner-1", "learner-4")


def test_the_way_back_is_counted_from_the_beginning_of_the_heal() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal(restarts=False).train(1.5)
    story.restart("learner-1").train(4).strike("learner-1").train(5).restart("learner-1").train(4)
    _, said = seen(story)
    assert [one for one in said if "again" in one] == [
        "contributes again: learner-1 after 2.50 s", "contributes again: learner-1 after 1.00 s",
    ]  # fmt: skip
    assert "learner-4 after 1.00 s" in str(seen(reserve())[1])


def test_rounds_gaps_and_progress_are_counted() -> None:
    story = Story().baseline().stall(4).train(9)
    told, _ = seen(story, RunStory(Stop(rounds=1000, tokens=10**9)))
    *_, one, other = rounds = story.history().of(Kind.ROUND_MERGED)
    assert (told.rounds.merged, told.rounds.longest_gap_s) == (len(rounds), 4.25)
    assert told.progress == len(rounds) / 1000
    tokens = other.payload.committed_tokens - one.payload.committed_tokens
    assert told.rounds.tokens_per_s == pytest.approx(tokens / (other.time_s - one.time_s))
    assert seen(story, RunStory(Stop(loss=1.0)))[0].progress is None


def test_a_fault_holds_its_targets_until_it_is_healed() -> None:
    story = Story().baseline().kill("learner-1")
    told, _ = seen(story)
    assert [bar.fault for bar in told.faults_on("learner-1")] == ["process.kill"]
    assert told.faults_on("learner-0") == ()
    told, _ = seen(story.heal())
    assert told.faults_on("learner-1") == ()
    assert told.faults["injection-0"].status == "healed"


def test_an_event_that_breaks_its_contract_is_counted_and_does_not_end_the_view() -> None:
    story = half_killed().altered(Kind.LEARNER_STEP, lambda _: {"step": "?"})
    told, _ = seen(story.end())
    assert (told.unreadable, told.nodes.by_name["learner-1"].state) == (1, State.ENDED)


# ---------------------------------------------------------------- the moment, and the way back


def test_the_moment_says_what_goes_on_and_not_for_how_long_the_phase_lasts() -> None:
    story, moments = Story(), list[str]()
    told = RunStory()
    taken = 0
    for verb in (
        Story.baseline,
        lambda it: it.kill("learner-1").train(3),
        lambda it: it.heal(),
        lambda it: it.train(9),
        Story.settle,
    ):
        verb(story)
        for event in story.events[taken:]:
            told.see(event)
        taken = len(story.events)
        moments.append(told.moment)
    assert moments == [
        "no fault active", "fault active", "victims come back", "no fault active", "settle",
    ]  # fmt: skip


def test_a_fault_knows_when_it_heals_and_after_how_long_each_victim_was_back() -> None:
    story = Story().baseline().kill("learner-1", "learner-3", for_s=6.0).train(2)
    (fault,) = seen(story)[0].faults.values()
    assert fault.heals_s == pytest.approx(story.last(Kind.FAULT_INJECTED).time_s + 6.0)
    assert fault.back_after_s == {}
    story.train(4).heal().train(6)
    (fault,) = seen(story)[0].faults.values()
    assert fault.heals_s is None
    assert fault.back_after_s == {"learner-1": pytest.approx(1.0), "learner-3": pytest.approx(1.0)}


def test_all_workers_come_back_when_a_fault_takes_one_of_a_launcher_away() -> None:
    story = ScriptStory().start("launcher").train(20).measure().kill("launcher")
    story.exit("worker-0").exit("worker-1").heal("launcher", at=0)
    (fault,) = RunStory.of(
        story.start("worker-0").start("worker-1").train(9).events
    ).faults.values()
    assert sorted(fault.back_after_s) == ["worker-0", "worker-1"]


def test_a_contribution_of_an_earlier_life_is_no_return() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal(restarts=False)
    merged = dict(story.last(Kind.ROUND_MERGED).data)
    late = {**merged, "round": 10_000}
    late["contributors"] = [{**merged["contributors"][0], "learner": "learner-1", "incarnation": 0}]
    story.say(Kind.ROUND_MERGED, **late)
    (fault,) = seen(story)[0].faults.values()
    assert fault.back_after_s == {}


def test_a_worker_that_was_started_again_beside_the_killed_one_is_told_so() -> None:
    story = ScriptStory().start("launcher").train(20).measure().kill("worker-1").exit("worker-0")
    story.start("worker-0").heal("worker-1", at=20).train(9)
    told = RunStory()
    said = [one.text for event in story.events for one in told.see(event)]
    backs = {one.split()[2]: "not hit" in one for one in said if "again: " in one}
    assert backs == {"worker-0": True, "worker-1": False}
