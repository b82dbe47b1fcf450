"""Evidence of an injection, gathered while the fault still holds.

fault.evidence(history) ─► evidence.measured events, evidence/injection-0.json
"""

from collections.abc import Mapping

from chaoslab.core.events import Json, data_of
from chaoslab.core.payloads import EvidenceMeasured, NodeProbed
from chaoslab.faults.base import Fault
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
    pieces = [
        EvidenceMeasured(
            injection=injection.id,
            fault=injection.fault,
            target=piece.target,
            status=piece.status,
            code=piece.code,
            requested=piece.requested,
            measured=piece.measured,
            text=piece.text,
            proof=piece.proof,
            lack=piece.code.lack,
        )
        for piece in fault.evidence(injection, recorder.journal.history)
    ]
    for piece in pieces:
        recorder.note(piece)
    targets = set(injection.targets)
    found: Mapping[str, Json] = {
        "injection": plain(injection),
        "injected_s": injected_s,
        "measured_s": recorder.now_s,
        "evidence": [data_of(piece) for piece in pieces],
        "probes": [
            {"time_s": probe.time_s, **probe.data}
            for probe in recorder.journal.history.of(NodeProbed)
            if probe.time_s >= injected_s and probe.payload.node in targets
        ],
    }
    directory.write_evidence(injection.id, recorder.journal.secrets.data(found))
