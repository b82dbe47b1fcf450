"""The ledger: whatever is taken from, added to or repeated in the books is found."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.ledger import Ledger
from chaoslab.core.events import Event, Json, Kind
from tests.histories import FRAGMENTS, Story, half_killed


def judged(story: Story) -> Finding:
    return Ledger().judge(story.history())


def lengthened(event: Event) -> dict[str, Json]:
    """Some more tokens in a push."""
    return {
        "c_tokens": event.payload.c_tokens + 100,
        "tokens_to": event.payload.tokens_to + 100,
    }


# ---------------------------------------------------------------- sound books


def test_sound_books_pass_and_add_up() -> None:
    finding = judged(half_killed().end())
    assert finding.outcome is Outcome.PASS
    parts = ("committed_tokens", "discarded_tokens", "in_flight_tokens", "lost_tokens")
    amounts = {part: int(str(finding.numbers[part])) for part in ("raw_tokens", *parts)}
    assert amounts["raw_tokens"] == sum(amounts[part] for part in parts)


def test_what_a_killed_learner_had_not_pushed_is_lost_and_counted() -> None:
    finding = judged(Story().baseline().stall(2).kill("learner-1").train(6).heal().train(9).end())
    assert finding.outcome is Outcome.PASS
    lost = finding.numbers["lost_by_life_tokens"]
    assert lost["learner-1 (incarnation 1)"] == pytest.approx(8 * 500, abs=500)


def test_a_paused_learner_that_joins_again_keeps_sound_books() -> None:
    story = Story().baseline().pause("learner-2", for_s=9).train(9).heal().train(9).end()
    assert judged(story).outcome is Outcome.PASS


# ---------------------------------------------------------------- entry by entry


def test_a_push_that_is_never_answered_fails_by_name() -> None:
    finding = judged(Story().baseline().mute("learner-2").train(15).end())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))
    assert finding.codes == (Code.PUSH_UNANSWERED,)


def test_a_push_on_the_wire_when_its_sender_dies_or_training_ends_needs_no_answer() -> None:
    dying = Story().baseline().mute("learner-2").train(2).kill("learner-2").train(6)
    dying.heal().mute().train(0.5).end()
    assert judged(dying).outcome is Outcome.PASS
    ending = Story().baseline().train(9).mute("learner-2").train(3).end()
    assert judged(ending).outcome is Outcome.PASS


def test_a_rejected_push_is_answered() -> None:
    story = half_killed().train(1)
    push = story.last(Kind.LEARNER_PUSHED)
    story.say(Kind.LEARNER_PUSHED, "learner-3", **{**push.data, "round": 900})
    story.say(Kind.PUSH_REJECTED, "syncer", **{**push.data, "round": 900, "reason": "late"})
    finding = judged(story.train(9).end())
    assert (finding.outcome, finding.numbers["rejected_pushes"]) == (Outcome.PASS, 1)


@pytest.mark.parametrize("kind", [Kind.LEARNER_PUSHED, Kind.PUSH_ACCEPTED])
def test_an_entry_that_differs_between_the_two_books_fails(kind: Kind) -> None:
    finding = judged(half_killed().end().altered(kind, lengthened, which=100))
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.COUNTS_DIFFER,))


def test_a_contribution_merged_but_never_accepted_fails() -> None:
    story = half_killed().end().without(Kind.PUSH_ACCEPTED, lambda event: event.data["round"] == 30)
    finding = judged(story)
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.NOT_ACCEPTED,))


def test_an_accepted_push_that_is_left_out_of_its_round_fails() -> None:
    story = (
        half_killed()
        .end()
        .altered(
            Kind.ROUND_MERGED, lambda e: {"contributors": e.data["contributors"][1:]}, which=30
        )
    )
    finding = judged(story)
    assert finding.outcome is Outcome.FAIL
    assert finding.codes == (
        Code.PUSH_LOST,
        Code.RUNNING_SUM_WRONG,
        Code.BELIEF_WRONG,
        Code.COMMITTED_DIFFER,
    )


def test_an_accepted_push_whose_round_vanishes_fails() -> None:
    story = half_killed().end().without(Kind.ROUND_MERGED, lambda event: event.data["round"] == 30)
    finding = judged(story)
    assert finding.outcome is Outcome.FAIL
    assert finding.codes == (
        Code.ROUND_NEVER_CLOSED,
        Code.BELIEF_WRONG,
        Code.RUNNING_SUM_WRONG,
        Code.COMMITTED_DIFFER,
    )


def test_what_was_accepted_for_an_abandoned_round_is_no_loss() -> None:
    story = half_killed().train(1)
    push = story.last(Kind.LEARNER_PUSHED)
    data = {**push.data, "round": 900}
    story.say(Kind.LEARNER_PUSHED, "learner-3", **data).say(Kind.PUSH_ACCEPTED, "syncer", **data)
    story.say(Kind.ROUND_ABANDONED, "syncer", round=900, fragment=push.data["fragment"], reason="0")
    assert judged(story.train(9).end()).outcome is Outcome.PASS


def test_a_contribution_that_is_applied_twice_fails() -> None:
    story = (
        half_killed()
        .end()
        .altered(
            Kind.ROUND_MERGED,
            lambda e: {"contributors": [*e.data["contributors"], e.data["contributors"][0]]},
            which=30,
        )
    )
    finding = judged(story)
    assert finding.outcome is Outcome.FAIL
    assert finding.codes == (
        Code.MERGED_TWICE,
        Code.TOKENS_OVERLAP,
        Code.RUNNING_SUM_WRONG,
        Code.BELIEF_WRONG,
        Code.COMMITTED_DIFFER,
    )


def test_tokens_that_are_merged_again_in_a_later_round_fail() -> None:
    def rewound(event: Event) -> dict[str, Json]:
        return {"tokens_from": event.payload.tokens_from - 600}

    story = half_killed().end()
    for kind in (Kind.LEARNER_PUSHED, Kind.PUSH_ACCEPTED):
        story.altered(kind, rewound, which=100)
    push = [event for event in story.events if event.kind is Kind.PUSH_ACCEPTED][100]
    merged = next(
        event for event in story.events
        if event.kind is Kind.ROUND_MERGED and event.data["round"] == push.data["round"]
    )  # fmt: skip
    parts = [
        {**part, "tokens_from": push.data["tokens_from"]}
        if part["learner"] == push.data["learner"]
        else part
        for part in merged.data["contributors"]
    ]
    where = [event for event in story.events if event.kind is Kind.ROUND_MERGED].index(merged)
    story.altered(Kind.ROUND_MERGED, lambda _: {"contributors": parts}, which=where)
    finding = judged(story)
    assert finding.outcome is Outcome.FAIL
    assert Code.TOKENS_OVERLAP in finding.codes


# ---------------------------------------------------------------- the sums


@pytest.mark.parametrize("key", ["committed", "discarded", "in_flight"])
def test_a_final_account_that_does_not_add_up_fails(key: str) -> None:
    story = half_killed().end()
    story.altered(Kind.LEARNER_FINAL, lambda e: {key: {**getattr(e.payload, key), "0": 12345}})
    finding = judged(story)
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-3",))
    assert finding.codes == (Code.TOKEN_LOST,)


def test_a_final_account_that_adds_up_to_more_than_the_syncer_booked_fails() -> None:
    def shifted(event: Event) -> dict[str, Json]:
        return {
            "committed": {f: v + 100 for f, v in event.payload.committed.items()},
            "discarded": {f: v - 100 for f, v in event.payload.discarded.items()},
        }

    finding = judged(half_killed().end().altered(Kind.LEARNER_FINAL, shifted))
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.COMMITTED_DIFFER,))


def test_a_learner_that_believes_something_else_when_it_adopts_fails() -> None:
    story = (
        half_killed()
        .end()
        .altered(
            Kind.LEARNER_ADOPTED, lambda e: {"committed_tokens": e.payload.committed_tokens + 1}
        )
    )
    finding = judged(story)
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.BELIEF_WRONG,))


def test_a_learner_credited_with_more_than_it_did_fails() -> None:
    story = half_killed().end().altered(Kind.LEARNER_ADOPTED, lambda _: {"discarded_tokens": -1})
    assert judged(story).codes == (Code.BELIEF_WRONG,)


@pytest.mark.parametrize("kind", [Kind.ROUND_MERGED, Kind.SYNCER_FINAL])
def test_a_total_that_is_not_the_sum_of_what_was_given_fails(kind: Kind) -> None:
    story = half_killed().end()
    story.altered(kind, lambda e: {"committed_tokens": e.payload.committed_tokens + 50})
    finding = judged(story)
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.RUNNING_SUM_WRONG,))


def test_a_learner_whose_steps_count_more_tokens_than_those_of_the_others_fails_by_name() -> None:
    story = half_killed().end()
    for event in story.events:
        if event.kind is Kind.LEARNER_STEP and event.data["learner"] == "learner-2":
            doubled = {"tokens": 2 * event.payload.tokens}
            story.events[event.seq] = replace(event, data={**event.data, **doubled})
    finding = judged(story)
    assert finding.outcome is Outcome.FAIL
    assert "learner-2" in finding.culprits
    assert finding.codes == (Code.TOKENS_PER_STEP_DIFFER,)


def test_a_total_may_count_a_round_that_is_written_down_right_after_it() -> None:
    story = half_killed().end()
    rounds = [event for event in story.events if event.kind is Kind.ROUND_MERGED]
    total = rounds[31].data["committed_tokens"]
    story.altered(Kind.ROUND_MERGED, lambda _: {"committed_tokens": total}, which=30)
    assert judged(story).outcome is Outcome.PASS
    total = rounds[33].data["committed_tokens"]
    story.altered(Kind.ROUND_MERGED, lambda _: {"committed_tokens": total}, which=30)
    assert judged(story).outcome is Outcome.FAIL


# ---------------------------------------------------------------- what cannot be known


@pytest.mark.parametrize(
    "kind", [Kind.LEARNER_PUSHED, Kind.PUSH_ACCEPTED, Kind.LEARNER_FINAL, Kind.SYNCER_FINAL]
)
def test_with_one_book_missing_nothing_is_known(kind: Kind) -> None:
    story = half_killed().end().without(kind)
    if kind is Kind.PUSH_ACCEPTED:  # then no push has an answer either
        story.without(Kind.LEARNER_PUSHED)
    assert judged(story).outcome is Outcome.UNKNOWN


# ---------------------------------------------------------------- any sound run, any theft


@st.composite
def troubled_runs(draw: st.DrawFn) -> Story:
    """Sound runs with kills, pauses and stalls at any time."""
    story = Story(learners=3, rejoin_s=draw(st.sampled_from([0.25, 1.0, 2.5]))).baseline(3)
    for _ in range(draw(st.integers(1, 3))):
        victims = draw(st.lists(st.sampled_from(list(story.learners)), min_size=1, unique=True))
        verb = draw(st.sampled_from([story.kill, story.pause]))
        verb(*victims).train(draw(st.integers(1, 36)) / 4)
        if draw(st.booleans()):
            story.stall(draw(st.integers(1, 8)) / 4)
        story.heal().train(draw(st.integers(1, 24)) / 4)
    return story.train(4).end()


@pytest.mark.deep
@settings(max_examples=40)
@given(troubled_runs())
def test_whatever_dies_or_pauses_sound_books_stay_sound(story: Story) -> None:
    finding = judged(story)
    assert finding.outcome is Outcome.PASS, finding.reason


@settings(max_examples=15)
@given(troubled_runs(), st.data())
def test_tokens_that_disappear_from_any_round_are_missed(story: Story, data: st.DataObject) -> None:
    merged = [event for event in story.events if event.kind is Kind.ROUND_MERGED]
    which = data.draw(st.integers(0, len(merged) - 1))
    parts = [dict(part) for part in merged[which].data["contributors"]]
    part = data.draw(st.sampled_from(parts))
    part["c_tokens"] = int(str(part["c_tokens"])) - FRAGMENTS * 100
    story.altered(Kind.ROUND_MERGED, lambda _: {"contributors": parts}, which=which)
    finding = judged(story)
    assert finding.outcome is Outcome.FAIL
    assert str(part["learner"]) in finding.culprits
