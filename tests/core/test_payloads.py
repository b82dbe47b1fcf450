from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.events import Event, Json, Kind, MalformedEvent, data_of
from chaoslab.core.payloads import LearnerStep, NodeExited, RoundMerged, kind_of, payloads
from chaoslab.record.journal_file import JournalFile, read_journal

CONTRIBUTOR = {"learner": "learner-0", "incarnation": 1, "epoch": 1, "step": 5, "c_steps": 5,
               "c_tokens": 500, "weight": 1.0, "tokens_from": 0, "tokens_to": 500}  # fmt: skip


def said(kind: Kind, data: Mapping[str, Json]) -> Event:
    return Event(seq=7, time_s=0.0, source="test", kind=kind, data=data)


def test_every_kind_has_a_payload_of_its_own() -> None:
    assert set(payloads()) == set(Kind)
    assert kind_of(NodeExited) is Kind.NODE_EXITED


EXITED: Mapping[str, Json] = {"node": "learner-0", "incarnation": 1, "pid": 7}
STEP: Mapping[str, Json] = {
    "learner": "learner-0", "incarnation": 1, "epoch": 1, "step": 5, "step_s": 0.5, "loss": 2.5,
    "tokens": 500, "data_position": 0,
}  # fmt: skip
MERGED: Mapping[str, Json] = {
    "round": 3, "fragment": 0, "version": 1, "base_version": 0, "contributors": [CONTRIBUTOR],
    "committed_tokens": 500,
}  # fmt: skip


def test_a_payload_is_made_once_and_holds_what_the_line_says() -> None:
    event = said(Kind.NODE_EXITED, {**EXITED, "exit_code": 3, "sent": ["SIGTERM"], "other": 1})
    exited = event.payload
    assert isinstance(exited, NodeExited)
    assert exited is event.payload
    assert (exited.node, exited.exit_code, exited.sent) == ("learner-0", 3, ("SIGTERM",))
    assert exited.last_words == ""


def test_a_reader_gets_what_a_writer_said() -> None:
    merged = said(Kind.ROUND_MERGED, MERGED).payload
    assert said(Kind.ROUND_MERGED, data_of(merged)).payload == merged


def test_numbers_may_be_infinite_or_none() -> None:
    event = said(
        Kind.LEARNER_STEP, {**STEP, "loss": "Infinity", "step_s": "-Infinity", "tokens": "NaN"}
    )
    assert isinstance(event.payload, LearnerStep)
    assert (event.payload.loss, event.payload.step_s) == (float("inf"), float("-inf"))
    assert event.payload.tokens != event.payload.tokens


@pytest.mark.parametrize(
    ("kind", "data", "field"),
    [
        (Kind.NODE_EXITED, {**EXITED, "node": 7}, "node"),
        (Kind.NODE_EXITED, {**EXITED, "pid": True}, "pid"),
        (Kind.NODE_EXITED, {**EXITED, "exit_code": 1.5}, "exit_code"),
        (Kind.NODE_EXITED, {**EXITED, "sent": "SIGKILL"}, "sent"),
        (Kind.NODE_EXITED, {**EXITED, "sent": [9]}, "sent"),
        (Kind.LEARNER_STEP, {**STEP, "loss": 10**400}, "loss"),
        (Kind.LEARNER_STEP, {**STEP, "loss": "high"}, "loss"),
        (Kind.RUN_FINISHED, {"outcome": "won", "reason": ""}, "outcome"),
        (Kind.ROUND_MERGED, {**MERGED, "contributors": [{}]}, "learner"),
    ],
)
def test_what_is_wrong_is_named_when_the_event_is_read(
    kind: Kind, data: Mapping[str, Json], field: str
) -> None:
    event = said(kind, data)
    with pytest.raises(MalformedEvent, match=rf"event 7 .*{field}"):
        _ = event.payload


def test_what_is_missing_is_named_when_it_is_asked_for() -> None:
    exited = said(Kind.NODE_EXITED, {"node": "learner-0"}).payload
    assert isinstance(exited, NodeExited)
    assert (exited.node, exited.refused_lines) == ("learner-0", 0)
    with pytest.raises(MalformedEvent, match=r"event 7 .*'pid'"):
        _ = exited.pid
    with pytest.raises(AttributeError):
        _ = exited.other  # type: ignore[attr-defined]


@pytest.mark.parametrize("tokens", [500, 500.0, "Infinity", "many"])
def test_a_line_of_a_journal_is_read_like_the_same_event_that_was_made(
    tmp_path: Path, tokens: Json
) -> None:
    made = replace(said(Kind.ROUND_MERGED, {**MERGED, "committed_tokens": tokens}), seq=0)
    journal = JournalFile(tmp_path)
    journal.append(made.to_line())
    journal.close()
    ((read,), _) = read_journal(tmp_path)
    assert _answer(read) == _answer(made)
    assert read.data == made.data
    assert read.at(5.0).data == made.data


def _answer(event: Event) -> RoundMerged | str:
    """What is read of it; the message if it refuses."""
    try:
        said = event.payload
    except MalformedEvent as error:
        return str(error)
    assert isinstance(said, RoundMerged)
    return said
