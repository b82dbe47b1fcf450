"""State of a learner that comes back: its step, learning rate, moments and shard."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from chaoslab.checks.codes import Code
from chaoslab.checks.real_work import RealWork
from chaoslab.core.events import Event, Json, Kind
from tests.checks.cases import Case, each, fails, passes, rewritten
from tests.histories import Story

CHECK = RealWork()
WHO = "learner-1"
Change = Callable[[Event], Mapping[str, Json]]


def back() -> Story:
    return Story().baseline().kill(WHO).train(6).heal().train(20).end()


def joined(change: Change, story: Callable[[], Story] = back) -> Callable[[], Story]:
    """Its second life joins otherwise."""
    return lambda: rewritten(story(), Kind.LEARNER_JOINED, change, _is_second_life)


def stepped(change: Change) -> Callable[[], Story]:
    """Its second life joins and trains otherwise."""
    return lambda: rewritten(joined(change)(), Kind.LEARNER_STEP, change, _is_second_life)


def _is_second_life(event: Event) -> bool:
    return event.data["learner"] == WHO and event.data["incarnation"] == 2


def times(factor: float) -> Change:
    return lambda event: {"learning_rate": factor * float(str(event.data["learning_rate"]))}


def anew(event: Event) -> Mapping[str, Json]:
    """The warm-up begins again."""
    return {"learning_rate": 0.012 * min(1.0, (float(str(event.data["step"])) - 300) / 500)}


def silent(key: str) -> Callable[[], Story]:
    """No learner ever says that."""

    def told() -> Story:
        story = rewritten(back(), Kind.LEARNER_JOINED, lambda _: {key: None})
        return rewritten(story, Kind.LEARNER_STEP, lambda _: {key: None})

    return told


def from_syncer(moments: str, /, **found: Json) -> Callable[[], Story]:
    """Without a donor, with these moments; `found` is what it found on its disk."""

    def told() -> Story:
        story = Story().baseline().kill(WHO).train(6).heal()
        life: dict[str, Json] = {"learner": WHO, "incarnation": 2}
        story.say(Kind.CHECKPOINT_FOUND, WHO, **life, **found)
        how: dict[str, Json] = {"source": "syncer", "donor": None, "moments": moments}
        return joined(lambda _: how, lambda: story.train(20).end())()

    return told


def let_in_late() -> Story:
    """Learner-1 joins at step 0 two seconds after the others."""
    story = Story().baseline().train(20).end()
    kinds = {Kind.MEMBER_JOINED, Kind.LEARNER_JOINED}
    late = [e for e in story.events if e.kind in kinds and e.data["learner"] == WHO]
    early = [
        event
        for event in story.events
        if event.kind is Kind.LEARNER_STEP and event.time_s < 2.0 and event.data["learner"] == WHO
    ]
    events = [e for e in story.events if e not in late and e not in early]
    place = next(at for at, event in enumerate(events) if event.time_s >= 2.0)
    events[place:place] = [
        replace(event, time_s=2.0, data={**event.data, "source": "syncer"}) for event in late
    ]
    story.events[:] = [replace(event, seq=seq) for seq, event in enumerate(events)]
    return story


MOMENTS = (Code.MOMENTS_WRONG,)
RATE = (Code.LEARNING_RATE_WRONG,)
SHARD = (Code.SHARD_WRONG,)
CASES = {
    "as it was given": passes(CHECK, back),
    "a learner that was brought in": passes(
        CHECK,
        lambda: Story(reserve=("learner-4",)).baseline().bring_in("learner-4").train(20).end(),
    ),
    "no digest of moments, though it said one before": fails(
        CHECK, joined(lambda _: {"moments": None}), Code.JOINED_WITHOUT_DIGESTS, of=(WHO,)
    ),
    "a program that says nothing of moments": passes(CHECK, silent("moments")),
    "a program that says no rates": passes(CHECK, silent("learning_rate")),
    "a program that says no shards": passes(CHECK, silent("shard")),
    "ten times the rate": fails(CHECK, stepped(times(10)), *RATE, of=(WHO,)),
    "a thousandth of the rate": fails(CHECK, stepped(times(0.001)), *RATE, of=(WHO,)),
    "a warm-up that begins again": fails(CHECK, stepped(anew), *RATE, of=(WHO,)),
    "ten times the rate from some step on": fails(
        CHECK,
        lambda: rewritten(
            back(), Kind.LEARNER_STEP, times(10),
            lambda event: _is_second_life(event) and event.time_s > 20,
        ),
        *RATE,
        of=(WHO,),
    ),
    "ten times the rate, and nobody else trains": fails(
        CHECK,
        lambda: rewritten(
            Story(learners=2).baseline().kill("learner-0", for_s=None, spec="gone").kill(WHO)
            .stall(0.5).heal(spec="die").train(9).end(),
            Kind.LEARNER_STEP, times(10), _is_second_life,
        ),
        *RATE,
        of=(WHO,),
    ),
    "a rate a fifth higher, as where steps are not quite in time": passes(
        CHECK, stepped(times(1.2))
    ),
    "step 0, with the state that it had": fails(
        CHECK,
        lambda: Story().baseline().lose_syncer().stall(3).regain_syncer()
        .altered(Kind.LEARNER_JOINED, lambda _: {"step": 0}).train(9).end(),
        Code.JOINED_AT_EARLIER_STEP,
        Code.DATA_REPEATED,  # when it steps on from where it was
        of=("learner-3",),
    ),
    "step 0, with the rate of that": fails(
        CHECK,
        joined(lambda _: {"step": 0, "learning_rate": 0.0}),
        Code.JOINED_AT_EARLIER_STEP,
        Code.DATA_REPEATED,  # when it steps on from where it was
        of=(WHO,),
    ),
    "a learner of the start that is let in after the others": passes(CHECK, let_in_late),
    "moments lost on the way": fails(
        CHECK, joined(lambda _: {"moments": "fresh"}), *MOMENTS, of=(WHO,)
    ),
    "moments of another": fails(CHECK, joined(lambda _: {"moments": "m"}), *MOMENTS, of=(WHO,)),
    "a donor of whose gift nothing is on record": passes(
        CHECK,
        lambda: joined(lambda _: {"moments": "m"})().without(Kind.CHECKPOINT_GIVEN, lambda _: True),
    ),
    "those of its own checkpoint": passes(
        CHECK, from_syncer("saved", file="3.checkpoint", step=40, moments="saved", refused=[])
    ),
    "fresh ones, though it found a checkpoint": fails(
        CHECK,
        from_syncer("fresh", file="3.checkpoint", step=40, moments="saved", refused=[]),
        *MOMENTS,
        of=(WHO,),
    ),
    "a checkpoint of a program that says nothing of moments": passes(
        CHECK, from_syncer("some", file="3.checkpoint", step=40, refused=[])
    ),
    "fresh ones without a checkpoint": passes(
        CHECK, from_syncer("fresh", file=None, step=None, refused=[])
    ),
    "some, and nobody knows whose": fails(
        CHECK, from_syncer("some", file=None, step=None, refused=[]), *MOMENTS, of=(WHO,)
    ),
    "the shard of learner-0": fails(CHECK, joined(lambda _: {"shard": 0}), *SHARD, of=(WHO,)),
    "a shard of nobody": fails(CHECK, joined(lambda _: {"shard": 9}), *SHARD, of=(WHO,)),
    "two that read one shard from the start": fails(
        CHECK,
        lambda: rewritten(
            back(), Kind.LEARNER_JOINED, lambda _: {"shard": 0},
            lambda event: event.data["learner"] == WHO,
        ),
        *SHARD,
        of=(WHO,),
    ),
    "data that are not cut": passes(
        CHECK, lambda: rewritten(back(), Kind.LEARNER_JOINED, lambda _: {"shard": 0})
    ),
}  # fmt: skip


@each(CASES)
def test_rejoined_state(case: Case) -> None:
    case.hold()
