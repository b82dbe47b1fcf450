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


def test_groups_give_their_learners_speeds_and_regions(load: Loader) -> None:
    plan = load(HEAD + MIXED)
    groups = (LearnerGroup(count=2, region="us"), LearnerGroup(count=3, speed=0.82, region="eu"))
    assert plan.training.learners == groups
    assert plan.training.learner_names == tuple(f"learner-{index}" for index in range(5))
    assert plan.training.speeds == dict.fromkeys(plan.training.learner_names[2:], 0.82)
    assert [plan.labels[f"learner-{index}"]["region"] for index in (1, 2)] == ["us", "eu"]
    alike = load(HEAD + "training: {learners: 3}\n").training
    assert (alike.learners, alike.learner_count, alike.speeds) == (3, 3, {})


def test_regions_of_the_fleet_take_the_learners_that_no_group_has_placed(load: Loader) -> None:
    text = "training: {learners: [{count: 2, region: us}, {count: 2}]}\nfleet: {regions: {us: 2}}\n"
    labels = load(HEAD + text).labels
    assert {name: one["region"] for name, one in labels.items()} == {
        f"learner-{index}": "us" for index in range(4)
    }


def test_only_slow_learners_are_started_with_a_speed(load: Loader, tmp_path: object) -> None:
    plan = load(HEAD + MIXED)
    specs = Launch(plan=plan, snapshots=tmp_path, tokens=tmp_path).learners(  # type: ignore[arg-type]
        dict.fromkeys(plan.training.learner_names, "here:1")
    )
    assert ["--speed" in spec.command for spec in specs] == [False, False, True, True, True]
    assert "0.82" in specs[-1].command


def test_what_is_written_reads_as_it_was(load: Loader) -> None:
    training = written(load(HEAD + MIXED))["training"]
    assert training["learners"] == [
        {"count": 2, "speed": "100%", "region": "us"},
        {"count": 3, "speed": "82%", "region": "eu"},
    ]


GROUP = "training: {learners: [{count: 2, region: us}]}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((f"training: {{learners: {learners}}}", words) for learners, words in (
            ("[{count: 2}, {count: 2, speed: 120%}]", ":3:53: "),
            ("[{count: 2}, {count: 0}]", ":3:43: "),
            ("[{count: 2}, {cuont: 2}]", ":3:36: "),
            ("[{count: 2}, {count: 2, speed: fast}]", ":3:53: "),
            ("[{count: 2, region: ''}]", r"learners\[0\].region: "),
            ("[{count: 1, hosts: 65}]", "hosts.* 65"),
            ("[{count: 1, hosts: 3}]", "3 hosts"),
            ("[]", ":3:22: "),
            ("{count: 2}", ":3:22: "),
            ("0", ":3:22: "),
        )),
        ("training: {hosts: 0}", "hosts.* 0"),
        ("training: {hosts: 3}", "3 hosts"),
        (GROUP + "fleet: {regions: {asia: [learner-0]}}", ":4:.* fleet.regions: learner-0 "),
        (GROUP + "fleet: {labels: {learner-0: {region: asia}}}", ":4:.* fleet.labels: learner-0 "),
    ],
)  # fmt: skip
def test_a_mistake_in_a_group_is_named_with_its_place(load: Loader, text: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        load(HEAD + text)


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
