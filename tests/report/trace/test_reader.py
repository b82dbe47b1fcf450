"""Perfetto's own reader opens the trace and finds in it what was drawn, without a complaint."""

from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.report.trace.file import trace_bytes
from tests.report.web.stories import whole_story
from tests.trace_processor import perfetto_reader

pytestmark = [pytest.mark.deep]
_COMPLAINTS = "SELECT name, value FROM stats WHERE severity != 'info' AND value > 0"
_FAULTS = """
    SELECT slice.name, slice.ts, slice.dur FROM slice
    JOIN track ON slice.track_id = track.id JOIN track AS parent ON track.parent_id = parent.id
    WHERE parent.name = 'faults' AND slice.name LIKE '% on %' ORDER BY slice.ts
"""
_FLOWS = """
    SELECT one.name AS out, other.name AS into_ FROM flow
    JOIN slice AS one ON flow.slice_out = one.id JOIN slice AS other ON flow.slice_in = other.id
"""


def test_perfettos_reader_finds_faults_counters_and_arrows(tmp_path: Path) -> None:
    history = whole_story().history()
    with perfetto_reader(tmp_path, trace_bytes(history)) as reader:
        assert [(row.name, row.value) for row in reader.query(_COMPLAINTS)] == []
        faults = [(row.name, row.ts / 1e9) for row in reader.query(_FAULTS)]
        flows = [(row.out, row.into_) for row in reader.query(_FLOWS)]
        losses = [
            row.value
            for row in reader.query(
                "SELECT value FROM counter JOIN counter_track AS t ON counter.track_id = t.id "
                "WHERE t.name = 'loss'"
            )
        ]
    began_s = [event.time_s for event in history.of(Kind.FAULT_INJECTING)]
    assert [name.split(" on ")[0] for name, _ in faults] == [
        event.data["fault"] for event in history.of(Kind.FAULT_INJECTING)
    ]
    assert [time_s for _, time_s in faults] == pytest.approx(began_s)
    contributions = sum(len(e.data["contributors"]) for e in history.of(Kind.ROUND_MERGED))
    assert flows.count(("pushed", "merged")) == contributions
    assert flows.count(("merged", "adopted")) > 0
    assert len(losses) == len(history.of(Kind.LEARNER_STEP))
