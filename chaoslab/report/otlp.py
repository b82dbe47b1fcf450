"""Export of a finished run to an OpenTelemetry receiver: spans as OTLP over HTTP, in JSON.

    checked (before the run) ─► send (after it) ─► POST URL/v1/traces ─► what went wrong
    History ─► RunStory ─► RunSpan ─► span with the times at which things happened

The same record gives the same trace and span ids, so that a run sent twice is there once. Two of
the variables of OpenTelemetry's SDKs hold: OTEL_EXPORTER_OTLP_HEADERS, for a token, and
OTEL_EXPORTER_OTLP_CERTIFICATE.
"""

import hashlib
import http.client
import os
import random
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from chaoslab.checks.node_clocks import as_it_happened
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json, encode
from chaoslab.record.history import History
from chaoslab.report.posting import is_address, post, shown
from chaoslab.report.spans import RunSpan, Value, run_spans, whole_run
from chaoslab.report.story import RunStory
from chaoslab.report.wording import began_ns

TIMEOUT_S = 10.0
"""Time limit of one request."""
_SPANS_OF_A_REQUEST: Final = 400
_ERROR: Final = 2
"""Code of the status of a span that failed."""


def checked(url: str) -> str:
    """The base address of a receiver; PlanError if it is no address."""
    if not is_address(url) or urlsplit(url).query or urlsplit(url).fragment:
        raise PlanError(
            "--otlp: must be the address of a receiver, such as http://localhost:4318, "
            f"got {shown(url)!r}"
        )
    return url.rstrip("/")


def send(url: str, run: str, history: History, verdict: Verdict | None) -> str:
    """Send the run with the id `run`; an error as a sentence, or nothing."""
    began = began_ns(history)
    if began is None:
        return "the record has no calendar time, so nothing of it was sent"
    ids = random.Random(hashlib.sha256(run.encode()).digest())
    trace, root = f"{ids.getrandbits(128) | 1:032x}", f"{ids.getrandbits(64) | 1:016x}"
    story = RunStory.of(as_it_happened(history).events)
    spans: list[Json] = [
        {**_span(one, began), "spanId": f"{ids.getrandbits(64) | 1:016x}", "parentSpanId": root,
         "traceId": trace}
        for one in run_spans(story)
    ]  # fmt: skip
    whole = whole_run(story, verdict)
    spans.append({**_span(whole, began), "spanId": root, "traceId": trace})
    resource = {
        "service.name": "chaoslab",
        "service.instance.id": run,
        "chaoslab.plan": story.plan,
    }
    try:
        trusts = ssl.create_default_context(cafile=os.environ.get("OTEL_EXPORTER_OTLP_CERTIFICATE"))
        for at in range(0, len(spans), _SPANS_OF_A_REQUEST):
            scope: Json = {
                "scope": {"name": "chaoslab"},
                "spans": spans[at : at + _SPANS_OF_A_REQUEST],
            }
            one: Json = {"resource": {"attributes": _pairs(resource)}, "scopeSpans": [scope]}
            body = encode({"resourceSpans": [one]}).encode()
            post(f"{url}/v1/traces", body, _headers(), timeout_s=TIMEOUT_S, trusts=trusts)
    except (OSError, ValueError, http.client.HTTPException) as error:  # ValueError: a header
        return f"{shown(url)}: {error}"
    return ""


def _headers() -> Mapping[str, str]:
    """`api-key=secret,tenant=a%20b`, as the SDKs read it."""
    written = os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",")
    pairs = [one.partition("=") for one in written if "=" in one]
    return {unquote(key).strip(): unquote(value).strip() for key, _, value in pairs}


def _span(span: RunSpan, began: int) -> dict[str, Json]:
    """A span without its ids."""
    return {
        "name": span.name,
        "kind": 1,
        "startTimeUnixNano": _ns(began, span.from_s),
        "endTimeUnixNano": _ns(began, span.to_s),
        "attributes": _pairs(span.attributes),
        "events": [{"timeUnixNano": _ns(began, at_s), "name": name} for at_s, name in span.moments],
        "status": {"code": _ERROR, "message": span.error} if span.error else {},
    }


def _pairs(attributes: Mapping[str, Value]) -> list[Json]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def _ns(began: int, time_s: float) -> str:
    """64-bit integers are text in the JSON of protocol buffers."""
    return str(began + max(0, round(time_s * 1e9)))
