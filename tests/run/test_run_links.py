"""Runs whose learners reach the syncer by links, on a fake fleet: wiring, loss, refusal."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import judge
from chaoslab.core.errors import AbilityError, ExitCode, PlanError
from chaoslab.core.events import Kind
from chaoslab.faults.base import Fault
from chaoslab.faults.network import NetworkLatency
from chaoslab.faults.network_cut import NetworkPartition
from chaoslab.faults.region import RegionOutage
from chaoslab.fleet.node_links import INITIAL
from chaoslab.links.effects import Direction, Latency, LinkAbility
from chaoslab.plan.model import Baseline, FaultPlan, Injection, Stop, Training, Trigger
from chaoslab.plan.schedule import Schedule
from chaoslab.prepare.plans import Prepared
from chaoslab.prepare.setup import FleetSetup, LinkSetup, PlanText
from chaoslab.record.history import History
from chaoslab.record.run_directory import RunDirectory
from chaoslab.run import experiment
from chaoslab.run.experiment import run_plan
from chaoslab.undo.base import UndoLog
from tests.fake_faults import FakePause
from tests.fake_links import FakeLinks
from tests.stage import HALF, FakeFleets, ending, no_janitor, the
from tests.virtual_clock import VirtualClock

PLAN = FaultPlan(
    name="fake",
    seed=3,
    training=Training(stop=Stop(rounds=60)),
    baseline=Baseline(warmup=2, window=8),
)
TEXT = PlanText(source="name: fake\n", resolved="name: fake\nseed: 3\n")
FAR = Latency(mean_s=0.04)


class Roads:
    """Makes fake links and remembers them."""

    def __init__(self, abilities: frozenset[LinkAbility] = frozenset(LinkAbility)) -> None:
        self.abilities = abilities
        self.made: list[FakeLinks] = []

    def __call__(self, run_directory: Path, /, *, undo_log: UndoLog) -> FakeLinks:
        self.made.append(FakeLinks(self.abilities))
        return self.made[-1]

    @property
    def used(self) -> list[FakeLinks]:
        """Those that carried a run, not those that were only asked."""
        return [one for one in self.made if one.made]


@pytest.fixture(autouse=True)
def _no_janitor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "start_janitor", no_janitor)


def broken_at(time_s: float) -> FakeFleets:
    """Fleets whose links are lost then."""
    fleets = FakeFleets()
    fleets.prepare = lambda fleet: fleet.at(
        time_s, lambda: setattr(fleet.node_links.made_by, "broken", "it was killed")
    )
    return fleets


def injection(fault: Fault, number: int = 0, **more: object) -> Injection:
    usual = replace(HALF, targets=("learner-1",), trigger=Trigger(round=15), for_s=4.0)
    who = {"number": number, "spec": f"fault-{number}", "fault": fault.name, "settings": fault}
    return replace(usual, **who, **more)  # type: ignore[arg-type]  # as the test likes them


def conducted(
    root: Path,
    *injections: Injection,
    plan: FaultPlan = PLAN,
    fleets: FakeFleets | None = None,
    links: LinkSetup | None = None,
) -> tuple[RunDirectory, History]:
    prepared = Prepared(
        plan=plan,
        roster=(),
        schedule=Schedule(seed=3, injections=injections),
        text=TEXT,
        fleet_setup=FleetSetup(fleet=fleets or FakeFleets(), clock=VirtualClock),
        links=links or LinkSetup(factory=Roads()),
    )
    return run_plan(prepared, root, judge=lambda run: (run, History.read(run.path)))


def test_every_learner_dials_its_own_link_and_the_link_the_syncer(tmp_path: Path) -> None:
    fleets, roads = FakeFleets(), Roads()
    run, history = conducted(tmp_path, fleets=fleets, links=LinkSetup(factory=roads))
    started = history.of(Kind.LINK_STARTED)
    assert [event.payload.link for event in started] == list(PLAN.training.learner_names)
    assert {event.payload.upstream for event in started} == {"127.0.0.1:5005"}
    for event in started:
        command = fleets.made[0].spec_of(event.payload.link).command
        assert command[command.index("--syncer") + 1] == event.payload.address
    assert run.facts["links"] == "fake"
    assert [links.entered for links in roads.used] == [0]


def test_without_links_learners_dial_the_syncer(tmp_path: Path) -> None:
    _, history = conducted(tmp_path, links=LinkSetup())
    for event in history.of(Kind.LINK_STARTED):
        assert event.payload.address == event.payload.upstream == "127.0.0.1:5005"


def test_a_fault_shapes_its_targets_links_and_clears_them(tmp_path: Path) -> None:
    roads = Roads()
    _, history = conducted(tmp_path, injection(NetworkLatency()), links=LinkSetup(factory=roads))
    shaped, cleared = the(history, Kind.LINK_SHAPED), the(history, Kind.LINK_CLEARED)
    assert (shaped.payload.link, shaped.payload.effect) == ("learner-1", "latency")
    assert cleared.time_s == pytest.approx(shaped.time_s + 4.0, abs=0.2)
    assert len(history.of(Kind.LINK_COUNTED)) == 3  # injected, before the heal, healed
    assert not roads.used[0].made["learner-1"].effects


def test_two_faults_on_one_link_are_open_together_and_heal_apart(tmp_path: Path) -> None:
    late = injection(NetworkPartition(), 1, trigger=Trigger(round=17), for_s=1.0)
    _, history = conducted(tmp_path, injection(NetworkLatency()), late)
    told = history.of(Kind.LINK_SHAPED, Kind.LINK_CLEARED)
    assert [event.kind for event in told] == [Kind.LINK_SHAPED] * 2 + [Kind.LINK_CLEARED] * 2
    whose = [event.payload.injection for event in told]
    assert whose == ["injection-0", "injection-1", "injection-1", "injection-0"]


@pytest.mark.parametrize("other", [FakePause(), RegionOutage()])
def test_what_also_touches_the_process_waits_for_no_other_fault(
    tmp_path: Path, other: Fault
) -> None:
    late = injection(other, 1, trigger=Trigger(round=17))
    _, history = conducted(tmp_path, injection(NetworkLatency()), late)
    skipped = the(history, Kind.FAULT_SKIPPED).payload
    assert (skipped.injection, skipped.obstacle) == ("injection-1", "under_fault")


# ---------------------------------------------------------------- loss


def test_lost_links_end_the_run_which_is_then_not_passed(tmp_path: Path) -> None:
    fleets, roads = broken_at(12.0), Roads()
    _, history = conducted(
        tmp_path,
        injection(NetworkLatency(), for_s=60.0),
        fleets=fleets,
        links=LinkSetup(factory=roads),
    )
    lost = the(history, Kind.LINK_LOST)
    assert lost.time_s == pytest.approx(12.0, abs=1.1)
    assert ending(history)[0] == "aborted"
    assert history.faults[0].healed is not None
    assert not fleets.made[0].alive
    assert roads.used[0].entered == 0
    verdict = judge(history, ())
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNKNOWN, ExitCode.UNKNOWN)
    (found,) = [finding for finding in verdict.findings if finding.check == "links"]
    assert "killed" in found.reason
    assert found.evidence == (lost.seq,)


def test_links_that_are_lost_before_anybody_joined_end_the_run_at_once(tmp_path: Path) -> None:
    _, history = conducted(tmp_path, fleets=broken_at(0.2))
    assert ending(history)[0] == "aborted"
    assert history.end_s < 10.0


# ---------------------------------------------------------------- what holds from the start


def test_a_twin_has_the_links_and_the_initial_effects_of_its_run(tmp_path: Path) -> None:
    roads = Roads()
    setup = LinkSetup(factory=roads, initial_effects={"learner-2": ((Direction.BOTH, FAR),)})
    plan = replace(PLAN, twin=True)
    _, history = conducted(tmp_path, plan=plan, links=setup)
    assert history.twin is not None
    for record in (history, history.twin):
        shaped = the(record, Kind.LINK_SHAPED)
        assert (shaped.payload.link, shaped.payload.injection) == ("learner-2", INITIAL)
    assert len(roads.used) == 2


# ---------------------------------------------------------------- refusal


NO_FREEZE = Roads(frozenset(LinkAbility) - {LinkAbility.FREEZE})
FAR_FROM_THE_START = {"learner-0": ((Direction.BOTH, FAR),)}


@pytest.mark.parametrize(
    ("setup", "some", "error", "name"),
    [
        (LinkSetup(), [injection(NetworkLatency())], AbilityError, "fault-0"),
        (LinkSetup(factory=NO_FREEZE), [injection(NetworkPartition())], AbilityError, "freeze"),
        (LinkSetup(initial_effects=FAR_FROM_THE_START), [], AbilityError, "latency"),
        (
            LinkSetup(factory=Roads()),
            [injection(NetworkLatency(), targets=("syncer",))],
            PlanError,
            "fault-0",
        ),
    ],
    ids=["a fault without links", "a fault beyond them", "a profile beyond them", "the syncer's"],
)
def test_what_links_cannot_do_is_refused_before_anything_is_made(
    tmp_path: Path, setup: LinkSetup, some: list[Injection], error: type[Exception], name: str
) -> None:
    with pytest.raises(error, match=name):
        conducted(tmp_path / "runs", *some, links=setup)
    assert not (tmp_path / "runs").exists()
