"""The search for the least schedule that fails, on functions in the place of runs."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from chaoslab.core.protocol import Corruption
from chaoslab.faults.base import HasStrength
from chaoslab.faults.catalogue import FAULTS as ALL
from chaoslab.faults.clock import ClockDrift, ClockStep
from chaoslab.faults.compute import ComputeSlow
from chaoslab.faults.network import NetworkBandwidth, NetworkLatency
from chaoslab.faults.network_break import NetworkFlap, NetworkReset
from chaoslab.faults.network_cut import NetworkPartition
from chaoslab.faults.network_packets import NetworkPackets
from chaoslab.faults.network_wan import NetworkRegionProfile
from chaoslab.faults.process import ProcessCrashLoop, ProcessKill
from chaoslab.faults.storage_room import StorageSlowDisk
from chaoslab.faults.update import UpdateTamper
from chaoslab.links.effects import Direction
from chaoslab.links.profiles import profile
from chaoslab.plan.model import Injection, Trigger
from chaoslab.replay.minimise import Answer, Budget, Candidate, Ending, Minimised, fewest, minimise

PLENTY = 1000


def kill(number: int, *targets: str, for_s: float | None = 4.0) -> Injection:
    return Injection(
        number=number, spec=f"kill-{number}", fault="process.kill", settings=ProcessKill(),
        targets=targets or ("learner-0",), trigger=Trigger(round=10 * number), for_s=for_s,
    )  # fmt: skip


def schedule(count: int) -> Candidate:
    return tuple(map(kill, range(count)))


def searched(
    whole: Candidate, fails: Callable[[Candidate], bool], *, runs: int = PLENTY
) -> Minimised:
    def runner(candidate: Candidate) -> Answer:
        return Answer.FAILS if candidate and fails(candidate) else Answer.PASSES

    return minimise(whole, runner, Budget(runs=runs, now_s=lambda: 0.0))


def numbers(candidate: Candidate) -> set[int]:
    return {one.number for one in candidate}


# ---------------------------------------------------------------- fewest


def test_ten_faults_come_down_to_the_one_that_matters() -> None:
    found = searched(schedule(10), lambda some: 7 in numbers(some))
    assert numbers(found.best) == {7}
    assert found.ending is Ending.MINIMAL
    assert len(found.trials) < 20


def test_what_is_left_fails_and_no_longer_without_any_of_it() -> None:
    chance = random.Random(5)
    for _ in range(50):
        causes = [set(chance.sample(range(9), chance.randint(1, 4))) for _ in range(2)]

        def fails(kept: Sequence[int], causes: list[set[int]] = causes) -> bool:
            return any(cause <= set(kept) for cause in causes)

        left = fewest(range(9), fails)
        assert fails(left)
        assert not any(fails([one for one in left if one != gone]) for gone in left)


def test_a_candidate_is_never_run_twice() -> None:
    found = searched(schedule(9), lambda some: {2, 5, 8} <= numbers(some))
    tried = [one.candidate for one in found.trials]
    assert all(one not in tried[:at] for at, one in enumerate(tried))


# ---------------------------------------------------------------- shorter, milder, fewer targets


def test_durations_are_halved_while_it_fails() -> None:
    found = searched((kill(0, for_s=8.0),), lambda some: (some[0].for_s or 0) >= 1.5)
    assert found.best[0].for_s == 2.0


def test_targets_are_taken_away_while_it_fails() -> None:
    whole = (kill(0, "learner-0", "learner-1", "learner-2", "learner-3"),)
    found = searched(whole, lambda some: {"learner-1", "learner-2"} <= set(some[0].targets))
    assert found.best[0].targets == ("learner-1", "learner-2")


def test_what_was_needed_at_full_strength_costs_one_run_each_when_it_is_milder() -> None:
    whole = (kill(0, "learner-0", "learner-1", "learner-2", for_s=1.0),)
    found = searched(whole, lambda some: len(some[0].targets) == 3)
    assert (found.best[0].for_s, len(found.best[0].targets)) == (0.5, 3)
    shortened = [one for one in found.trials if one.candidate and one.candidate[0].for_s == 0.5]
    assert len(shortened) == 1 + 3


@pytest.mark.parametrize(
    ("settings", "matters", "least"),
    [
        (ComputeSlow(factor=9.0), lambda one: one.factor >= 2.5, ComputeSlow(factor=3.0)),
        (NetworkPackets(share=0.16), bool, NetworkPackets(share=0.01, direction=Direction.UP)),
        (NetworkPartition(), lambda one: Direction.DOWN in one.direction.ways,
         NetworkPartition(direction=Direction.DOWN)),
        (NetworkFlap(times=8, down_s=2.0), lambda one: one.down_s >= 2.0,
         NetworkFlap(times=1, down_s=2.0)),
    ],
)  # fmt: skip
def test_strengths_are_halved_each_alone_and_four_times_at_most_while_it_fails(
    settings: Any, matters: Callable[[Any], bool], least: object
) -> None:
    whole = (replace(kill(0, for_s=None), settings=settings),)
    found = searched(whole, lambda some: matters(some[0].settings))
    assert (found.ending, found.best[0].settings) == (Ending.MINIMAL, least)


@pytest.mark.parametrize(
    ("fault", "milder"),
    [
        (NetworkLatency(mean_s=0.1), [NetworkLatency(mean_s=0.05)]),
        (NetworkBandwidth(rate_bytes_per_s=1e6), [NetworkBandwidth(rate_bytes_per_s=2e6)]),
        (NetworkReset(times=5), [NetworkReset(times=2)]),
        (ClockDrift(rate=1.2), [ClockDrift(rate=1.1)]),
        (ClockStep(by_s=300.0), [ClockStep(by_s=150.0)]),
        (
            UpdateTamper(how=Corruption.SCALED, factor=-999.0),
            [UpdateTamper(how=Corruption.SCALED, factor=-499.0)],
        ),
        (UpdateTamper(how=Corruption.NAN), []),
        (StorageSlowDisk(rate_bytes_per_s=1e5), [StorageSlowDisk(rate_bytes_per_s=2e5)]),
        (ProcessCrashLoop(times=3), [ProcessCrashLoop(times=1)]),
        (ProcessCrashLoop(times=1), []),
        (ComputeSlow(factor=1.3), []),
        (ProcessKill(), []),
    ],
)
def test_a_milder_fault_is_half_as_strong_or_there_is_none(
    fault: HasStrength, milder: list[HasStrength]
) -> None:
    assert list(dict.fromkeys(fault.milder())) == milder


def test_a_milder_path_through_the_world_is_better_in_all_that_its_profile_says() -> None:
    whole = NetworkRegionProfile(profile="cross-us")
    milder, *_ = whole.milder()
    usual = profile("cross-us")
    assert milder.latency_s == usual.latency_s / 2
    assert milder.jitter_s == usual.jitter_s / 2
    assert milder.rate_bytes_per_s == 2 * usual.up_bytes_per_s


@pytest.mark.parametrize("fault", [one for one in ALL.values() if issubclass(one, HasStrength)])
def test_every_strength_of_the_catalogue_gives_other_faults(fault: type[HasStrength]) -> None:
    made = fault()
    for less in (*made.milder(), *made.narrowed()):
        assert (type(less), less == made) == (fault, False)


def test_a_milder_fault_that_makes_another_needless_lets_it_go() -> None:
    def fails(some: Candidate) -> bool:
        is_short = {one.number: (one.for_s or 9) <= 2.0 for one in some}
        return 0 in is_short and (1 in is_short or is_short[0])

    assert numbers(searched((kill(0), kill(1)), fails).best) == {0}


# ---------------------------------------------------------------- how it ends


def test_a_schedule_that_does_not_fail_again_is_left_alone() -> None:
    found = searched(schedule(4), lambda _: False)
    assert (found.ending, len(found.trials)) == (Ending.NOT_REPRODUCED, 1)
    assert found.best == schedule(4)


def test_what_fails_without_any_fault_has_none_for_its_cause() -> None:
    found = minimise(schedule(9), lambda _: Answer.FAILS, Budget(runs=9, now_s=lambda: 0.0))
    assert (found.ending, found.best, len(found.trials)) == (Ending.WITHOUT_FAULTS, (), 2)


def test_what_cannot_be_carried_out_costs_nothing_of_the_budget() -> None:
    def runner(some: Candidate) -> Answer:
        if len(some) in (1, 2):
            return Answer.IMPOSSIBLE
        return Answer.FAILS if len(some) > 2 else Answer.PASSES

    found = minimise(schedule(4), runner, Budget(runs=3, now_s=lambda: 0.0))
    assert (found.ending, len(found.best)) == (Ending.BUDGET_SPENT, 3)
    assert len(found.trials) > 3


def test_a_spent_budget_gives_the_best_so_far() -> None:
    found = searched(schedule(16), lambda some: 3 in numbers(some), runs=4)
    assert (found.ending, len(found.trials)) == (Ending.BUDGET_SPENT, 4)
    assert len(found.best) < 16
    assert 3 in numbers(found.best)


def test_no_run_begins_after_the_time_of_the_budget() -> None:
    clock = iter(range(0, 10_000, 40))
    found = minimise(
        schedule(16),
        lambda some: Answer.FAILS if 3 in numbers(some) else Answer.PASSES,
        Budget(runs=PLENTY, seconds=100.0, now_s=lambda: float(next(clock))),
    )
    assert found.ending is Ending.BUDGET_SPENT
    assert len(found.trials) == 2


@pytest.mark.parametrize(
    ("answer", "ending"),
    [(Answer.INTERRUPTED, Ending.INTERRUPTED), (Answer.BROKEN, Ending.BROKEN)],
)
def test_an_interrupt_or_a_broken_harness_ends_it_with_the_best_so_far(
    answer: Answer, ending: Ending
) -> None:
    answers = iter([Answer.FAILS, Answer.PASSES, Answer.FAILS, answer])
    found = minimise(schedule(8), lambda _: next(answers), Budget(runs=9, now_s=lambda: 0.0))
    assert (found.ending, len(found.best)) == (ending, 4)


def test_an_interrupt_between_two_runs_keeps_the_best_so_far() -> None:
    def runner(candidate: Candidate) -> Answer:
        if len(candidate) == 1:
            raise KeyboardInterrupt
        return Answer.FAILS if candidate else Answer.PASSES

    found = minimise(schedule(2), runner, Budget(runs=PLENTY, now_s=lambda: 0.0))
    assert (found.ending, found.best) == (Ending.INTERRUPTED, schedule(2))


def test_an_unresolved_candidate_is_not_believed_to_fail() -> None:
    def runner(some: Candidate) -> Answer:
        if len(some) < 2:
            return Answer.UNRESOLVED
        return Answer.FAILS if 2 in numbers(some) else Answer.PASSES

    found = minimise(schedule(4), runner, Budget(runs=PLENTY, now_s=lambda: 0.0))
    assert len(found.best) == 2
