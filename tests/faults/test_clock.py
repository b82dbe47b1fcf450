"""Faults on clocks: their contract, and what the record must show of each."""

from datetime import UTC, datetime

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.faults.base import Fault
from chaoslab.faults.clock import ClockDrift, ClockStep, Towards
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from tests.faults.fault_record import Case, FaultRecord, case, each_of

approx = pytest.approx

EPOCH_S = 1_800_000_000.0


# ---------------------------------------------------------------- evidence from written records


class Record(FaultRecord):
    """A journal made by hand, with one fault on the syncer from 10 s to 14 s asked for."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault, "syncer", for_s=4.0)
        self._add(0.0, Kind.NODE_STARTED, node="syncer", incarnation=1)
        self.begin().fault_event(10.0, Kind.FAULT_INJECTED)

    def _add(self, time_s: float, kind: Kind, **data: Json) -> None:
        wall = datetime.fromtimestamp(EPOCH_S + time_s, UTC).isoformat()
        self.say(time_s, kind, "syncer", wall, **data)

    def read(self, time_s: float, *, ahead_s: float = 0.0, rate: float = 1.0) -> "Record":
        """What its clocks show; a rate counts from second 10."""
        gained_s = ahead_s + (time_s - 10.0) * (rate - 1)
        self._add(
            time_s, Kind.CLOCK_READ, node="syncer", incarnation=1,
            wall_s=EPOCH_S + time_s + gained_s,
            monotonic_s=time_s + (time_s - 10.0) * (rate - 1),
        )  # fmt: skip
        return self

    @property
    def evidence(self) -> Evidence:
        self._add(14.0, Kind.PHASE_ENTERED, phase="settle")
        return super().evidence


def shown(fault: Fault, *times_s: float, **shown: float) -> Record:
    """Right at second 10, and at these times as `shown`."""
    record = Record(fault).read(10.0)
    for time_s in times_s:
        record.read(time_s, **shown)
    return record


ALL_THE_TIME = (10.1, 11.0, 12.0, 13.0, 13.9)


@each_of(
    *(
        case(
            f"a step is proved by the distance between two clocks: {towards}",
            shown(ClockStep(towards=towards), *ALL_THE_TIME, ahead_s=step_s),
            Code.AS_ASKED,
            step_s=approx(step_s, abs=0.01),
            monotonic_step_s=approx(0.0, abs=0.01),
        )
        for towards, step_s in ((Towards.AHEAD, 300.0), (Towards.BACK, -300.0))
    ),
    case("a clock that was not set is no step", shown(ClockStep(), 10.1, 13.9), Code.NO_EFFECT),
    case(
        "a step of another size is weak",
        shown(ClockStep(), 10.1, 13.9, ahead_s=200.0),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "a step that was taken back is weak",
        shown(ClockStep(), 10.1, 11.0, ahead_s=300.0).read(12.0),
        Code.TOO_SHORT,
    ),
    case(
        "a step that came twice is weak",
        shown(ClockStep(), 10.1, ahead_s=300.0).read(11.0).read(12.0, ahead_s=300.0),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "a clock that the node sets right just before the heal was set all the time",
        shown(ClockStep(), *ALL_THE_TIME, ahead_s=300.0).read(13.995),
        Code.AS_ASKED,
        readings=5,
    ),
    *(
        case(
            f"a drift is proved by the rate of the monotonic clock: {rate}",
            shown(ClockDrift(rate=rate), *ALL_THE_TIME, rate=rate),
            Code.AS_ASKED,
            rate=approx(rate, abs=0.01),
            wall_rate=approx(rate, abs=0.01),
        )
        for rate in (0.8, 1.2)
    ),
    case(
        "a clock that keeps time does not drift",
        shown(ClockDrift(), *ALL_THE_TIME),
        Code.NO_EFFECT,
    ),
    case(
        "another rate is weak",
        shown(ClockDrift(), *ALL_THE_TIME, rate=1.6),
        Code.OUT_OF_TOLERANCE,
    ),
    *(
        case(f"{fault.name}: {says}", record, Code.NOT_MEASURED)
        for fault in (ClockStep(), ClockDrift())
        for says, record in (
            ("a node that says nothing proves nothing", Record(fault)),
            ("nor one that says it once", shown(fault)),
        )
    ),
)
def test_the_record_shows_the_clock(case: Case) -> None:
    case.require()
