"""Random plans: the same for a seed, of all simulated faults; failing ones shrink to a cause."""

import gc
import os
import signal
from dataclasses import replace
from itertools import chain, pairwise

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.protocol import Phase
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.fuzz.plans import draw, is_possible, simulated
from chaoslab.fuzz.search import HARNESS, Trial, run, shrink, try_seeds
from chaoslab.plan.file import resolved_yaml
from chaoslab.plan.model import FaultPlan
from chaoslab.replay.minimise import Ending

SEEDS = range(12)
_FAST = 2
"""Of these seeds, how many the quick tests simulate."""
_ALL, _SOAK, _CHUNK = 1000, 2000, 40
"""Seeds of the deep tests, up to which they are no soak, and how many of them one test does."""


def test_a_seed_gives_the_same_plan_whenever_it_is_drawn_and_it_can_be_carried_out() -> None:
    plans = [draw(seed) for seed in SEEDS]
    assert plans == [draw(seed) for seed in SEEDS]
    assert len({resolved_yaml(plan) for plan in plans}) == len(SEEDS)
    assert all(map(is_possible, plans))


def test_faults_of_all_kinds_are_drawn_and_overlap_and_come_at_points_of_the_protocol() -> None:
    plans = [draw(seed) for seed in range(200)]
    faults = list(chain.from_iterable(plan.faults for plan in plans))
    assert any(fault.target.syncer for fault in faults)
    assert any(len(fault.target.names) > 1 for fault in faults)
    assert any(fault.fault.startswith("network.") for fault in faults)
    assert any(_overlap(plan) for plan in plans)
    assert {fault.at.phase for fault in faults if fault.at is not None} > set(Phase)
    donating = [
        (fault, {other.id: other.fault for other in plan.faults})
        for plan in plans
        for fault in plan.faults
        if fault.at is not None and fault.at.phase is Phase.DONATE
    ]
    assert donating
    assert all(by_id[f"{one.id}k"] == "process.kill" for one, by_id in donating)


def _overlap(plan: FaultPlan) -> bool:
    spans = sorted(
        (fault.at.time_s, fault.at.time_s + (fault.outage.seconds or 0.0))
        for fault in plan.faults
        if fault.at is not None and fault.at.time_s is not None
    )
    return any(after[0] < before[1] for before, after in pairwise(spans))


def test_faults_that_need_a_kernel_an_engine_or_a_provider_are_not_drawn() -> None:
    names = {fault.name for fault in simulated()}
    assert {"process.kill", "host.kill", "chip.fail", "network.latency"} <= names
    assert not names & {"process.oom", "network.packets", "network.disconnect", "tpu.outage"}


@pytest.mark.parametrize("seed", SEEDS[:_FAST])
def test_invariants_hold(seed: int) -> None:
    trial = run(draw(seed))
    assert trial.reasons == ()
    assert trial.rounds > 0


@pytest.mark.deep
@pytest.mark.parametrize(
    "first",
    [
        *range(0, _ALL, _CHUNK),
        *(pytest.param(first, marks=pytest.mark.soak) for first in range(_ALL, _SOAK, _CHUNK)),
    ],
)
def test_invariants_hold_for_many_seeds(first: int) -> None:
    trials = try_seeds(range(first, first + _CHUNK), jobs=1)
    assert {seed: trial.reasons for seed, trial in trials if trial.is_failing} == {}


def test_what_was_simulated_is_freed() -> None:
    frozen = gc.get_freeze_count()
    run(draw(0))
    assert gc.get_freeze_count() <= frozen  # fewer, if methods were compiled that it needed first


@pytest.mark.deep
def test_two_processes_find_the_same_as_one() -> None:
    one = dict(try_seeds(range(4), jobs=1))
    two = dict(try_seeds(range(4), jobs=2))
    assert one == two


def test_a_failing_plan_shrinks_to_the_fault_that_makes_it_fail() -> None:
    plan = next(one for one in map(draw, range(200)) if len(one.faults) > 2)
    culprit = plan.faults[1].fault
    whole = run(plan)
    failing = replace(whole, violations=frozenset({("ledger", "counted_twice")}))

    def simulate(reduced: FaultPlan) -> Trial:
        has_culprit = any(fault.fault == culprit for fault in reduced.faults)
        found = failing.violations if has_culprit else frozenset[tuple[str, str]]()
        return Trial(plan=reduced, injections=(), violations=found)

    least = shrink(failing, simulate=simulate)
    assert [fault.fault for fault in least.plan.faults] == [culprit]
    assert least.ending is Ending.MINIMAL


def test_a_run_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise FleetError("the simulated world broke")

    monkeypatch.setattr("chaoslab.fuzz.search.run_plan", broken)
    trial = run(draw(0))
    assert trial.violations == {(HARNESS, "FleetError")}
    assert trial.reasons == ("the simulated world broke",)


def test_a_simulation_that_gets_nowhere_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaoslab.sim.clock.EVENTS_MOST", 5000)
    monkeypatch.setattr(Policy, "next_s", lambda _: 0.0)  # something is due for ever
    trial = run(draw(0))
    assert trial.violations == {(HARNESS, "Livelock")}


def test_an_interrupt_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    real, sent = Policy.next_s, list[int]()

    def interrupted(policy: Policy) -> float:
        if not sent:
            sent.append(signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)  # which a run takes as the wish to end in order
        return real(policy)

    monkeypatch.setattr(Policy, "next_s", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(draw(0))
    assert sent
