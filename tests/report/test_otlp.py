"""Spans as a real receiver gets them, and receivers that refuse."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Kind
from chaoslab.record.history import History
from chaoslab.report import otlp
from chaoslab.report.otlp import checked, send
from tests.histories import Story
from tests.report.http_receiver import Receiver, http_receiver
from tests.report.web.stories import judged, whole_story

BEGAN_NS = 1_795_151_262_000_000_000
RUN = "20261120T050742Z-3f9a1c"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with http_receiver() as server:
        yield server


def dated(history: History) -> History:
    """With the calendar time on its first line."""
    first, *others = history.events
    wall = "2026-11-20T05:07:42.000Z"
    return history.retimed([replace(first, time_s=0.0, wall=wall), *others], twin=None)


@pytest.fixture(scope="module")
def story() -> tuple[History, Verdict]:
    history = dated(whole_story().history())
    return history, judged(history)


def sent_spans(receiver: Receiver) -> list[Any]:
    """All spans, with their attributes as a mapping and their times as numbers."""
    spans = [
        span
        for body in receiver.bodies("/v1/traces")
        for resource in json.loads(body)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    for span in spans:
        assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
        span["attributes"] = {
            pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]
        }
        span["times_ns"] = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    return spans


def root_of(spans: list[Any]) -> Any:
    (root,) = [span for span in spans if "parentSpanId" not in span]
    return root


def time_ns(event: Event) -> int:
    return BEGAN_NS + round(event.time_s * 1e9)


@pytest.fixture(scope="module")
def sent(story: tuple[History, Verdict]) -> Iterator[Receiver]:
    """What a collector got of the whole story."""
    with http_receiver() as server:
        assert send(server.url, RUN, *story) == ""
        yield server


# ------------------------------------------------------------------------------------ spans


def test_the_run_is_one_trace_with_its_verdict(
    sent: Receiver, story: tuple[History, Verdict]
) -> None:
    history, verdict = story
    spans = sent_spans(sent)
    root = root_of(spans)
    assert {span["traceId"] for span in spans} == {root["traceId"]}
    assert {span["parentSpanId"] for span in spans if span is not root} == {root["spanId"]}
    assert len({span["spanId"] for span in spans}) == len(spans)
    assert root["times_ns"] == (BEGAN_NS, BEGAN_NS + round(history.end_s * 1e9))
    assert root["attributes"]["chaoslab.outcome"] == verdict.outcome.value
    margins = {one.check: one.margin for one in verdict.findings if one.margin is not None}
    assert margins
    found = {check: root["attributes"][f"chaoslab.margin.{check}"] for check in margins}
    assert found == margins
    assert {"phase baseline", "rejoin", "round"} <= {span["name"] for span in spans}


def test_a_fault_is_a_span_for_each_victim_with_its_evidence(
    sent: Receiver, story: tuple[History, Verdict]
) -> None:
    history = story[0]
    kills = [span for span in sent_spans(sent) if span["name"] == "fault process.kill"]
    assert [
        (one["attributes"]["chaoslab.target"], one["attributes"]["chaoslab.evidence"])
        for one in kills
    ] == [("learner-1", "proved"), ("learner-3", "proved")]
    began, healed = history.of(Kind.FAULT_INJECTING)[0], history.of(Kind.FAULT_HEALED)[0]
    assert kills[0]["times_ns"] == (time_ns(began), time_ns(healed))
    assert kills[0]["events"][-1]["name"] == "fault.healed"


def test_a_run_that_is_sent_again_has_the_same_spans(
    sent: Receiver, receiver: Receiver, story: tuple[History, Verdict]
) -> None:
    send(receiver.url, RUN, *story)
    assert receiver.bodies("/v1/traces") == sent.bodies("/v1/traces")


def test_a_failed_run_and_a_learner_that_stays_away_are_errors(receiver: Receiver) -> None:
    history = dated(
        Story().baseline().kill("learner-1").train(6).heal(restarts=False).train(40).settle()
        .end().history()
    )  # fmt: skip
    send(receiver.url, RUN, history, judged(history))
    failed = [span for span in sent_spans(receiver) if span["status"].get("code") == 2]
    assert {span["name"].split(" ")[0] for span in failed} >= {"chaoslab", "rejoin"}
    assert "rejoin: " in root_of(failed)["status"]["message"]


def test_a_token_is_sent_to_the_receiver_and_nowhere_else(
    receiver: Receiver, story: tuple[History, Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=a%20b, x-tenant=c")
    receiver.answer, receiver.to = 302, "/elsewhere"
    assert "302" in send(receiver.url.replace("//", "//me:secret@"), RUN, *story)
    (_, said, _), *others = receiver.posted
    headers = {name.lower(): value for name, value in said.items()}
    assert (headers["x-token"], headers["x-tenant"]) == ("a b", "c")
    assert headers["authorization"].startswith("Basic ")
    assert (others, receiver.fetched) == ([], [])


# ------------------------------------------------------------------------------------ refusals


def test_a_receiver_that_refuses_is_reported_once(
    receiver: Receiver, story: tuple[History, Verdict], caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer = 403
    complaint = send(receiver.url, RUN, *story)
    assert complaint.startswith(receiver.url)
    assert "403" in complaint
    assert len(receiver.posted) == 1
    assert not caplog.records


def test_a_receiver_that_is_not_there_is_reported_without_a_password(
    story: tuple[History, Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "TIMEOUT_S", 0.2)
    with http_receiver() as gone:
        url = gone.url
    complaint = send(url.replace("http://", "http://me:secret@"), RUN, *story)
    assert url.partition("//")[2] in complaint
    assert "secret" not in complaint


def test_a_record_without_the_calendar_time_is_not_sent(receiver: Receiver) -> None:
    empty = History(())
    assert send(receiver.url, RUN, empty, judged(empty))
    assert not receiver.posted


# ------------------------------------------------------------------------------------ options


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://here", "http://a:b", ""])
def test_what_cannot_be_sent_to_is_refused_before_a_run(url: str) -> None:
    with pytest.raises(PlanError, match="--otlp"):
        checked(url)
