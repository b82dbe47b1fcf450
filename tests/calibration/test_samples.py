"""Costs from journals: what a simulation was given is found again, and faults do not count."""

from pathlib import Path

import pytest

from chaoslab.calibration.costs_file import measured, missing, to_toml
from chaoslab.calibration.samples import samples_of
from chaoslab.core.events import Kind
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.record.history import History
from chaoslab.run.judged_run import run_and_judge
from chaoslab.sim.costs import FLOP, Costs
from tests.calibration.test_shared_machine import PARAMETERS, TOKENS, Machine
from tests.histories import Story

GIVEN = """\
start_s = 0.9
compile_s = 0.4
flops_per_s = 4e10
spread = 0.03
leave_s = 0.3
syncer_start_s = 0.5
syncer_resume_s = 0.8
store_s = 0.004
publish_s = 0.003
merge_s = 0.006
save_s = 0.02
checkpoint_bytes = 10.0
latency_s = 0.002
exit_s = 0.06
norm = 0.7
evaluate_s = 0.05
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> History:
    """kill_half at its learners' own speed, with costs that are no defaults."""
    folder = tmp_path_factory.mktemp("runs")
    costs = folder / "costs.toml"
    costs.write_text(GIVEN)
    settings = (
        f"fleet.costs={costs}", "training.step_time=1ms", "training.save_every=500ms",
        "training.evaluate_every=20000", "twin=false",
    )  # fmt: skip
    asked = Asked(plan="kill_half", fleet="sim", settings=settings)
    return run_and_judge(prepare(asked), folder).history


def test_what_a_simulation_was_given_is_found_again(simulated: History, tmp_path: Path) -> None:
    path = tmp_path / "given.toml"
    path.write_text(GIVEN)
    given = Costs.read(path)
    found = {one.cost: one.value for one in measured([samples_of(simulated)])}
    for cost in (
        "start_s", "compile_s", "leave_s", "syncer_start_s", "store_s", "publish_s", "merge_s",
        "save_s", "checkpoint_bytes", "exit_s", "norm", "evaluate_s", "latency_s",
    ):  # fmt: skip
        assert found[cost] == pytest.approx(getattr(given, cost), rel=0.1), cost


def test_a_syncer_that_continues_from_its_disk_has_a_cost_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "costs.toml").write_text(GIVEN)
    settings = (f"fleet.costs={tmp_path / 'costs.toml'}", "twin=false")
    asked = Asked(plan="syncer_crash", fleet="sim", settings=settings)
    samples = samples_of(run_and_judge(prepare(asked), tmp_path).history)
    assert samples["syncer_start_s"] == pytest.approx([0.5])
    assert samples["syncer_resume_s"] == pytest.approx([0.8, 0.8])


def test_the_speed_of_a_chip_comes_from_steps_without_a_pace() -> None:
    machine = Machine(fleet="ssh")
    machine.start("a", 0.0, 0.0)
    for number in range(1, 8):
        machine.step("a", 0.1 * number, 5 * number, 0.02, None)
    for number in range(8, 20):
        machine.step("a", 0.3 * number, 5 * number, 0.06, 0.06)
    found = samples_of(machine.history)
    assert found["flops_per_s"] == pytest.approx([FLOP * PARAMETERS * TOKENS / 0.02])
    assert found["spread"] == [0.0] * 6


def test_of_a_run_that_keeps_a_pace_throughout_the_time_measured_before_counts() -> None:
    machine = Machine(fleet="ssh")
    machine.start("a", 0.0, 0.0)
    machine.say(0.1, "harness", Kind.PACE_SET, step_s=0.06, measured_s={"a": 0.03})
    for number in range(1, 8):
        machine.step("a", 0.3 * number, 5 * number, 0.06, 0.06)
    found = samples_of(machine.history)["flops_per_s"]
    assert found == pytest.approx([FLOP * PARAMETERS * TOKENS / 0.03])


def test_steps_after_the_first_fault_do_not_count() -> None:
    def found(after_s: float) -> list[int]:
        story = Story().baseline().kill("learner-1").train(6).heal().train(after_s).end()
        samples = samples_of(story.history())
        return [len(samples[cost]) for cost in ("spread", "norm", "latency_s")]

    assert found(12.0) == found(24.0)
    assert len(samples_of(Story().baseline().train(24.0).history())["norm"]) > found(24.0)[1]


def test_a_file_of_costs_is_read_by_a_simulation_and_names_what_it_lacks(tmp_path: Path) -> None:
    found = measured([{"start_s": [1.0, 2.0, 6.0], "norm": [0.5]}, {"norm": [0.6, 0.7]}])
    path = tmp_path / "costs.toml"
    path.write_text(to_toml(found, ["a story"]))
    first, *_, last = path.read_text().splitlines()
    assert ("a story" in first, "decode_s" in last) == (True, True)
    assert Costs.read(path) == Costs(start_s=2.0, norm=0.6)


def test_work_of_rounds_with_enough_samples_is_written_with_its_quantiles(tmp_path: Path) -> None:
    many = [number / 1000 for number in range(201)]
    found = measured([{"push_s": many, "merge_s": many[:50], "start_s": many}])
    path = tmp_path / "costs.toml"
    path.write_text(to_toml(found, ["a story"]))
    costs = Costs.read(path)
    values = {one.cost: one.value for one in found}
    assert costs == Costs(**values, quantiles=costs.quantiles)
    assert list(costs.quantiles) == ["push_s"]
    assert costs.quantiles["push_s"] == pytest.approx([0.005 * part for part in range(41)])


def test_a_cost_that_cannot_be_zero_is_left_out_when_it_was_measured_as_zero() -> None:
    found = measured([{"norm": [0.0, 0.0], "merge_s": [0.0]}])
    assert [one.cost for one in found] == ["merge_s"]
    assert "norm" in missing(found)
