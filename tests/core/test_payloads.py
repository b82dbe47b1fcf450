from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.events import Event, Json, Kind, MalformedEvent
from chaoslab.core.payloads import (
    LearnerLeft,
    LearnerStep,
    LeftBecause,
    NodeExited,
    NodeStressed,
    RoundMerged,
    RunStarted,
    Status,
    kind_of,
    payloads,
)
from chaoslab.record.journal_file import JournalFile, read_journal

CONTRIBUTOR = {"learner": "learner-0", "incarnation": 1, "epoch": 1, "step": 5, "c_steps": 5,
               "c_tokens": 500, "weight": 1.0, "tokens_from": 0}  # fmt: skip


def said(kind: Kind, data: Mapping[str, Json]) -> Event:
    return Event(seq=7, time_s=0.0, source="test", kind=kind, data=data)


def test_every_kind_has_a_payload_of_its_own() -> None:
    assert set(payloads()) == set(Kind)
    assert kind_of(NodeExited) is Kind.NODE_EXITED


def test_a_payload_is_made_once_and_holds_what_the_line_says() -> None:
    event = said(Kind.NODE_EXITED, {"node": "learner-0", "exit_code": 3, "sent": ["SIGTERM"]})
    exited = event.payload
    assert isinstance(exited, NodeExited)
    assert exited is event.payload
    assert (exited.node, exited.exit_code, exited.sent) == ("learner-0", 3, ("SIGTERM",))


def test_codes_that_were_not_written_yet_are_text() -> None:
    event = said(Kind.NODE_EXITED, {"node": "learner-0", "sent": [Status.PROVED]})
    assert isinstance(event.payload, NodeExited)
    assert event.payload.sent == ("proved",)


def test_what_older_records_lack_has_a_default() -> None:
    event = said(Kind.RUN_STARTED, {"plan": "old", "learners": []})
    assert isinstance(event.payload, RunStarted)
    assert (event.payload.reserve, event.payload.entries) == ((), ())


def test_an_older_key_is_read_under_its_new_name() -> None:
    event = said(Kind.NODE_STRESSED, {"burden": "slowness"})
    assert isinstance(event.payload, NodeStressed)
    assert event.payload.stressor == "slowness"


@pytest.mark.parametrize("text", ["stopped", "stopped: 20 rounds"])
def test_a_learner_that_stopped_says_so_in_every_record(text: str) -> None:
    event = said(Kind.LEARNER_LEFT, {"reason": text})
    assert isinstance(event.payload, LearnerLeft)
    assert event.payload.reason is LeftBecause.STOPPED


def test_numbers_may_be_infinite_or_none() -> None:
    event = said(Kind.LEARNER_STEP, {"loss": "Infinity", "step_s": "-Infinity", "tokens": "NaN"})
    assert isinstance(event.payload, LearnerStep)
    assert (event.payload.loss, event.payload.step_s) == (float("inf"), float("-inf"))
    assert event.payload.tokens != event.payload.tokens


@pytest.mark.parametrize(
    ("kind", "data", "field"),
    [
        (Kind.NODE_EXITED, {}, "node"),
        (Kind.NODE_EXITED, {"node": 7}, "node"),
        (Kind.NODE_EXITED, {"pid": True}, "pid"),
        (Kind.NODE_EXITED, {"exit_code": 1.5}, "exit_code"),
        (Kind.NODE_EXITED, {"sent": "SIGKILL"}, "sent"),
        (Kind.NODE_EXITED, {"sent": [9]}, "sent"),
        (Kind.NODE_STARTED, {"labels": []}, "labels"),
        (Kind.SYNCER_FINAL, {"versions": {"0": 1.5}}, "versions"),
        (Kind.LEARNER_STEP, {"loss": 10**400}, "loss"),
        (Kind.LEARNER_STEP, {"loss": "high"}, "loss"),
        (Kind.RUN_FINISHED, {"outcome": "won"}, "outcome"),
    ],
)
def test_what_is_missing_or_wrong_is_named_when_it_is_read(
    kind: Kind, data: Mapping[str, Json], field: str
) -> None:
    payload = said(kind, data).payload
    with pytest.raises(MalformedEvent, match=rf"event 7 .*'{field}'"):
        getattr(payload, field)


def test_items_of_a_list_are_read_alike() -> None:
    event = said(Kind.ROUND_MERGED, {"contributors": [CONTRIBUTOR]})
    assert isinstance(event.payload, RoundMerged)
    (one,) = event.payload.contributors
    assert (one.learner, one.c_tokens) == ("learner-0", 500.0)
    with pytest.raises(MalformedEvent, match=r"event 7 .*'tokens_to'"):
        _ = one.tokens_to


@pytest.mark.parametrize("tokens", [500, 500.0, "Infinity", "many"])
def test_a_line_of_a_journal_is_read_like_the_same_event_that_was_made(
    tmp_path: Path, tokens: Json
) -> None:
    made = replace(said(Kind.ROUND_MERGED, {"contributors": [CONTRIBUTOR | {"tokens_to": tokens}],
                                            "round": 3}), seq=0)  # fmt: skip
    journal = JournalFile(tmp_path)
    journal.append(made.to_line())
    journal.close()
    ((read,), _) = read_journal(tmp_path)
    assert _answers(read) == _answers(made)
    assert read.data == made.data
    assert read.at(5.0).data == made.data


def _answers(event: Event) -> list[object]:
    """What is read of its fields; the message where one refuses."""
    assert isinstance(event.payload, RoundMerged)
    found: list[object] = [event.payload.round, event.payload.contributors[0].learner]
    for read in (lambda said: said.contributors[0].tokens_to, lambda said: said.digest):
        try:
            found.append(read(event.payload))
        except MalformedEvent as error:
            found.append(str(error))
    return found
