"""Sending of a finished run to an OTLP receiver; what goes wrong there is a complaint.

asked (before the run: address, packages) ─► send (after it) ─► complaint
"""

import importlib.util
from urllib.parse import urlsplit

from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.record.journal import History
from chaoslab.report.telemetry.spans import run_spans, whole_run
from chaoslab.report.wording import began_ns, shown

_OTLP_PARTS = (
    "opentelemetry.sdk",
    "opentelemetry.exporter.otlp.proto.http",
)


def asked(url: str) -> str:
    """The base address of a receiver.

    PlanError for an address that is none; AbilityError if the packages are not installed.
    """
    if not all(map(_is_installed, _OTLP_PARTS)):
        raise AbilityError("--otlp needs OpenTelemetry: pip install 'chaoslab[otlp]'")
    parts = urlsplit(url)
    try:
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        is_address = False
    if not is_address or parts.query or parts.fragment:
        raise PlanError(
            "--otlp: must be the address of a receiver, such as http://localhost:4318, "
            f"got {shown(url)!r}"
        )
    return url.rstrip("/")


def send(url: str, run: str, history: History, verdict: Verdict | None) -> str:
    """Send a run, whose id is `run`; what went wrong, as a sentence, or nothing."""
    from chaoslab.report.telemetry import otlp  # noqa: PLC0415  # an extra, when asked

    began = began_ns(history)
    if began is None:
        return "the record has no calendar time, so nothing of it was sent"
    whole = whole_run(history, verdict)
    try:
        otlp.send_spans(url, run, began, whole, list(run_spans(history)))
    except (FleetError, OSError, ValueError) as error:  # ValueError: a wrong OTEL_ variable
        return f"{shown(url)}: {error}"
    return ""


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False
