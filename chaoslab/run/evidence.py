"""Evidence of an injection, gathered while the fault still holds.

fault.evidence(history) ─► evidence.measured events, evidence/injection-0.json
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from chaoslab.core.events import Json, Kind
from chaoslab.core.payloads import NodeProbed
from chaoslab.faults.base import Fault
from chaoslab.faults.evidence.base import Evidence
from chaoslab.plan.model import Injection
from chaoslab.record.run_directory import RunDirectory, plain
from chaoslab.run.event_recorder import EventRecorder


def gather(
    injection: Injection,
    fault: Fault,
    injected_s: float,
    recorder: EventRecorder,
    directory: RunDirectory,
) -> None:
    """Judge what the journal shows of it, and write that down."""
    pieces = fault.evidence(injection, recorder.journal.history)
    for piece in pieces:
        about = {"injection": injection.id, "fault": injection.fault}
        recorder.note(Kind.EVIDENCE_MEASURED, {**about, **_facts(piece)})
    found = _file(injection, injected_s, recorder, pieces)
    directory.write_evidence(injection.id, recorder.journal.secrets.data(found))


def _file(
    injection: Injection, injected_s: float, recorder: EventRecorder, pieces: Iterable[Evidence]
) -> Mapping[str, Json]:
    targets = set(injection.targets)
    return {
        "injection": plain(injection),
        "injected_s": injected_s,
        "measured_s": recorder.now_s,
        "evidence": [_facts(piece) for piece in pieces],
        "probes": [
            {"time_s": probe.time_s, **probe.data}
            for probe in recorder.journal.history.of(NodeProbed)
            if probe.time_s >= injected_s and probe.payload.node in targets
        ],
    }


def _facts(piece: Evidence) -> Mapping[str, Json]:
    return {**asdict(piece), "status": piece.status, "lack": piece.code.lack}
