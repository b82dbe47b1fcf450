"""The plans that come with chaoslab: each loads, can be scheduled, and says what it is for."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from chaoslab.faults.catalogue import FAULTS
from chaoslab.plan.file import json_schema, load, resolved_yaml
from chaoslab.plan.model import FaultPlan
from chaoslab.plan.schedule import Schedule, from_lines, roster_of, schedule, to_lines
from chaoslab.prepare.kinds import kinds

FOLDER = Path(__file__).parent.parent / "fault_plans"
PLANS = sorted(FOLDER.glob("*.yaml"))
each_plan = pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)


def loaded(path: Path, **more: Any) -> FaultPlan:
    return load(path, kinds(), **more)[0]


def drawn(path: Path, seed: int | None = None) -> tuple[FaultPlan, Schedule]:
    plan = loaded(path) if seed is None else loaded(path, seed=seed)
    return plan, schedule(plan, roster_of(plan))


@pytest.mark.gate
def test_every_plan_obeys_the_published_schema() -> None:
    schema = Draft202012Validator(json_schema(kinds()))
    trees = {path.name: YAML(typ="safe", pure=True).load(path.read_text()) for path in PLANS}
    assert {name: found for name, tree in trees.items()
            if (found := [error.message for error in schema.iter_errors(tree)])} == {}  # fmt: skip


@each_plan
def test_a_plan_says_what_it_is_for_and_expects_that_training_goes_on(path: Path) -> None:
    plan = loaded(path)
    assert path.read_text().startswith("# "), "it begins with what it asks"
    assert plan.name == path.stem
    assert plan.description
    assert plan.faults
    assert plan.abort
    expected = {spec.check for spec in plan.expect}
    assert {"continuity", "ledger", "agreement", "versions", "cleanup"} <= expected
    assert expected & {"rejoin", "recovery", "succession"}, "who was hit takes part again"


@each_plan
def test_a_plan_can_be_scheduled_with_other_seeds_and_reads_back_equal(
    path: Path, tmp_path: Path
) -> None:
    for seed in (None, 1):
        plan, its_schedule = drawn(path, seed)
        assert its_schedule.injections
        assert from_lines(to_lines(its_schedule), FAULTS) == its_schedule
    (tmp_path / "resolved.yaml").write_text(resolved_yaml(plan))
    assert loaded(tmp_path / "resolved.yaml") == plan
