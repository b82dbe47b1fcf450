"""Real work: updates, weights, data and losses are those of a learner that trains."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from chaoslab.checks.codes import Code
from chaoslab.checks.real_work import RealWork
from chaoslab.core.events import Event, Json, Kind
from tests.checks.cases import Case, each, fails, passes, rewritten
from tests.histories import Story, half_killed
from tests.trainers.script_story import ScriptStory, usual_loss

CHECK = RealWork()
WHO = "learner-1"


def back() -> Story:
    return Story().baseline().kill(WHO).train(6).heal().train(20).end(losses=[(0, 5.0), (9, 2.6)])


def altered(
    kind: Kind,
    change: Callable[[Event], Mapping[str, Json]],
    story: Callable[[], Story] = back,
    from_s: float = 15.0,
) -> Callable[[], Story]:
    """Of learner-1, or of the merges, from a time after its return on."""

    def fits(event: Event) -> bool:
        return event.time_s > from_s and event.data.get("learner", WHO) == WHO

    return lambda: rewritten(story(), kind, change, fits)


def weighed_half(event: Event) -> Mapping[str, Json]:
    """Half the weight for learner-1."""
    parts = event.data["contributors"]
    assert isinstance(parts, list)
    return {
        "contributors": [
            {**part, "weight": part["weight"] / 2} if part["learner"] == WHO else part
            for part in parts
        ]
    }


def moved(by: Callable[[int], int]) -> Callable[[Event], Mapping[str, Json]]:
    """Another position in its data."""
    return lambda event: {"data_position": by(int(str(event.data["data_position"])))}


def scaled(factor: float) -> Callable[[Event], Mapping[str, Json]]:
    """Pushes of so many times their norm."""
    return lambda event: {"norm": factor * float(str(event.data["norm"]))}


def reporting(loss: float, story: Callable[[], Story] = back) -> Callable[[], Story]:
    return altered(Kind.LEARNER_STEP, lambda _: {"loss": loss}, story)


def all_report(loss: float) -> Story:
    return rewritten(
        back(), Kind.LEARNER_STEP, lambda _: {"loss": loss}, lambda event: event.time_s > 1.0
    )


def noisy(more: float, own: float = 1.2) -> Story:
    """Losses 1.2 above and below 2.5 in turn; those of learner-1 are so much more at the end, and
    `own` above and below that.
    """

    def loss(event: Event) -> Mapping[str, Json]:
        is_late = event.time_s > 15.0 and event.data["learner"] == WHO
        above = own if is_late else 1.2
        sign = 1 if int(str(event.data["step"])) // 5 % 2 else -1
        return {"loss": 2.5 + sign * above + (more if is_late else 0.0)}

    return rewritten(back(), Kind.LEARNER_STEP, loss, lambda event: event.time_s > 1.0)


def learnt_by_heart() -> Story:
    """Losses of 0 at the end, but for a rounding error of the peers of learner-1."""

    def loss(event: Event) -> Mapping[str, Json]:
        is_odd = int(str(event.data["step"])) // 5 % 2 and event.data["learner"] != WHO
        return {"loss": 1e-7 if is_odd else 0.0}

    story = Story().baseline().train(20).end(losses=[(0, 5.0), (5, 0.01), (9, 0.0)])
    return rewritten(story, Kind.LEARNER_STEP, loss, lambda event: event.time_s > 1.0)


def unfallen(for_s: float) -> Story:
    """All losses but the first are above it."""
    return rewritten(
        Story().baseline().train(for_s).end(),
        Kind.LEARNER_STEP,
        lambda _: {"loss": 5.1},
        lambda event: event.time_s > 0.5,
    )


def pushing(factor: float, *learners: str, story: Callable[[], Story]) -> Story:
    """From 15 s on these push so many times their norm."""
    return rewritten(
        story(), Kind.PUSH_ACCEPTED, scaled(factor),
        lambda event: event.time_s > 15.0 and event.data["learner"] in learners,
    )  # fmt: skip


def calm(learners: int) -> Story:
    return Story(learners=learners).baseline().train(20).end()


def most_back() -> Story:
    victims = ("learner-1", "learner-2", "learner-3")
    return Story().baseline().kill(*victims).train(6).heal().train(20).end()


def shortened_beside_them() -> Story:
    """They push hardly anything, and the syncer takes it for usual."""
    story = most_back()
    merged = [event for event in story.events if event.kind is Kind.ROUND_MERGED][-8]
    place: dict[str, Json] = {key: merged.data[key] for key in ("round", "fragment")}
    bounded = replace(
        merged, kind=Kind.PUSH_BOUNDED,
        data={
            **place, "learner": "learner-0", "incarnation": 1, "epoch": 1, "norm": 0.15,
            "usual": 1e-4, "limit": 8.0,
        },
    )  # fmt: skip
    events = [*story.events[: merged.seq], bounded, *story.events[merged.seq :]]
    story.events[:] = [replace(event, seq=seq) for seq, event in enumerate(events)]
    victims = ("learner-1", "learner-2", "learner-3")
    return pushing(0.001, *victims, story=lambda: story)


def all_back() -> Story:
    story = Story(learners=2).baseline()
    for who in ("learner-0", "learner-1"):
        story.kill(who).train(6).heal().train(4)
    return story.train(20).end()


def beside_another() -> Story:
    """A mild fault stays on learner-0 to the end."""
    story = Story().baseline().kill(WHO).train(6).heal().touch("learner-0", for_s=None)
    return story.train(20).end()


def one_in_four(event: Event) -> Mapping[str, Json]:
    number = int(str(event.data["round"]))
    return {"norm": float(str(event.data["norm"])) * (1.0 if number % 4 == 0 else 1e-6)}


def resumed_anew() -> Story:
    """After the syncer's restart each learner goes on with its state, at the start of its data."""
    story = Story().baseline().lose_syncer().stall(3).regain_syncer()
    story.altered(Kind.LEARNER_JOINED, lambda _: {"data_position": 0})
    return story.train(12).end()


CASES = {
    "a run without faults": passes(CHECK, lambda: Story().baseline().train(20).end()),
    "victims that are back": passes(CHECK, lambda: half_killed().train(20).end()),
    "one that was paused": passes(
        CHECK, lambda: Story().baseline().pause(WHO).train(9).heal().train(20).end()
    ),
    "one that was cut off": passes(
        CHECK, lambda: Story().baseline().cut(WHO).train(9).heal().train(20).end()
    ),
    "an outage of the syncer": passes(
        CHECK, lambda: Story().baseline().lose_syncer().stall(6).regain_syncer().train(20).end()
    ),
    "an evaluation like the losses": passes(CHECK, back),
    "zeros in its first step": passes(
        CHECK, altered(Kind.PUSH_ACCEPTED, lambda _: {"norm": 0.0, "c_steps": 1})
    ),
    "zeros": fails(
        CHECK, altered(Kind.PUSH_ACCEPTED, lambda _: {"norm": 0.0}), Code.EMPTY_PUSH, of=(WHO,)
    ),
    "a hundredth of the others' updates": fails(
        CHECK, altered(Kind.PUSH_ACCEPTED, scaled(0.01)), Code.FAINT_PUSH, of=(WHO,)
    ),
    "most come back, and push hardly anything": fails(
        CHECK,
        lambda: pushing(0.001, "learner-1", "learner-2", "learner-3", story=most_back),
        Code.FAINT_PUSH,
        of=("learner-1", "learner-2", "learner-3"),
    ),
    "all were away, and push hardly anything": fails(
        CHECK,
        lambda: pushing(0.001, "learner-0", "learner-1", story=all_back),
        Code.FAINT_PUSH,
        of=("learner-0", "learner-1"),
    ),
    "hardly any update while another is under a fault": fails(
        CHECK,
        lambda: pushing(0.001, WHO, story=beside_another),
        Code.FAINT_PUSH,
        of=(WHO,),
    ),
    "one that is shortened to what such victims push": fails(
        CHECK, shortened_beside_them, Code.FAINT_PUSH,
        of=("learner-1", "learner-2", "learner-3"),
    ),
    "one update in four": fails(
        CHECK, altered(Kind.PUSH_ACCEPTED, one_in_four), Code.FAINT_PUSH, of=(WHO,)
    ),
    "two beside one that pushes far too much": passes(
        CHECK,
        lambda: pushing(1000.0, "learner-2", story=lambda: calm(3)),
    ),
    "a loss of 0 beside two": fails(
        CHECK,
        reporting(0.0, lambda: calm(3)),
        Code.LOSS_UNLIKE_PEERS,
        of=(WHO,),
    ),
    "data begun anew by the same life": fails(
        CHECK, resumed_anew, Code.DATA_REPEATED, Code.DATA_SKIPPED, of=("learner-3",)
    ),
    "half the weight": fails(
        CHECK, altered(Kind.ROUND_MERGED, weighed_half), Code.WEIGHT_WRONG, of=(WHO,)
    ),
    "a join without digests": fails(
        CHECK,
        altered(Kind.LEARNER_JOINED, lambda _: {"digests": {}}, from_s=8.0),
        Code.JOINED_WITHOUT_DIGESTS,
        of=(WHO,),
    ),
    "a worker that goes on without its launcher": fails(
        CHECK,
        lambda: half_killed().train(20).say(
            Kind.NODE_EXITED, node="learner-0", incarnation=1, exit_code=None, signal="SIGKILL",
        ).train(3).end(),
        Code.WORKS_AFTER_DEATH,
        of=("learner-0",),
    ),
    "data begun anew at a join": fails(
        CHECK,
        lambda: half_killed().altered(Kind.LEARNER_JOINED, lambda _: {"data_position": 3}).end(),
        Code.DATA_REPEATED,
        Code.DATA_SKIPPED,  # when it steps on from where it is
        of=("learner-3",),
    ),
    "data skipped at a join": fails(
        CHECK,
        lambda: half_killed()
        .altered(Kind.LEARNER_JOINED, lambda _: {"data_position": 100_000})
        .end(),
        Code.DATA_SKIPPED,
        of=("learner-3",),
    ),
    "an epoch skipped while it was away": fails(
        CHECK,
        lambda: half_killed()
        .altered(Kind.LEARNER_JOINED, lambda event: {
            "data_position": int(str(event.data["data_position"])) + 100
        })
        .end(),
        Code.DATA_SKIPPED,
        of=("learner-3",),
    ),
    "data skipped on the way": fails(
        CHECK,
        altered(Kind.LEARNER_STEP, moved(lambda at: at + 100_000)),
        Code.DATA_SKIPPED,
        of=(WHO,),
    ),
    "data begun anew on the way": fails(
        CHECK,
        altered(Kind.LEARNER_STEP, moved(lambda at: at % 50)),
        Code.DATA_REPEATED,
        of=(WHO,),
    ),
    "one batch for ever, and it says so": fails(
        CHECK, altered(Kind.LEARNER_STEP, moved(lambda _: 7)), Code.DATA_REPEATED, of=(WHO,)
    ),
    "a loss of 0": fails(CHECK, reporting(0.0), Code.LOSS_UNLIKE_PEERS, of=(WHO,)),
    "a loss that does not fall": fails(CHECK, reporting(5.0), Code.LOSS_UNLIKE_PEERS, of=(WHO,)),
    "a loss that stays the same beside those that change": fails(
        CHECK,
        reporting(2.5, lambda: noisy(0.0)),
        Code.LOSS_UNLIKE_PEERS,
        of=(WHO,),
    ),
    "a loss of 0 beside those that are nearly 0": passes(CHECK, learnt_by_heart),
    "a loss as far from the others as two noisy means may be": passes(CHECK, lambda: noisy(3.2)),
    "a loss less noisy than those that it is far from": passes(CHECK, lambda: noisy(1.6, own=0.3)),
    "a loss that is further from them": fails(
        CHECK, lambda: noisy(4.5), Code.LOSS_UNLIKE_PEERS, of=(WHO,)
    ),
    "all report a loss of 0": fails(
        CHECK, lambda: all_report(0.0), Code.LOSS_UNLIKE_EVALUATED
    ),
    "evaluations that never fall": fails(
        CHECK,
        lambda: Story().baseline().train(20).end(losses=[(0, 5.0), (5, 5.3), (9, 5.1)]),
        Code.LOSS_UNLIKE_EVALUATED,
        Code.LOSS_NOT_LOWERED,
    ),
    "a loss that nobody brings down, without an evaluation": fails(
        CHECK, lambda: unfallen(20.0), Code.LOSS_NOT_LOWERED
    ),
    "a loss that has not fallen yet": passes(CHECK, lambda: unfallen(3.0)),
    "negative losses": passes(
        CHECK,
        lambda: rewritten(
            Story().baseline().train(20).end(),
            Kind.LEARNER_STEP,
            lambda event: {"loss": float(str(event.data["loss"])) - 5.0},
        ),
    ),
}  # fmt: skip


@each(CASES)
def test_real_work(case: Case) -> None:
    case.hold()


@pytest.mark.parametrize(
    ("twin", "codes"),
    [(None, ()), (lambda _: 4.0, ()), (usual_loss, (Code.LOSS_NOT_LOWERED,))],
)
def test_the_loss_of_a_script_falls_as_soon_as_that_of_its_twin(
    twin: Callable[[int], float] | None, codes: tuple[Code, ...]
) -> None:
    """In a long warm-up that of neither has."""

    def trained(loss: Callable[[int], float], beside: ScriptStory | None = None) -> ScriptStory:
        story = ScriptStory(workers=1, twin=beside)
        story.workers["worker-0"].loss = loss
        return story.train(220).end()

    story = trained(lambda _: 4.0, trained(twin) if twin else None)
    assert CHECK.judge(story.history()).codes == codes
