"""Predictions of a game-day, compared with what happened.

    Prediction + FaultOutcome ─► answers ─► Answer of each question: right, wrong or open
    answers of all people ─► Score of each, of the team ─► what most of them got wrong

Open: the record does not decide it, because nothing was injected or the run was cut short. An open
answer is not counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from chaoslab.core.units import elapsed, plural
from chaoslab.gameday.effects import Span
from chaoslab.gameday.outcomes import FaultOutcome
from chaoslab.gameday.reactions import Prediction

_FACTOR = 2.0
"""A time is right within this factor either way, …"""
_SHORT_S = 1.0
"""… or if both are below this."""


class Question(StrEnum):
    """Question about a fault, in words of the page."""

    CONTINUES = "training goes on"
    GAP = "longest gap"
    HIT = "hit"
    BACK = "back after the heal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer of one person to one question."""

    said: str
    is_right: bool | None
    """Whether it is right; None: open."""
    part: str = ""
    """The part that was right, if not all: `1 of 2`."""

    def __str__(self) -> str:
        how = {True: "right", False: self.part or "wrong", None: "open"}
        return f"{self.said}: {how[self.is_right]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Number of right answers, of those that the record decides."""

    right: int = 0
    answered: int = 0

    def __str__(self) -> str:
        return f"{self.right} of {self.answered}" if self.answered else ""


def answers(prediction: Prediction, outcome: FaultOutcome) -> Mapping[Question, Answer]:
    """Answers to each question that the person answered."""
    found: dict[Question, Answer] = {}
    if prediction.continues is not None:
        found[Question.CONTINUES] = _continues(prediction.continues, outcome)
    if prediction.gap_s is not None:
        found[Question.GAP] = _time(prediction.gap_s, outcome.longest_gap)
    if prediction.hit is not None:
        found[Question.HIT] = _hit(prediction.hit, outcome)
    if prediction.back_s is not None:
        found[Question.BACK] = _time(prediction.back_s, outcome.back)
    return found


def happened(outcome: FaultOutcome) -> Mapping[Question, str]:
    """The right answers, in words."""
    if not outcome.is_injected:
        return dict.fromkeys(Question, "not injected")
    yes_no = {True: "yes", False: "no", None: "unknown"}
    gap = outcome.longest_gap
    return {
        Question.CONTINUES: yes_no[outcome.continued],
        Question.GAP: "unknown" if gap is None else _gap_text(gap),
        Question.HIT: ", ".join(outcome.hit) or "nobody",
        Question.BACK: _back_text(outcome.back),
    }


def score(found: Iterable[Answer]) -> Score:
    """Score of some answers; one that is right in part counts as wrong."""
    decided = [one.is_right for one in found if one.is_right is not None]
    return Score(right=sum(decided), answered=len(decided))


def team(outcome: FaultOutcome) -> Mapping[Question, Score]:
    """Score of all people together, by question."""
    each = [answers(one, outcome) for one in outcome.predictions]
    return {
        question: score(found[question] for found in each if question in found)
        for question in Question
    }


def mistaken(outcome: FaultOutcome) -> Sequence[str]:
    """Sentence on each question that more than half of those who answered got wrong."""
    real = happened(outcome)
    return [
        f"{outcome.spec}: {_how_many_wrong(found, question)}; what happened: {real[question]}"
        for question, found in team(outcome).items()
        if 2 * found.right < found.answered
    ]


def _how_many_wrong(found: Score, question: Question) -> str:
    if found.answered == 1:
        return f'the only prediction of "{question}" was wrong'
    wrong = found.answered - found.right
    return f'{wrong} of {found.answered} predictions of "{question}" were wrong'


def by_person(outcomes: Sequence[FaultOutcome]) -> Mapping[str, Score]:
    """Scores of each person over all faults, in the order of their first predictions."""
    found: dict[str, list[Answer]] = {}
    for outcome in outcomes:
        for prediction in outcome.predictions:
            found.setdefault(prediction.by, []).extend(answers(prediction, outcome).values())
    return {by: score(said) for by, said in found.items()}


# ---------------------------------------------------------------- one answer


def _continues(said: bool, outcome: FaultOutcome) -> Answer:
    is_right = None if outcome.continued is None else said == outcome.continued
    return Answer(said="yes" if said else "no", is_right=is_right)


def _time(said_s: float, span: Span | None) -> Answer:
    return Answer(said=elapsed(said_s), is_right=None if span is None else _is_near(said_s, span))


def _is_near(said_s: float, span: Span) -> bool | None:
    """Whether the answer is near; None: it might have become right later."""
    are_short = max(said_s, span.length_s) < _SHORT_S
    is_not_over = are_short or span.length_s <= _FACTOR * said_s
    if not span.is_whole:
        return None if is_not_over else False
    return is_not_over and (are_short or said_s <= _FACTOR * span.length_s)


def _hit(said: Sequence[str], outcome: FaultOutcome) -> Answer:
    """Right if exactly those were hit; else how many of them were named."""
    named, hit = set(said), set(outcome.hit)
    found = len(named & hit)
    more = f", and {plural(len(named - hit), 'name')} too many" if named - hit else ""
    return Answer(
        said=", ".join(said) or "nobody",
        is_right=named == hit if outcome.is_injected else None,
        part=f"{found} of {len(hit)}{more}" if found else "",
    )


def _gap_text(gap: Span) -> str:
    return elapsed(gap.length_s) if gap.is_whole else f"at least {elapsed(gap.length_s)}"


def _back_text(back: Span | None) -> str:
    if back is None:
        return "no node was taken away"
    if back.is_whole:
        return elapsed(back.length_s)
    if not back.length_s:
        return "not healed before training ended"
    return f"not back {elapsed(back.length_s)} after the heal, when training ended"
