"""The ledger: whatever is taken from, added to or repeated in the books is found."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.ledger import Ledger
from chaoslab.core.events import Event, Json, Kind
from tests.checks.cases import Case, Tell, doubts, each, fails, passes, rewritten
from tests.histories import FRAGMENTS, Story, half_killed

CHECK = Ledger()


def judged(story: Story) -> Finding:
    return CHECK.judge(story.history())


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


# ---------------------------------------------------------------- entry by entry, and the sums

Rewrite = Callable[[Event], dict[str, Json]]


def ended(kind: Kind, change: Rewrite, which: int = -1) -> Tell:
    """A sound run with one line of a kind rewritten."""
    return lambda: half_killed().end().altered(kind, change, which=which)


def without_round(kind: Kind) -> Tell:
    return lambda: half_killed().end().without(kind, lambda event: event.data["round"] == 30)


def more(key: str, amount: int) -> Rewrite:
    return lambda event: {key: getattr(event.payload, key) + amount}


def unbalanced(key: str) -> Rewrite:
    return lambda event: {key: {**getattr(event.payload, key), "0": 12345}}


def on_the_wire_when_its_sender_dies() -> Story:
    story = Story().baseline().mute("learner-2").train(2).kill("learner-2").train(6)
    return story.heal().mute().train(0.5).end()


def late(answer: Kind, **more: Json) -> Story:
    """A push for a round that is over, and what becomes of it."""
    story = half_killed().train(1)
    data = {**story.last(Kind.LEARNER_PUSHED).data, "round": 900}
    story.say(Kind.LEARNER_PUSHED, "learner-3", **data)
    return story.say(answer, "syncer", **data, **more)


def abandoned() -> Story:
    return late(Kind.PUSH_ACCEPTED).say(
        Kind.ROUND_ABANDONED, "syncer", round=900, fragment=0, reason="0"
    )


def accepted_twice() -> Story:
    story = half_killed()
    return story.say(Kind.PUSH_ACCEPTED, "syncer", **story.last(Kind.PUSH_ACCEPTED).data).end()


def merged_again() -> Story:
    """Both books agree that a push begins where the one before it had not ended."""
    story = half_killed().end()
    rewound = more("tokens_from", -600)
    for kind in (Kind.LEARNER_PUSHED, Kind.PUSH_ACCEPTED):
        story.altered(kind, rewound, which=100)
    push = [event for event in story.events if event.kind is Kind.PUSH_ACCEPTED][100]

    def parts(event: Event) -> dict[str, Json]:
        told = {"tokens_from": push.data["tokens_from"]}
        is_it = push.data["learner"]
        parts = event.data["contributors"]
        return {
            "contributors": [{**one, **(told if one["learner"] == is_it else {})} for one in parts]
        }

    is_its = push.data["round"]
    return rewritten(story, Kind.ROUND_MERGED, parts, lambda e: e.data["round"] == is_its)


def shifted(event: Event) -> dict[str, Json]:
    return {
        "committed": {f: v + 100 for f, v in event.payload.committed.items()},
        "discarded": {f: v - 100 for f, v in event.payload.discarded.items()},
    }


def total_of_later(rounds: int) -> Tell:
    """A total that counts rounds which are written down after it."""

    def tell() -> Story:
        story = half_killed().end()
        merged = [event for event in story.events if event.kind is Kind.ROUND_MERGED]
        total = merged[30 + rounds].data["committed_tokens"]
        return story.altered(Kind.ROUND_MERGED, lambda _: {"committed_tokens": total}, which=30)

    return tell


def unanswered() -> Story:
    return half_killed().end().without(Kind.PUSH_ACCEPTED).without(Kind.LEARNER_PUSHED)


SUMS = (Code.COMMITTED_TOKENS_MISMATCH, Code.RUNNING_SUM_WRONG, Code.COMMITTED_DIFFER)
CASES = {
    "a paused learner that joins again": passes(
        CHECK, lambda: Story().baseline().pause("learner-2", for_s=9).train(9).heal().train(9).end()
    ),
    "a push that is never answered": fails(
        CHECK,
        lambda: Story().baseline().mute("learner-2").train(15).end(),
        Code.PUSH_UNANSWERED,
        of=("learner-2",),
    ),
    "a push on the wire when its sender dies": passes(CHECK, on_the_wire_when_its_sender_dies),
    "a push on the wire when training ends": passes(
        CHECK, lambda: Story().baseline().train(9).mute("learner-2").train(3).end()
    ),
    "a push that differs from what was accepted": fails(
        CHECK, ended(Kind.LEARNER_PUSHED, lengthened, 100), Code.COUNTS_DIFFER
    ),
    "what was accepted differs from the push": fails(
        CHECK, ended(Kind.PUSH_ACCEPTED, lengthened, 100), Code.COUNTS_DIFFER
    ),
    "a push that is accepted twice": fails(CHECK, accepted_twice, Code.ACCEPTED_TWICE),
    "a contribution merged but never accepted": fails(
        CHECK, without_round(Kind.PUSH_ACCEPTED), Code.NOT_ACCEPTED
    ),
    "an accepted push that is left out of its round": fails(
        CHECK,
        ended(Kind.ROUND_MERGED, lambda e: {"contributors": e.data["contributors"][1:]}, 30),
        Code.PUSH_LOST,
        Code.RUNNING_SUM_WRONG,
        Code.COMMITTED_TOKENS_MISMATCH,
        Code.COMMITTED_DIFFER,
    ),
    "an accepted push whose round vanishes": fails(
        CHECK, without_round(Kind.ROUND_MERGED), Code.ROUND_NEVER_CLOSED, *SUMS
    ),
    "what was accepted for an abandoned round": passes(CHECK, lambda: abandoned().train(9).end()),
    "a contribution that is applied twice": fails(
        CHECK,
        ended(
            Kind.ROUND_MERGED,
            lambda e: {"contributors": [*e.data["contributors"], e.data["contributors"][0]]},
            30,
        ),
        Code.MERGED_TWICE,
        Code.TOKENS_OVERLAP,
        Code.RUNNING_SUM_WRONG,
        Code.COMMITTED_TOKENS_MISMATCH,
        Code.COMMITTED_DIFFER,
    ),
    "a final account that adds up to more than the syncer booked": fails(
        CHECK, ended(Kind.LEARNER_FINAL, shifted), Code.COMMITTED_DIFFER
    ),
    "a learner that believes something else when it adopts": fails(
        CHECK,
        ended(Kind.LEARNER_ADOPTED, more("committed_tokens", 1)),
        Code.COMMITTED_TOKENS_MISMATCH,
    ),
    "a learner credited with more than it did": fails(
        CHECK,
        ended(Kind.LEARNER_ADOPTED, lambda _: {"discarded_tokens": -1}),
        Code.COMMITTED_TOKENS_MISMATCH,
    ),
    "a total of a round that is no sum": fails(
        CHECK, ended(Kind.ROUND_MERGED, more("committed_tokens", 50)), Code.RUNNING_SUM_WRONG
    ),
    "a final total that is no sum": fails(
        CHECK, ended(Kind.SYNCER_FINAL, more("committed_tokens", 50)), Code.RUNNING_SUM_WRONG
    ),
    "steps of more tokens than those of the others": fails(
        CHECK,
        lambda: rewritten(
            half_killed().end(),
            Kind.LEARNER_STEP,
            lambda event: {"tokens": 2 * event.payload.tokens},
            lambda event: event.data["learner"] == "learner-2",
        ),
        Code.TOKENS_PER_STEP_DIFFER,
    ),
    "a total with the round that is written down right after it": passes(CHECK, total_of_later(1)),
    "a total with rounds that are not": fails(CHECK, total_of_later(3)),
    "no answers": doubts(CHECK, unanswered),
    **{
        f"no {kind}": doubts(CHECK, lambda kind=kind: half_killed().end().without(kind))
        for kind in (Kind.LEARNER_PUSHED, Kind.LEARNER_FINAL, Kind.SYNCER_FINAL)
    },
    **{
        f"{key} of a final account that does not add up": fails(
            CHECK,
            ended(Kind.LEARNER_FINAL, unbalanced(key)),
            Code.TOKEN_LOST,
            of=("learner-3",),
        )
        for key in ("committed", "discarded", "in_flight")
    },
}


@each(CASES)
def test_ledger(case: Case) -> None:
    case.hold()


def test_a_rejected_push_is_answered() -> None:
    finding = judged(late(Kind.PUSH_REJECTED, reason="late").train(9).end())
    assert (finding.outcome, finding.numbers["rejected_pushes"]) == (Outcome.PASS, 1)


def test_tokens_that_are_merged_again_in_a_later_round_fail() -> None:
    finding = judged(merged_again())
    assert finding.outcome is Outcome.FAIL
    assert Code.TOKENS_OVERLAP in finding.codes


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


@settings(max_examples=8)
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
