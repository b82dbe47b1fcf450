"""Manager of slices: losses are repaired, faults take them, time ends it, outages are said."""

from collections.abc import Callable, Iterator

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Kind, Observation
from chaoslab.fleet.protocols import SliceAct
from chaoslab.fleet.remote.slices import RepairLimits
from chaoslab.fleet.tpu.manager import SliceManager
from chaoslab.fleet.tpu.repair import Cause
from chaoslab.fleet.tpu.states import Condition, Refusal
from tests.fleet.tpu.conftest import NODES
from tests.fleet.tpu.fake_provider import FakeHosts, FakeProvider, refusal
from tests.payload_reading import observed
from tests.waiting import wait_until

LOST, OTHER = NODES


class Kept:
    """A manager with a clock of its own, and what it has said."""

    def __init__(self, limits: RepairLimits) -> None:
        self.provider, self.hosts = FakeProvider(limits), FakeHosts()
        self.now_s = 0.0
        self.manager = SliceManager(self.provider, self.hosts, look_s=0.0)
        self.said: list[Observation] = []
        self.until(lambda: len(self.said) == len(NODES))
        for name in NODES:
            self.manager.note_begun(name, 1)

    def until(self, is_so: Callable[[], bool]) -> None:
        def is_so_after_a_turn() -> bool:
            self.now_s += 0.01
            self.said += self.manager.turn(self.now_s)
            return is_so()

        wait_until(is_so_after_a_turn)

    def stages(self, name: str = LOST) -> list[Json]:
        moves = (one for one in self.said if one.kind is Kind.REPAIR_MOVED and one.source == name)
        return [one.data["stage"] for one in moves]

    def has_reached(self, stage: str, name: str = LOST) -> Callable[[], bool]:
        return lambda: stage in self.stages(name)

    def hears(self, kind: Kind, incarnation: int, name: str = LOST, **data: Json) -> None:
        facts: dict[str, Json] = {"incarnation": incarnation, **data}
        self.manager.hear([observed(kind, facts, source=name)], self.now_s)

    def loses(self, condition: Condition) -> None:
        """The provider takes a slice, and its node ends with it."""
        self.provider.turns(LOST, condition)
        self.hears(Kind.NODE_EXITED, incarnation=1, sent=[])

    def loses_hosts(self, condition: Condition) -> None:
        """The hosts of a slice do not answer any more, and the provider says this."""
        self.provider.turns(LOST, condition)
        self.until(lambda: self.manager.condition(LOST) is condition)
        self.hears(Kind.NODE_EXITED, incarnation=1, sent=[], host_lost=True)

    def last(self) -> Observation:
        return [one for one in self.said if one.kind is Kind.REPAIR_MOVED][-1]


@pytest.fixture
def make() -> Iterator[Callable[..., Kept]]:
    made: list[Kept] = []

    def one(limits: RepairLimits) -> Kept:
        made.append(Kept(limits))
        return made[-1]

    yield one
    for kept in made:
        kept.manager.close()


@pytest.fixture
def kept(make: Callable[..., Kept]) -> Kept:
    return make(RepairLimits())


def test_a_preempted_slice_is_replaced_and_its_node_started_there(kept: Kept) -> None:
    kept.loses(Condition.PREEMPTED)
    kept.until(kept.has_reached("trial"))
    assert kept.provider.changes() == [f"delete {LOST}", f"request {LOST}"]
    assert kept.hosts.begun == [LOST]
    assert kept.hosts.ready == [(LOST, f"{LOST}-1")]
    assert "back" not in kept.stages()
    kept.hears(Kind.LEARNER_STEP, incarnation=1)
    kept.until(lambda: True)
    assert "back" not in kept.stages(), "a step of the former life, told late"
    kept.hears(Kind.LEARNER_STEP, incarnation=2)
    kept.until(kept.has_reached("back"))
    assert kept.stages(OTHER) == []


def test_the_providers_word_alone_takes_no_slice_from_a_node_that_lives(kept: Kept) -> None:
    kept.provider.turns(LOST, Condition.PREEMPTED)
    kept.until(lambda: kept.manager.condition(LOST) is Condition.PREEMPTED)
    kept.hears(Kind.LEARNER_STEP, incarnation=1)
    kept.until(lambda: True)
    assert (kept.stages(), kept.hosts.gone, kept.provider.changes()) == ([], [], [])
    kept.hears(Kind.NODE_EXITED, incarnation=1, sent=[])
    kept.until(kept.has_reached("trial"))


@pytest.mark.deep
def test_hosts_that_are_lost_while_the_provider_calls_them_up_are_replaced_after_a_minute(
    kept: Kept,
) -> None:
    kept.loses_hosts(Condition.UP)
    kept.now_s += 59.0
    kept.until(lambda: True)
    assert kept.stages() == [], "its word may come late"
    kept.hosts.unreachable.add(f"{LOST}-0")
    kept.now_s += 2.0
    kept.until(lambda: f"hosts {LOST}" in kept.provider.calls)
    for _ in range(8):
        kept.now_s += 60.0
        kept.until(lambda: True)
    kept.until(kept.has_reached("trial"))
    assert kept.provider.changes() == [f"delete {LOST}", f"request {LOST}"]
    assert (kept.last().data["preemptions"], kept.last().data["failures"]) == (0, 2)


@pytest.mark.parametrize("condition", [Condition.MAINTAINED, Condition.COMING])
def test_hosts_that_the_provider_took_for_a_while_are_awaited(
    kept: Kept, condition: Condition
) -> None:
    kept.loses_hosts(condition)
    kept.until(kept.has_reached("coming"))
    kept.provider.turns(LOST, Condition.UP)
    kept.until(kept.has_reached("trial"))
    assert kept.provider.changes() == []
    assert (kept.last().data["preemptions"], kept.last().data["failures"]) == (1, 0)


def test_a_node_that_ends_on_a_slice_that_is_up_is_not_repaired(kept: Kept) -> None:
    kept.hears(Kind.NODE_EXITED, incarnation=1, exit_code=1, sent=[])
    kept.now_s += 600.0
    kept.until(lambda: True)
    assert kept.stages() == []


def test_what_the_provider_says_is_told_when_it_changes(kept: Kept) -> None:
    kept.provider.turns(OTHER, Condition.MAINTAINED)
    kept.until(lambda: kept.manager.condition(OTHER) is Condition.MAINTAINED)
    told = [(one.source, one.data["condition"]) for one in kept.said]
    assert told == [(LOST, "up"), (OTHER, "up"), (OTHER, "maintained")]


@pytest.mark.parametrize(
    ("verb", "condition", "mended"),
    [("take", Condition.ABSENT, "request"), ("stop", Condition.STOPPED, "start")],
)
def test_a_slice_that_a_fault_holds_is_lost_and_repaired_when_it_is_healed(
    kept: Kept, verb: str, condition: Condition, mended: str
) -> None:
    assert not kept.manager.repair(LOST, Cause.FAULT, kept.now_s), "nothing was done to it yet"
    kept.manager.do(SliceAct(verb), LOST)
    kept.until(lambda: kept.manager.condition(LOST) is condition)
    kept.until(lambda: True)
    assert (kept.stages(), kept.hosts.gone) == ([], [LOST])
    kept.manager.repair(LOST, Cause.FAULT, kept.now_s)
    kept.until(kept.has_reached("trial"))
    assert kept.provider.changes() == [f"{verb} {LOST}", f"{mended} {LOST}"]
    assert kept.last().data["preemptions"] == 0


def test_a_node_on_hosts_by_address_has_no_slice_to_lose(kept: Kept) -> None:
    with pytest.raises(FleetError, match="learner-9"):
        kept.manager.do(SliceAct.STOP, LOST, "learner-9")
    assert kept.provider.changes() == []
    assert not kept.manager.repair("learner-9", Cause.FAULT, kept.now_s)


def test_several_are_asked_for_side_by_side_and_those_refused_are_named(kept: Kept) -> None:
    kept.provider.refusals[f"stop {OTHER}"] = refusal(Refusal.STATE)
    with pytest.raises(FleetError, match=OTHER):
        kept.manager.do(SliceAct.STOP, *NODES)
    assert sorted(kept.provider.changes()) == [f"stop {LOST}", f"stop {OTHER}"]


@pytest.mark.parametrize(
    ("code", "is_faulted"),
    [(Refusal.STATE, False), (Refusal.DENIED, False), (Refusal.UNAVAILABLE, True)],
)
def test_a_slice_is_faulted_unless_it_is_sure_that_nothing_was_done_to_it(
    kept: Kept, code: Refusal, *, is_faulted: bool
) -> None:
    kept.provider.refusals[f"stop {LOST}"] = refusal(code)
    with pytest.raises(FleetError):
        kept.manager.do(SliceAct.STOP, LOST)
    assert kept.manager.repair(LOST, Cause.FAULT, kept.now_s) is is_faulted
    kept.until(lambda: True)
    assert kept.stages() == (["begun"] if is_faulted else [])


def test_a_slice_that_is_seen_to_go_before_the_answer_is_under_the_fault(kept: Kept) -> None:
    def goes() -> None:
        kept.until(lambda: kept.manager.condition(LOST) is Condition.ABSENT)
        kept.hears(Kind.NODE_EXITED, incarnation=1, sent=[])
        kept.until(lambda: True)

    kept.provider.after_do = goes
    kept.manager.do(SliceAct.TAKE, LOST)
    assert (kept.stages(), kept.hosts.gone) == ([], [LOST])


def test_a_start_that_takes_long_holds_no_turn_up(kept: Kept) -> None:
    kept.hosts.may_begin.clear()
    kept.loses(Condition.PREEMPTED)
    kept.until(lambda: kept.hosts.begun == [LOST])
    kept.provider.turns(OTHER, Condition.MAINTAINED)
    kept.until(lambda: kept.manager.condition(OTHER) is Condition.MAINTAINED)
    assert "trial" not in kept.stages()
    kept.hears(Kind.LEARNER_STEP, incarnation=2)
    kept.hosts.may_begin.set()
    kept.until(kept.has_reached("back"))


def test_a_node_that_crashes_on_its_new_slice_uses_up_the_failures(
    make: Callable[..., Kept],
) -> None:
    kept = make(RepairLimits(preemptions=1000, failures=0))
    kept.loses(Condition.PREEMPTED)
    kept.until(kept.has_reached("trial"))
    kept.hears(Kind.NODE_EXITED, incarnation=2, exit_code=1, sent=[])
    kept.now_s += 11.0
    kept.until(kept.has_reached("given_up"))
    assert (kept.last().data["preemptions"], kept.last().data["failures"]) == (1, 1)
    assert kept.provider.changes().count(f"request {LOST}") == 1


def test_a_node_that_the_harness_ends_on_trial_is_no_failure(kept: Kept) -> None:
    kept.loses(Condition.PREEMPTED)
    kept.until(kept.has_reached("trial"))
    kept.hears(Kind.NODE_EXITED, incarnation=2, sent=["SIGKILL"])
    kept.until(lambda: True)
    assert kept.stages()[-1] == "trial"
    assert kept.manager.require(LOST, kept.now_s), "whoever ended it may start it again"


def test_hosts_that_do_not_answer_yet_are_asked_again(kept: Kept) -> None:
    kept.hosts.unreachable.add(f"{LOST}-1")
    kept.loses(Condition.PREEMPTED)
    kept.until(lambda: f"hosts {LOST}" in kept.provider.calls)
    kept.until(kept.has_reached("up"))
    kept.hosts.unreachable.clear()
    kept.now_s += 60.0
    kept.until(kept.has_reached("trial"))


def test_a_request_without_an_answer_that_was_given_up_is_deleted_all_the_same(
    make: Callable[..., Kept],
) -> None:
    kept = make(RepairLimits(wait_s=10.0))
    for call in (f"request {LOST}", f"delete {LOST}"):
        kept.provider.refusals[call] = refusal(Refusal.UNAVAILABLE)
    kept.loses(Condition.ABSENT)
    kept.until(lambda: f"request {LOST}" in kept.provider.calls)
    kept.now_s += 11.0
    kept.until(kept.has_reached("given_up"))
    kept.until(lambda: kept.provider.changes()[-1] == f"delete {LOST}")
    kept.provider.refusals.clear()

    def is_deleted() -> bool:
        kept.now_s += 1.0
        return kept.provider.changes().count(f"delete {LOST}") == 2

    kept.until(is_deleted)
    kept.now_s += 60.0
    kept.until(lambda: True)
    assert is_deleted(), "once"


@pytest.mark.parametrize("condition", [Condition.ABSENT, Condition.STOPPED])
def test_nothing_is_requested_or_started_once_the_time_is_over(
    kept: Kept, condition: Condition, caplog: pytest.LogCaptureFixture
) -> None:
    kept.provider.why = "the time of vines is over"
    kept.until(lambda: True)
    kept.until(lambda: True)
    assert caplog.text.count("is not replaced") == 1, "it is said once, when it is reached"
    kept.manager.do(SliceAct.DELETE, LOST)
    kept.provider.turns(LOST, condition)
    kept.until(lambda: kept.manager.condition(LOST) is condition)
    kept.manager.repair(LOST, Cause.FAULT, kept.now_s)
    kept.until(kept.has_reached("given_up"))
    assert kept.provider.changes() == [f"delete {LOST}"]
    assert "the time of vines is over" in str(kept.last().data["detail"])


def test_an_outage_of_the_provider_is_no_loss(kept: Kept) -> None:
    kept.provider.refusals["look"] = refusal(Refusal.UNAVAILABLE)
    kept.until(lambda: kept.manager.condition(LOST) is Condition.UNKNOWN)
    assert (kept.stages(), kept.hosts.gone) == ([], [])
    assert kept.manager.require(LOST, kept.now_s), "its hosts may answer all the same"
    kept.until(lambda: True)
    assert kept.stages() == []
    kept.provider.refusals.clear()
    kept.until(lambda: kept.manager.condition(LOST) is Condition.UP)


def test_a_fleet_that_was_left_can_be_read_and_asks_nobody(kept: Kept) -> None:
    kept.loses(Condition.PREEMPTED)
    kept.manager.close()
    before = list(kept.provider.calls)
    kept.until(lambda: True)
    assert kept.provider.calls == before


def test_a_defect_of_the_watch_is_raised_and_not_swallowed(kept: Kept) -> None:
    kept.provider.refusals["look"] = KeyError("a defect")  # type: ignore[assignment]  # on purpose
    with pytest.raises(KeyError):
        kept.until(lambda: False)


def test_a_node_whose_slice_is_lost_is_started_by_its_repair_alone(kept: Kept) -> None:
    assert kept.manager.require(LOST, kept.now_s)
    kept.provider.after_request = Condition.WAITING
    kept.loses(Condition.PREEMPTED)
    kept.until(kept.has_reached("waiting"))
    assert not kept.manager.require(LOST, kept.now_s)
    assert kept.manager.require(OTHER, kept.now_s)
