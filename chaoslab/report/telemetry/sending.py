"""Sending a run to the receivers that were asked for, in order; a receiver that fails is reported.

Receivers.asked (before the run: addresses, token, packages) ─► send (after it) ─► complaints
"""

import importlib.util
from collections.abc import Iterator, Mapping
from typing import Self

from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.record.journal import History
from chaoslab.report.beginning import began_ns
from chaoslab.report.receivers import receiver, shown
from chaoslab.report.telemetry.grafana import TOKEN, annotations, send_annotations
from chaoslab.report.telemetry.series import run_series
from chaoslab.report.telemetry.spans import run_spans, whole_run

_OTLP_PARTS = (
    "opentelemetry.sdk",
    "opentelemetry.exporter.otlp.proto.http",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receivers:
    """Where a finished run is sent."""

    otlp: str | None = None
    """Base address of an OTLP receiver."""
    grafana: str | None = None
    """Base address of Grafana."""
    token: str = ""
    """For Grafana."""

    @classmethod
    def asked(cls, otlp: str | None, grafana: str | None, environment: Mapping[str, str]) -> Self:
        """PlanError for an address that is none or a missing token; AbilityError if the packages
        for OTLP are not installed.
        """
        if otlp is not None and not all(map(_is_installed, _OTLP_PARTS)):
            raise AbilityError("--otlp needs OpenTelemetry: pip install 'chaoslab[otlp]'")
        token = environment.get(TOKEN, "")
        if grafana is not None and not token:
            raise PlanError(
                f"--grafana: set {TOKEN} to the token of a service account that may write "
                "annotations"
            )
        if grafana is not None and shown(grafana) != grafana:
            raise PlanError(
                f"--grafana: {TOKEN} is what it asks for, so write the address without a password: "
                f"{shown(grafana)}"
            )
        return cls(
            otlp=None if otlp is None else receiver("--otlp", otlp),
            grafana=None if grafana is None else receiver("--grafana", grafana),
            token=token,
        )

    def send(self, run: str, history: History, verdict: Verdict | None) -> Iterator[str]:
        """Send a run, whose id is `run`; what went wrong, a sentence for each receiver."""
        began = began_ns(history)
        if began is None:
            if self.otlp or self.grafana:
                yield "the record has no calendar time, so nothing of it was sent"
            return
        for url, tell in ((self.otlp, self._send_otlp), (self.grafana, self._send_grafana)):
            if url is not None:
                try:
                    tell(url, run, began, history, verdict)
                except (
                    FleetError,
                    OSError,
                    ValueError,
                ) as error:  # ValueError: a wrong OTEL_ variable
                    yield f"{shown(url)}: {error}"

    def _send_otlp(
        self, url: str, run: str, began: int, history: History, verdict: Verdict | None
    ) -> None:
        from chaoslab.report.telemetry import otlp  # noqa: PLC0415  # an extra, when asked

        whole = whole_run(history, verdict)
        otlp.send_spans(url, run, began, whole, list(run_spans(history)))
        otlp.send_metrics(url, run, began, whole, list(run_series(history, verdict)))

    def _send_grafana(
        self, url: str, _run: str, began: int, history: History, verdict: Verdict | None
    ) -> None:
        found = list(annotations(history, whole_run(history, verdict)))
        send_annotations(url, self.token, began, found)


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False
