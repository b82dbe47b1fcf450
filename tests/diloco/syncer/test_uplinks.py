"""The syncer's view of every link: from the first hello on, silent or not."""

from chaoslab.core.events import Kind
from chaoslab.core.link_meter import Meter
from chaoslab.diloco.syncer.uplinks import Uplinks
from tests.diloco.hand_learner import Told


class Pings:
    """Counts pings; `queue` and `meter` as of a real one."""

    queue = {"queued": 2, "queued_bytes": 70}  # noqa: RUF012 - never changed

    def __init__(self) -> None:
        self.meter = Meter()
        self.sent = 0

    def ping(self) -> None:
        self.sent += 1

    def use_meter(self, meter: Meter) -> None:
        meter.take_over(self.meter)
        self.meter = meter


class Hub:
    """Sessions that are open."""

    def __init__(self) -> None:
        self.open: dict[int, Pings] = {}

    def pings(self, session: int) -> Pings | None:
        return self.open.get(session)


def uplinks() -> tuple[Hub, Told, Uplinks]:
    hub, told = Hub(), Told()
    return hub, told, Uplinks(hub, told.emit, 0.0)  # type: ignore[arg-type]  # it only asks for pings


def test_every_attached_learner_is_pinged_and_reported() -> None:
    hub, told, links = uplinks()
    hub.open = {1: Pings(), 2: Pings()}
    links.attach(1, "learner-0", 1)
    links.attach(2, "learner-1", 3)
    for tick in range(1, 11):
        links.tick(tick / 10)
    measured = told.of(Kind.LINK_MEASURED)
    assert [(m["learner"], m["incarnation"], m["direction"]) for m in measured] == [
        ("learner-0", 1, "up"),
        ("learner-1", 3, "up"),
    ]
    assert (measured[0]["queued"], measured[0]["queued_bytes"]) == (2, 70)
    assert [pings.sent for pings in hub.open.values()] == [4, 4]


def test_bytes_go_on_with_the_next_stream_of_the_same_learner() -> None:
    hub, told, links = uplinks()
    hub.open[1] = Pings()
    links.attach(1, "learner-0", 1)
    hub.open[1].meter.arrived(0.0, 1000)
    hub.open = {2: Pings()}
    hub.open[2].meter.arrived(0.0, 30)
    links.attach(2, "learner-0", 2)
    hub.open[2].meter.arrived(0.0, 5)
    links.tick(1.0)
    (measured,) = told.of(Kind.LINK_MEASURED)
    assert (measured["bytes"], measured["incarnation"]) == (1035, 2)


def test_a_learner_that_is_gone_is_still_reported_as_silent() -> None:
    hub, told, links = uplinks()
    hub.open[1] = Pings()
    links.attach(1, "learner-0", 1)
    hub.open.clear()
    for second in range(1, 4):
        links.tick(float(second))
    measured = told.of(Kind.LINK_MEASURED)
    assert len(measured) == 3
    assert measured[2]["silent_s"] > measured[0]["silent_s"]
    assert measured[2]["queued"] == 0


def test_a_session_that_ended_before_it_was_let_in_is_no_link() -> None:
    _, told, links = uplinks()
    links.attach(9, "learner-0", 1)
    links.tick(1.0)
    assert told.of(Kind.LINK_MEASURED) == []
