"""Direction and size of updates, as `real_work` judges them."""

from collections.abc import Callable, Mapping

from chaoslab.checks.codes import Code
from chaoslab.checks.real_work import RealWork
from chaoslab.core.events import Event, Json, Kind
from tests.checks.cases import Case, each, fails, passes, rewritten
from tests.histories import Story

CHECK = RealWork()
WHO = "learner-1"
BACK_S = 15.0


def back() -> Story:
    return Story().baseline().kill(WHO).train(6).heal().train(80).end()


def pointing(cosine_of: Callable[[Event, str], float | None], only: int = 9) -> Story:
    """Rounds of at most `only` learners, each with this cosine."""

    def change(event: Event) -> Mapping[str, Json]:
        parts = event.data["contributors"]
        assert isinstance(parts, list)
        return {
            "contributors": [
                {**part, "cosine": cosine_of(event, part["learner"])} for part in parts[:only]
            ]
        }

    return rewritten(back(), Kind.ROUND_MERGED, change, lambda _: True)


def turned(own: float, others: float, only: int = 9) -> Callable[[], Story]:
    """Learner-1 points elsewhere once it is back."""

    def cosine_of(event: Event, who: str) -> float:
        if event.time_s < BACK_S:
            return 0.3
        return own if who == WHO else others

    return lambda: pointing(cosine_of, only)


def briefly(rounds: int) -> Callable[[], Story]:
    """Learner-1 points away in so many rounds in a row, and along in all others."""

    def cosine_of(event: Event, who: str) -> float:
        number = int(str(event.data["round"]))
        noise = 0.02 if number % 2 else -0.02
        return noise + (-0.2 if who == WHO and 60 <= number < 60 + rounds else 0.2)

    return lambda: pointing(cosine_of)


def in_one_fragment(event: Event, who: str) -> float:
    is_it = who == WHO and event.time_s > BACK_S and event.data["fragment"] == 0
    return -0.2 if is_it else 0.2


def by_chance(event: Event, who: str) -> float:
    """Above and below zero, with a mean that is a little below."""
    number = int(str(event.data["round"])) + int(who[-1])
    return -0.06 + (0.2 if number // 2 % 2 else -0.2)


def bounded(*learners: str, steps: int = 0, is_spoilt: bool = False) -> Story:
    """Pushes of one round that the syncer shortened; that of learner-1 comes of so many steps."""
    story = Story().baseline().train(10)
    last = next(event for event in reversed(story.events) if event.kind is Kind.ROUND_MERGED)
    where: Mapping[str, Json] = {"round": last.data["round"], "fragment": last.data["fragment"]}
    for who in learners:
        about: Mapping[str, Json] = {"learner": who, "incarnation": 1, **where}
        story.say(Kind.PUSH_BOUNDED, epoch=1, norm=20.0, usual=1.0, limit=8.0, **about)
        if is_spoilt:
            story.say(Kind.UPDATE_TAMPERED, how="scaled", factor=1000.0, **about)

    def change(event: Event) -> Mapping[str, Json]:
        parts = event.data["contributors"]
        assert isinstance(parts, list)
        more = [
            {**part, "c_steps": steps, "weight": part["c_tokens"] ** 2 / steps}
            if part["learner"] == WHO and steps
            else part
            for part in parts
        ]
        return {"contributors": more}

    return rewritten(story.train(10).end(), Kind.ROUND_MERGED, change, last.__eq__)


def among_its_like(norm: float) -> Story:
    """One of norm 20 that was shortened, in the round of which all others have this norm."""
    story = bounded(WHO)
    number = story.last(Kind.PUSH_BOUNDED).data["round"]
    return rewritten(
        story, Kind.PUSH_ACCEPTED, lambda _: {"norm": norm},
        lambda event: event.data["round"] == number and event.data["learner"] != WHO,
    )  # fmt: skip


def repeated(times: int) -> Story:
    """So many pushes of learner-1 of fragment 0 in a row have one norm."""
    story = Story().baseline().train(20).end()
    fits = [
        event
        for event in story.events
        if event.kind is Kind.PUSH_ACCEPTED
        and (event.data["learner"], event.data["fragment"]) == (WHO, 0)
    ]
    last = fits[-times:]
    return rewritten(story, Kind.PUSH_ACCEPTED, lambda _: {"norm": 0.05}, last.__contains__)


CASES = {
    "one update three times": fails(CHECK, lambda: repeated(3), Code.REPEATED_PUSH, of=(WHO,)),
    "one update twice": passes(CHECK, lambda: repeated(2)),
    "no directions on record": passes(CHECK, lambda: pointing(lambda *_: None)),
    "updates that agree": passes(CHECK, turned(0.3, 0.3)),
    "updates that agree a little": passes(CHECK, turned(0.02, 0.02)),
    "updates that agree no more": passes(CHECK, turned(-0.01, 0.01)),
    "directions of chance": passes(CHECK, lambda: pointing(by_chance)),
    "one that points away": fails(
        CHECK, turned(-0.3, 0.1), Code.MISDIRECTED_PUSH, of=(WHO,)
    ),
    "one that points away from two": fails(
        CHECK, turned(-0.3, -0.09, only=3), Code.MISDIRECTED_PUSH, of=(WHO,)
    ),
    "one that points away in eight rounds": fails(
        CHECK, briefly(8), Code.MISDIRECTED_PUSH, of=(WHO,)
    ),
    "one that points away in two rounds": passes(CHECK, briefly(2)),
    "one of two, nobody knows which": passes(CHECK, turned(-0.3, -0.3, only=2)),
    "all point away from each other": passes(CHECK, turned(-0.9, -0.9)),
    "one fragment that points away": fails(
        CHECK, lambda: pointing(in_one_fragment), Code.MISDIRECTED_PUSH, of=(WHO,)
    ),
    "one that is as long as those of its peers": passes(CHECK, lambda: among_its_like(20.0)),
    "one that is four times as long": fails(
        CHECK, lambda: among_its_like(5.0), Code.OVERSIZED_PUSH, of=(WHO,)
    ),
    "one that is far too long": fails(CHECK, lambda: bounded(WHO), Code.OVERSIZED_PUSH, of=(WHO,)),
    "all are too long": passes(CHECK, lambda: bounded(*back().history().learners)),
    "of far more steps than its peers": passes(CHECK, lambda: bounded(WHO, steps=1000)),
    "too long, as a fault had it": passes(CHECK, lambda: bounded(WHO, is_spoilt=True)),
}  # fmt: skip


@each(CASES)
def test_update_vectors(case: Case) -> None:
    case.hold()
