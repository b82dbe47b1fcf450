"""Export of a run by OTLP over HTTP: spans with the times at which things happened.

    RunSpan ─► SDK tracer with explicit times ─► POST URL/v1/traces

The same record gives the same trace and span ids, so that a run sent twice is there once. The SDK's
own environment variables hold: OTEL_EXPORTER_OTLP_HEADERS for a token, and those of certificates.
The only module that imports opentelemetry.
"""

import hashlib
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from chaoslab.core.errors import FleetError
from chaoslab.report.telemetry.spans import RunSpan

_NAME = "chaoslab"
TIMEOUT_S = 10.0
"""How long a receiver may take for one request."""
_BATCH = 400
"""Spans in one request."""


class _Ids(IdGenerator):
    """Ids that depend on the run alone."""

    def __init__(self, run: str) -> None:
        self._random = random.Random(hashlib.sha256(run.encode()).digest())
        self._trace = self._random.getrandbits(128) | 1

    def generate_trace_id(self) -> int:
        """One for all spans of the run."""
        return self._trace

    def generate_span_id(self) -> int:
        """The next one."""
        return self._random.getrandbits(64) | 1


def send_spans(url: str, run: str, began_ns: int, whole: RunSpan, spans: Sequence[RunSpan]) -> None:
    """Send them; FleetError says what the receiver answered.

    `run` identifies the run, `began_ns` is the time 0 of its clock, in ns since the epoch.
    """
    made = InMemorySpanExporter()
    provider = TracerProvider(
        resource=_resource(run, whole), id_generator=_Ids(run), sampler=ALWAYS_ON,
        shutdown_on_exit=False,
    )  # fmt: skip
    provider.add_span_processor(SimpleSpanProcessor(made))
    tracer = provider.get_tracer(_NAME)
    root = tracer.start_span(
        whole.name, start_time=_ns(began_ns, whole.from_s), attributes=dict(whole.attributes)
    )
    around = set_span_in_context(root)
    for one in spans:
        span = tracer.start_span(
            one.name,
            around,
            start_time=_ns(began_ns, one.from_s),
            attributes=dict(one.attributes),
        )
        for time_s, name in one.moments:
            span.add_event(name, timestamp=_ns(began_ns, time_s))
        if one.error:
            span.set_status(Status(StatusCode.ERROR, one.error))
        span.end(_ns(began_ns, one.to_s))
    if whole.error:
        root.set_status(Status(StatusCode.ERROR, whole.error))
    root.end(_ns(began_ns, whole.to_s))
    _export_spans(url, made.get_finished_spans())


def _export_spans(url: str, spans: Sequence[ReadableSpan]) -> None:
    exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces", timeout=TIMEOUT_S)
    with _complaints() as said:
        for at in range(0, len(spans), _BATCH):
            if exporter.export(spans[at : at + _BATCH]) is not SpanExportResult.SUCCESS:
                raise FleetError(f"spans were not taken: {_last(said)}")
        exporter.shutdown()  # type: ignore[no-untyped-call]  # the SDK's


def _resource(run: str, whole: RunSpan) -> Resource:
    attributes: Mapping[str, str] = {
        "service.name": _NAME,
        "service.instance.id": run,
        "chaoslab.plan": str(whole.attributes.get("chaoslab.plan", "")),
    }
    return Resource(attributes)


def _ns(began_ns: int, time_s: float) -> int:
    return began_ns + max(0, round(time_s * 1e9))


class _Kept(logging.Handler):
    """The SDK says why an export failed in its log alone."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """What the SDK logs meanwhile, which goes nowhere else."""
    logger, kept = logging.getLogger("opentelemetry"), _Kept()
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(kept)
    try:
        yield kept.said
    finally:
        logger.removeHandler(kept)
        logger.propagate = propagated


def _last(said: Sequence[str]) -> str:
    return said[-1] if said else "no reason was given"
