"""A plan without chance gives the injections that it was made of, whatever its seed."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.plan.file import load, resolved_yaml
from chaoslab.plan.model import FaultPlan, Injection
from chaoslab.plan.schedule import roster_of, schedule
from chaoslab.prepare.kinds import kinds
from chaoslab.prepare.plans import bundled_plans
from chaoslab.replay.explicit import explicit


def drawn(plan: FaultPlan) -> tuple[Injection, ...]:
    return schedule(plan, roster_of(plan)).injections


def plan_of(tmp_path: Path, faults: str) -> FaultPlan:
    path = tmp_path / "plan.yaml"
    path.write_text(f"version: 1\nname: p\nseed: 4\nlimits: {{min_alive: 0}}\nfaults:\n{faults}")
    return load(path, kinds())[0]


@pytest.mark.parametrize("name", ["kill_half", "mtbf_soak", "region_outage", "syncer_crash"])
def test_every_kind_of_schedule_can_be_written_out(name: str, tmp_path: Path) -> None:
    plan, _ = load(bundled_plans()[name], kinds())
    whole = drawn(plan)
    path = tmp_path / "explicit.yaml"
    path.write_text(resolved_yaml(replace(explicit(plan, whole), seed=plan.seed + 77)))
    again = drawn(load(path, kinds())[0])
    assert len(again) == len(whole)
    for one, other in zip(whole, again, strict=True):
        assert set(one.targets) == set(other.targets)
        assert (one.fault, one.settings, one.for_s, one.watched) == (
            other.fault, other.settings, other.for_s, other.watched,
        )  # fmt: skip
        assert one.trigger.after or one.trigger == other.trigger


CHAIN = """
- {id: first, fault: process.kill, target: {learners: 1}, at: {round: 20}, for: 2s}
- {id: second, fault: process.kill, target: {learners: 1}, at: {after: first, offset: 1s}, for: 2s}
"""


def test_a_fault_that_waits_for_another_cannot_be_without_it(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, CHAIN)
    first, second = drawn(plan)
    assert [spec.id for spec in explicit(plan, (first, second)).faults] == ["first", "second"]
    with pytest.raises(PlanError, match="left out"):
        explicit(plan, (second,))


def test_injections_of_one_fault_are_numbered(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        "- {id: storm, fault: process.kill, target: {learners: all}, "
        "arrivals: {per: fleet, mtbf: 5s, until: 40s}, for: 1s}",
    )
    whole = drawn(plan)
    assert len(whole) > 2
    names = [spec.id for spec in explicit(plan, whole).faults]
    assert names == [f"storm-{number}" for number in range(1, len(whole) + 1)]
    assert [spec.id for spec in explicit(plan, whole[1:2]).faults] == ["storm"]
