"""Whom a fault hits."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoslab.core.errors import PlanError
from chaoslab.core.protocol import Phase
from chaoslab.plan.model import FleetSpec, LearnerGroup, Limits, Pick, Target, Trigger
from chaoslab.plan.schedule import roster_of, schedule
from tests.plan.schedule.drawing import drawn, fault, plan_of

EU = {"learner-0": {"region": "eu"}, "learner-2": {"region": "eu"}, "syncer": {"region": "eu"}}


def hit(target: Target, *, learners: int = 4, seed: int = 7, **more: object) -> tuple[str, ...]:
    plan = plan_of(fault(target), learners=learners, seed=seed)
    return drawn(plan, **more).injections[0].targets  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("share", "learners", "number"),
    [(0.5, 4, 2), (0.5, 5, 3), (0.3, 5, 2), (0.1, 4, 1), (0.01, 8, 1), (1.0, 3, 3), (0.1, 15, 2)],
)
def test_a_share_is_rounded_half_up_and_hits_at_least_one(
    share: float, learners: int, number: int
) -> None:
    assert len(hit(Target(share=share), learners=learners)) == number


@given(seed=st.integers(0, 10**6), count=st.integers(1, 8))
def test_a_count_hits_as_many_learners_as_it_says(seed: int, count: int) -> None:
    targets = hit(Target(count=count), learners=8, seed=seed)
    assert len({name for name in targets if name.startswith("learner-")}) == count
    assert list(targets) == sorted(targets)


def test_every_learner_is_as_likely_as_any_other() -> None:
    hits = [hit(Target(count=1), seed=seed)[0] for seed in range(400)]
    for index in range(4):
        assert hits.count(f"learner-{index}") == pytest.approx(100, abs=20)


@pytest.mark.parametrize(
    ("target", "hits"),
    [
        (Target(names=("learner-3", "learner-1")), "learner-1 learner-3"),
        (Target(everyone=True), "learner-0 learner-1 learner-2 learner-3"),
        (Target(syncer=True), "syncer"),
        (Target(labels={"region": "eu"}), "syncer learner-0 learner-2"),
        (Target(everyone=True, labels={"region": "eu"}), "learner-0 learner-2"),
        (Target(count=2, labels={"region": "eu"}), "learner-0 learner-2"),
        (Target(count=2, pick=Pick.FIRST, exclude=("learner-0",)), "learner-1 learner-2"),
    ],
)
def test_a_target_means_the_nodes_that_it_says(target: Target, hits: str) -> None:
    assert hit(target, labels=EU) == tuple(hits.split())


def test_regions_label_their_learners_by_name_and_by_number() -> None:
    fleet = FleetSpec(regions={"eu": 1, "us": ("learner-0", "learner-3"), "asia": 1})
    plan = replace(plan_of(fault(Target(labels={"region": "us"}))), fleet=fleet)
    regions = [(entry.name, entry.labels.get("region")) for entry in roster_of(plan)]
    assert regions == [
        ("syncer", None), ("learner-0", "us"), ("learner-1", "eu"), ("learner-2", "asia"),
        ("learner-3", "us"),
    ]  # fmt: skip
    (injection,) = schedule(plan, roster_of(plan)).injections
    assert injection.targets == ("learner-0", "learner-3")


@pytest.mark.parametrize(
    ("fleet", "says"),
    [
        ({"regions": {"eu": 5}}, "'eu'"),
        ({"regions": {"eu": ("learner-0",), "us": ("learner-0",)}}, "learner-0"),
        ({"regions": {"eu": 2}, "profiles": {"us": "lan"}}, "regions: {us: 2}"),
        ({"regions": {"eu": ("learner-9",)}}, "`fleet.regions` names learner-9"),
        ({"labels": {"learner-9": {}}}, "`fleet.labels` names learner-9"),
    ],
)
def test_regions_that_cannot_be_are_refused(fleet: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError, match=re.escape(says)):
        roster_of(replace(plan_of(fault(Target(everyone=True))), fleet=FleetSpec(**fleet)))


def test_labels_of_the_plan_are_labels_of_its_roster() -> None:
    labels = {"learner-1": {"region": "eu"}}
    plan = plan_of(fault(Target(everyone=True)))
    labelled = roster_of(replace(plan, fleet=FleetSpec(labels=labels)))
    assert [entry.name for entry in labelled if entry.labels] == ["learner-1"]


MIXED = (LearnerGroup(count=2, speed=0.5), LearnerGroup(count=2), LearnerGroup(count=2, speed=0.8))


@pytest.mark.parametrize(
    ("pick", "count", "hit"),
    [
        (Pick.SLOWEST, 2, ("learner-0", "learner-1")),
        (Pick.FASTEST, 2, ("learner-2", "learner-3")),
        (Pick.FASTEST, 4, ("learner-2", "learner-3", "learner-4", "learner-5")),
    ],
)
def test_picks_by_speed_follow_the_groups_of_the_plan(
    pick: Pick, count: int, hit: tuple[str, ...]
) -> None:
    plan = plan_of(fault(Target(count=count, pick=pick)), learners=MIXED)
    assert drawn(plan).injections[0].targets == hit


def test_the_seed_draws_among_learners_of_equal_speed() -> None:
    target = Target(count=1, pick=Pick.SLOWEST)
    hit = {
        drawn(plan_of(fault(target), learners=MIXED, seed=seed)).injections[0].targets
        for seed in range(20)
    }
    assert hit == {("learner-0",), ("learner-1",)}


def test_last_victim_hits_those_of_the_fault_before() -> None:
    for seed in range(20):
        first, second = drawn(
            plan_of(
                fault(Target(count=2), name="first"),
                fault(
                    Target(count=1, pick=Pick.LAST_VICTIM),
                    name="second",
                    at=Trigger(after="first", offset_s=1.0),
                ),
                seed=seed,
            )
        ).injections
        assert set(second.targets) < set(first.targets)


def test_excluded_and_protected_learners_are_never_drawn() -> None:
    guarded = Limits(min_alive=0, protected=("learner-1",))
    for seed in range(30):
        plan = plan_of(fault(Target(count=2, exclude=("learner-0",))), seed=seed, limits=guarded)
        assert drawn(plan).injections[0].targets == ("learner-2", "learner-3")


LIMITS = Limits(min_alive=0, protected=("learner-1", "syncer"))
ONE = Target(count=1)


@pytest.mark.parametrize(
    ("target", "at", "limits", "words"),
    [
        (Target(names=("learner-9",)), None, None, "`learners` names learner-9"),
        (Target(names=("syncer",)), None, None, "`learners` names syncer"),
        (Target(count=5), None, None, "5 learners"),
        (Target(labels={"region": "us"}), None, None, "syncer (no labels)"),
        (Target(count=2, exclude=("learner-7",)), None, None, "`exclude` names learner-7"),
        (Target(names=("learner-1",), exclude=("learner-1",)), None, None, "`exclude`"),
        (Target(count=4, exclude=("learner-1",)), None, None, "4 learners"),
        (Target(count=1, pick=Pick.LAST_VICTIM), None, None, "earlier fault"),
        (Target(count=1, pick=Pick.SLOWEST), None, None, "speed"),
        (ONE, Trigger(step=3, of="learner-8"), None, "`of` names learner-8"),
        (ONE, Trigger(phase=Phase.PUSH, of="learner-9"), None, "learner-9"),
        (Target(everyone=True), None, LIMITS, "`limits.protected`"),
        (Target(names=("learner-1",)), None, LIMITS, "`limits.protected`"),
        (Target(syncer=True), None, LIMITS, "`limits.protected`"),
        (ONE, None, Limits(protected=("learner-8",)), "names learner-8"),
    ],
)
def test_a_target_that_cannot_be_is_refused_and_told_what_exists(
    target: Target, at: Trigger | None, limits: Limits | None, words: str
) -> None:
    with pytest.raises(PlanError, match=re.escape(words)) as refused:
        drawn(plan_of(fault(target, at=at), limits=limits))
    assert limits or str(refused.value).startswith("trial.yaml:it: ")
