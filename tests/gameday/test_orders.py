"""Lines that people type in a game-day: what they mean, and what is wrong with them."""

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import Action
from chaoslab.gameday.orders import (
    Names,
    order_of,
)
from chaoslab.run.operators import Ask, Note, Order, Predict

NAMES = Names(faults=("half-dies", "half-hangs", "other"), nodes=("learner-0", "learner-1"))


def order(line: str) -> Order:
    return order_of(line, by="Ann", names=NAMES)


def mistake(line: str) -> str:
    with pytest.raises(PlanError) as caught:
        order(line)
    return caught.value.message


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("go", Ask(by="Ann", action=Action.GO)),
        ("go half-dies", Ask(by="Ann", action=Action.GO, spec="half-dies")),
        ("  skip   other ", Ask(by="Ann", action=Action.SKIP, spec="other")),
        ("milder half-dies", Ask(by="Ann", action=Action.MILDER, spec="half-dies")),
        ("stronger half-dies", Ask(by="Ann", action=Action.STRONGER, spec="half-dies")),
        ("repeat half-dies", Ask(by="Ann", action=Action.REPEAT, spec="half-dies")),
        ("heal", Ask(by="Ann", action=Action.HEAL)),
        ("end", Ask(by="Ann", action=Action.END)),
        ("abort the loss explodes",
         Ask(by="Ann", action=Action.ABORT, reason="the loss explodes")),
        ("abort", Ask(by="Ann", action=Action.ABORT)),
        ("Bo> heal half-dies", Ask(by="Bo", action=Action.HEAL, spec="half-dies")),
        ("Bo.2>note it is slow", Note(by="Bo.2", text="it is slow")),
        ("note half-dies: gone at 12:30", Note(by="Ann", spec="half-dies", text="gone at 12:30")),
        ("note hm: loss > 3", Note(by="Ann", text="hm: loss > 3")),
    ],
)  # fmt: skip
def test_a_line_is_an_order_of_whoever_says_it(line: str, meant: Order) -> None:
    assert order(line) == meant


def test_a_prediction_has_any_of_its_parts() -> None:
    assert order("predict half-dies continues=yes gap=1m30s hit=learner-1,learner-0 back=10s") == (
        Predict(by="Ann", spec="half-dies", continues=True, gap_s=90.0,
                hit=("learner-1", "learner-0"), back_s=10.0)
    )  # fmt: skip
    assert order("Bo> predict other continues=no") == Predict(
        by="Bo", spec="other", continues=False
    )
    assert order("predict other hit=nobody") == Predict(by="Ann", spec="other", hit=())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "go, skip"),
        ("Bo>", "go, skip"),
        ("hael half-dies", "`heal`"),
        ("xyz", "abort, end, go"),
        ("go half-die", "`half-dies`"),
        ("skip", "skip FAULT"),
        ("end half-dies", "end"),
        ("note", "note"),
        ("note half-dies:", "note"),
        ("predict", "predict FAULT"),
        ("predict gap=3s", "predict FAULT"),
        ("predict half-dies", "continues=yes, gap=3s"),
        ("predict half-dies gab=3s", "`gap`"),
        ("predict half-dies gap=3", "gap: "),
        ("predict half-dies back=soon", "back: "),
        ("predict half-dies continues=maybe", "continues"),
        ("predict half-dies gap=3s gap=4s", "gap"),
        ("predict half-dies hit=learner-9", "`learner-9`"),
        ("predict half-dies hit=", "hit=nobody"),
    ],
)
def test_a_line_that_is_no_order_says_what_to_write(line: str, words: str) -> None:
    assert words in mistake(line)


def test_no_line_can_steer_a_terminal() -> None:
    noted, aborted = order("note \x1b[2J!"), order("abort \x07")
    assert noted.text == "\\x1b[2J!"
    assert aborted.reason.isprintable()
    assert "\x1b" not in mistake("\x1b[2J")
    assert "\x1b" not in mistake("go \x1b[2J")
