"""What is kept of the output of a node that has run for long."""

import pytest

from chaoslab.core.errors import AbilityError
from chaoslab.core.events import Json, Kind, encode, read_node_line
from chaoslab.fleet.attached.past import Past
from chaoslab.fleet.base import Role


def line(kind: Kind, **data: Json) -> bytes:
    return encode({"kind": kind, "node_s": 1.0, "data": data}).encode() + b"\n"


def kept(past: Past) -> list[tuple[str, object]]:
    found = [read_node_line(text, "x") for text in past.lines.decode().splitlines()]
    return [(one.kind.value, one.data.get("learner", one.data.get("step"))) for one in found if one]


def member(kind: Kind, learner: str, incarnation: int) -> bytes:
    return line(kind, learner=learner, incarnation=incarnation, epoch=1)


def test_of_a_syncer_its_last_start_and_who_is_a_member() -> None:
    past = Past()
    past.take(line(Kind.SYNCER_READY, address="a:1") + member(Kind.MEMBER_JOINED, "learner-9", 1))
    past.take(line(Kind.SYNCER_READY, address="a:2"))
    for learner in ("learner-0", "learner-1", "learner-2"):
        past.take(member(Kind.MEMBER_JOINED, learner, 1))
    past.take(line(Kind.ROUND_MERGED, round=1) * 1000)
    past.take(member(Kind.MEMBER_LEFT, "learner-1", 1) + member(Kind.MEMBER_JOINED, "learner-0", 2))
    assert kept(past) == [
        ("syncer.ready", None), ("member.joined", "learner-2"), ("member.joined", "learner-0"),
    ]  # fmt: skip
    assert past.incarnation is None
    assert b'"a:2"' in past.lines


def test_of_a_learner_its_last_step_and_incarnation_however_it_is_cut() -> None:
    text = b"".join(
        (
            line(Kind.LEARNER_JOINED, learner="learner-0", incarnation=3),
            b"ordinary output\n",
            *(
                line(Kind.LEARNER_STEP, learner="learner-0", incarnation=3, step=n)
                for n in range(9)
            ),
        )
    )
    whole, cut = Past(), Past()
    whole.take(text)
    for at in range(0, len(text), 7):
        cut.take(text[at : at + 7])
    assert whole.lines == cut.lines
    assert whole.lines.count(b"learner.step") == 1
    assert b'"step":8' in whole.lines
    assert whole.incarnation == 3


def test_output_that_does_not_go_back_far_enough_is_refused() -> None:
    past = Past()
    past.take(line(Kind.LEARNER_STEP, learner="learner-0", incarnation=3, step=5))
    with pytest.raises(AbilityError, match="learner-0"):
        past.require_complete("learner-0", Role.LEARNER)
    past.take(line(Kind.LEARNER_JOINED, learner="learner-0", incarnation=3))
    past.require_complete("learner-0", Role.LEARNER)
    with pytest.raises(AbilityError, match=r"syncer\.ready"):
        past.require_complete("syncer", Role.SYNCER)


def test_a_line_without_an_end_does_not_fill_memory() -> None:
    past = Past()
    for _ in range(5):
        past.take(b"x" * (1 << 20))
    assert len(past.lines) <= 1 << 20


def test_what_is_no_event_is_left_out() -> None:
    past = Past()
    past.take(b'{"kind":"learner.step", broken\n{"kind":"no.such"}\n{"kind":"member.joined"}\n')
    assert past.incarnation is None
