"""Learners that are not all alike: `training.learners` as a list of groups."""

from typing import Any

import jsonschema
import pytest

from chaoslab.core.errors import PlanError
from chaoslab.plan.file import json_schema
from chaoslab.plan.file.writing import written
from chaoslab.plan.model import LearnerGroup
from chaoslab.prepare.launch import Launch
from tests.plan.file.catalogue import HEAD, KINDS, Loader

MIXED = """training:
  learners: [{count: 2, region: us}, {count: 3, speed: 82%, region: eu}]
"""


def test_groups_are_counted_and_kept(load: Loader) -> None:
    training = load(HEAD + MIXED).training
    assert training.learner_count == 5
    assert training.learners == (
        LearnerGroup(count=2, region="us"),
        LearnerGroup(count=3, speed=0.82, region="eu"),
    )
    assert training.learner_names[-1] == "learner-4"


def test_a_count_is_no_group(load: Loader) -> None:
    training = load(HEAD + "training: {learners: 3}\n").training
    assert (training.learners, training.learner_count, training.speeds) == (3, 3, {})


def test_the_speed_of_a_group_is_that_of_its_learners(load: Loader) -> None:
    plan = load(HEAD + MIXED)
    assert plan.training.speeds == {"learner-2": 0.82, "learner-3": 0.82, "learner-4": 0.82}


def test_the_region_of_a_group_is_a_label_of_its_learners(load: Loader) -> None:
    labels = load(HEAD + MIXED).labels
    assert labels["learner-1"] == {"region": "us"}
    assert labels["learner-2"] == {"region": "eu"}


def test_regions_of_the_fleet_take_the_learners_that_no_group_has_placed(load: Loader) -> None:
    text = "training: {learners: [{count: 2, region: us}, {count: 2}]}\nfleet: {regions: {us: 2}}\n"
    labels = load(HEAD + text).labels
    assert {name: one["region"] for name, one in labels.items()} == {
        f"learner-{index}": "us" for index in range(4)
    }


def test_a_learner_in_two_regions_is_a_mistake(load: Loader) -> None:
    with pytest.raises(PlanError, match=r":\d+:\d+: fleet.regions: learner-0 "):
        load(HEAD + MIXED + "fleet: {regions: {asia: [learner-0]}}\n")
    with pytest.raises(PlanError, match=r":\d+:\d+: fleet.labels: learner-0 "):
        load(HEAD + MIXED + "fleet: {labels: {learner-0: {region: asia}}}\n")


def test_a_region_without_a_name_is_a_mistake(load: Loader) -> None:
    with pytest.raises(PlanError, match=r"learners\[0\].region: "):
        load(HEAD + "training: {learners: [{count: 2, region: ''}]}\n")


def test_only_slow_learners_are_started_with_a_speed(load: Loader, tmp_path: object) -> None:
    plan = load(HEAD + MIXED)
    specs = Launch(plan=plan, snapshots=tmp_path, tokens=tmp_path).learners(  # type: ignore[arg-type]
        dict.fromkeys(plan.training.learner_names, "here:1")
    )
    speeds = [
        spec.command[spec.command.index("--speed") + 1] if "--speed" in spec.command else None
        for spec in specs
    ]
    assert speeds == [None, None, "0.82", "0.82", "0.82"]


def test_what_is_written_reads_as_it_was(load: Loader) -> None:
    training = written(load(HEAD + MIXED))["training"]
    assert training["learners"] == [
        {"count": 2, "speed": "100%", "region": "us"},
        {"count": 3, "speed": "82%", "region": "eu"},
    ]


@pytest.mark.parametrize(
    ("learners", "place"),
    [
        ("[{count: 2}, {count: 2, speed: 120%}]", "4:44"),
        ("[{count: 2}, {count: 0}]", "4:34"),
        ("[{count: 2}, {cuont: 2}]", "4:27"),
        ("[{count: 2}, {count: 2, speed: fast}]", "4:44"),
        ("[]", "4:13"),
        ("{count: 2}", "4:13"),
        ("0", "4:13"),
    ],
)
def test_a_mistake_in_a_group_is_named_with_its_place(
    load: Loader, learners: str, place: str
) -> None:
    with pytest.raises(PlanError, match=f":{place}: "):
        load(f"{HEAD}training:\n  learners: {learners}\n")


def test_editors_know_both_forms() -> None:
    validator: Any = jsonschema.Draft202012Validator(json_schema(KINDS))
    for learners, is_right in (
        (4, True),
        ([{"count": 4}, {"count": 4, "speed": "82%", "region": "eu"}], True),
        ([], False),
        ([{"speed": "82%"}], False),
        ([{"count": 4, "pace": "82%"}], False),
    ):
        plan = {"version": 1, "name": "trial", "training": {"learners": learners}}
        assert validator.is_valid(plan) is is_right, learners


def test_hosts_of_a_group_come_before_those_of_the_training(load: Loader) -> None:
    text = "training: {learners: [{count: 1}, {count: 1, hosts: 4}], hosts: 2, reserve: 1}\n"
    training = load(HEAD + text).training
    assert [training.hosts_of(name) for name in training.roster] == [2, 4, 2]
    assert load(HEAD + "training: {learners: 2}\n").training.hosts_of("learner-1") == 1


@pytest.mark.parametrize(
    ("training", "number"),
    [
        ("{hosts: 0}", 0),
        ("{learners: [{count: 1, hosts: 65}]}", 65),
        ("{hosts: 3}", 3),
        ("{learners: [{count: 1, hosts: 3}]}", 3),
    ],
)
def test_hosts_that_cannot_be_are_a_mistake(load: Loader, training: str, number: int) -> None:
    with pytest.raises(PlanError, match=rf"hosts.*\b{number}\b|\b{number} hosts"):
        load(HEAD + f"training: {training}\n")
