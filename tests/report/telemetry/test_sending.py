"""Spans as a real receiver gets them, and receivers that refuse."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.core.events import Event, Kind
from chaoslab.record.journal import History
from chaoslab.report.telemetry import otlp, sending
from chaoslab.report.telemetry.sending import asked, send
from tests.histories import Story
from tests.report.telemetry.http_receiver import Receiver, http_receiver
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
    return history.retimed([replace(first, time_s=0.0, wall=wall), *others], control=None)


@pytest.fixture(scope="module")
def story() -> tuple[History, Verdict]:
    history = dated(whole_story().history())
    return history, judged(history)


def sent_spans(receiver: Receiver) -> list[Span]:
    return [
        span
        for body in receiver.bodies("/v1/traces")
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes(one) -> dict[str, object]:  # type: ignore[no-untyped-def]
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in one.attributes
    }


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
    (root,) = [span for span in spans if not span.parent_span_id]
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert {span.parent_span_id for span in spans} == {b"", root.span_id}
    assert len({span.span_id for span in spans}) == len(spans)
    assert root.start_time_unix_nano == BEGAN_NS
    assert root.end_time_unix_nano == BEGAN_NS + round(history.end_s * 1e9)
    assert attributes(root)["chaoslab.outcome"] == verdict.outcome.value
    margins = {one.check: one.margin for one in verdict.findings if one.margin is not None}
    assert margins
    sent_margins = {check: attributes(root)[f"chaoslab.margin.{check}"] for check in margins}
    assert sent_margins == margins
    assert {"phase baseline", "rejoin", "round"} <= {span.name for span in spans}


def test_a_fault_is_a_span_for_each_victim_with_its_evidence(
    sent: Receiver, story: tuple[History, Verdict]
) -> None:
    history = story[0]
    kills = [span for span in sent_spans(sent) if span.name == "fault process.kill"]
    assert [
        (attributes(span)["chaoslab.target"], attributes(span)["chaoslab.evidence"])
        for span in kills
    ] == [("learner-1", "proved"), ("learner-3", "proved")]
    assert kills[0].start_time_unix_nano == time_ns(history.of(Kind.FAULT_INJECTING)[0])
    assert kills[0].end_time_unix_nano == time_ns(history.of(Kind.FAULT_HEALED)[0])
    assert kills[0].events[-1].name == "fault.healed"


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
    failed = [span for span in sent_spans(receiver) if span.status.code == Status.STATUS_CODE_ERROR]
    assert {span.name.split(" ")[0] for span in failed} >= {"chaoslab", "rejoin"}
    assert "rejoin: " in next(span for span in failed if not span.parent_span_id).status.message


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
        asked(url)


def test_otlp_needs_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_OTLP_PARTS", ("no_such_package.sdk",))
    with pytest.raises(AbilityError, match=r"chaoslab\[otlp\]"):
        asked("http://localhost:4318")
