"""The plans that come with chaoslab: each loads, can be scheduled, and says what it is for."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from chaoslab.faults.catalogue import FAULTS
from chaoslab.plan.file import json_schema, load, resolved_yaml
from chaoslab.plan.model import FaultPlan
from chaoslab.plan.schedule import from_lines, roster_of, schedule, to_lines
from chaoslab.prepare.kinds import kinds

FOLDER = Path(__file__).parent.parent / "fault_plans"
PLANS = sorted(FOLDER.glob("*.yaml"))
SEEDS = range(8)


def loaded(path: Path, **more: Any) -> FaultPlan:
    return load(path, kinds(), **more)[0]


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json_schema(kinds())


def test_the_eight_plans_are_there() -> None:
    assert {path.stem for path in PLANS} >= {
        "kill_half", "kill_one", "kill_all_but_one", "pause_one", "wedge_one", "preempt",
        "crash_loop", "mtbf_soak",
    }  # fmt: skip


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_loads_under_the_name_of_its_file(path: Path) -> None:
    plan = loaded(path)
    assert plan.name == path.stem
    assert plan.description
    assert plan.faults
    assert plan.abort
    assert path.read_text().startswith("# "), "it begins with what it asks"


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_expects_that_training_goes_on_and_learners_come_back(path: Path) -> None:
    expected = {spec.check for spec in loaded(path).expect}
    assert {"continuity", "ledger", "agreement", "versions", "cleanup"} <= expected
    assert expected & {"rejoin", "join", "recovery", "succession"}, "who was hit takes part again"


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_obeys_the_published_schema(path: Path, schema: dict[str, Any]) -> None:
    tree = YAML(typ="safe", pure=True).load(path.read_text())
    assert [error.message for error in Draft202012Validator(schema).iter_errors(tree)] == []


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_can_be_scheduled_with_any_seed(path: Path) -> None:
    for seed in SEEDS:
        plan = loaded(path, seed=seed)
        drawn = schedule(plan, roster_of(plan))
        assert drawn.injections
        assert from_lines(to_lines(drawn), FAULTS) == drawn


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_resolves_to_one_that_reads_back_equal(path: Path, tmp_path: Path) -> None:
    plan = loaded(path)
    (tmp_path / "resolved.yaml").write_text(resolved_yaml(plan))
    assert loaded(tmp_path / "resolved.yaml") == plan


def test_half_of_the_learners_die_for_at_least_five_seconds() -> None:
    plan = loaded(FOLDER / "kill_half.yaml")
    (injection,) = schedule(plan, roster_of(plan)).injections
    assert plan.training.learner_count >= 4
    assert len(injection.targets) == plan.training.learner_count / 2
    assert injection.for_s is not None
    assert injection.for_s >= 5


def test_the_soak_is_stochastic_and_leaves_half_of_the_learners_alive() -> None:
    plan = loaded(FOLDER / "mtbf_soak.yaml")
    assert all(spec.arrivals is not None for spec in plan.faults)
    assert plan.limits.min_alive >= plan.training.learner_count / 2
    assert len(schedule(plan, roster_of(plan)).injections) >= 4
