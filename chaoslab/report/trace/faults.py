"""Tracks of faults, one for each entry of the plan: an injection from its trigger to its heal.

├ process.kill on learner-0, learner-2 ────────────────────────────┤
├ asked ┤├ injecting ┤├ in force ──────────────────────┤├ healing ─┤
                         ╷ evidence: proved   ╷ stepped
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chaoslab.core import payloads
from chaoslab.core.events import Event, Json, Kind
from chaoslab.report.trace.writer import TraceWriter


@dataclass(slots=True, kw_only=True)
class _Injection:
    track: int
    name: str
    details: dict[str, Json]
    from_s: float
    """When its trigger was met, or it was begun, whichever was first."""
    moves: list[tuple[float, str]]
    """Stages and when each began; empty after the last."""
    is_over: bool = False


class FaultTracks:
    """The fold over events of faults."""

    def __init__(self, trace: TraceWriter) -> None:
        self._trace = trace
        self._group = trace.track("faults")
        self._injections: dict[str, _Injection] = {}

    def _injecting(self, event: Event[payloads.FaultInjecting]) -> None:
        said = event.payload
        asked_s = event.time_s if said.asked_s is None else min(said.asked_s, event.time_s)
        moves = [(asked_s, "asked")] if asked_s < event.time_s else []
        self._injections[said.injection] = _Injection(
            track=self._trace.track(said.spec or said.fault, self._group),
            name=f"{said.fault} on {', '.join(said.targets)}",
            from_s=asked_s,
            moves=[*moves, (event.time_s, "injecting")],
            details={
                "injection": said.injection,
                "targets": ", ".join(said.targets),
                "trigger": said.trigger,
                "for_s": said.for_s,
                "asked_s": said.asked_s,
                "seq": event.seq,
                **{f"setting {name}": value for name, value in said.settings.items()},
            },
        )

    def _moved(self, event: Event[payloads.OfInjection]) -> None:
        one = self._injections.get(event.payload.injection)
        if one is None or one.is_over:
            return
        stage = _STAGES[event.kind]
        if stage:
            one.moves.append((event.time_s, stage))
        else:
            one.details["ended"] = event.kind.value
            self._close(one, event.time_s)

    def _noted(self, event: Event[payloads.OfInjection | payloads.EvidenceMeasured]) -> None:
        one = self._injections.get(event.payload.injection)
        if one is not None:
            name = event.kind.value
            if isinstance(event.payload, payloads.EvidenceMeasured):
                name = f"evidence: {event.payload.status}"
            self._trace.instant(one.track, event.time_s, name, {"seq": event.seq, **event.data})

    def _skipped(self, event: Event[payloads.FaultSkipped]) -> None:
        track = self._trace.track(event.payload.spec or event.payload.fault, self._group)
        details = {"seq": event.seq, **event.data}
        self._trace.instant(track, event.time_s, f"skipped: {event.payload.fault}", details)

    def _close(self, one: _Injection, end_s: float) -> None:
        one.is_over = True
        self._trace.slice(one.track, one.from_s, end_s, one.name, one.details)
        ends_s = [*(time_s for time_s, _ in one.moves[1:]), end_s]
        for (from_s, stage), to_s in zip(one.moves, ends_s, strict=True):
            self._trace.slice(one.track, from_s, to_s, stage)

    def draw(self, end_s: float) -> None:
        """Those that were open to the end."""
        for one in self._injections.values():
            if not one.is_over:
                self._close(one, end_s)

    FOLDS: ClassVar[Mapping[Kind, Callable[["FaultTracks", Event[Any]], None]]] = {
        Kind.FAULT_INJECTING: _injecting,
        Kind.FAULT_INJECTED: _moved,
        Kind.FAULT_HEALING: _moved,
        Kind.FAULT_HEALED: _moved,
        Kind.FAULT_FAILED: _moved,
        Kind.FAULT_STEPPED: _noted,
        Kind.FAULT_HEAL_FAILED: _noted,
        Kind.EVIDENCE_MEASURED: _noted,
        Kind.FAULT_SKIPPED: _skipped,
    }


_STAGES: Mapping[Kind, str] = {
    Kind.FAULT_INJECTED: "in force",
    Kind.FAULT_HEALING: "healing",
    Kind.FAULT_HEALED: "",
    Kind.FAULT_FAILED: "",
}
"""What follows each event; nothing after the last."""
