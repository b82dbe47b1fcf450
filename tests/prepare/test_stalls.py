"""A plan whose faults leave fewer learners than a round needs is named before it starts."""

from pathlib import Path

import pytest

from chaoslab.prepare.plans import Asked, prepare

KILL = "{id: dies, fault: process.kill, target: {learners: [learner-1]}, at: {round: 20}, for: %s}"
JOIN = "{id: grow, fault: control.scale_up, target: {reserve: all}, at: {round: 40}, for: rest}"


def warnings(folder: Path, training: str, *faults: str) -> tuple[str, ...]:
    path = folder / "trial.yaml"
    listed = "".join(f"  - {fault}\n" for fault in faults)
    path.write_text(
        f"version: 1\nname: trial\ntraining: {{learners: 4, {training}}}\n"
        f"limits: {{timeout: 4m}}\nfaults:\n{listed}expect:\n  - {{check: cleanup}}\n"
    )
    return prepare(Asked(plan=str(path))).warnings


@pytest.mark.parametrize("algorithm", ["streaming", "diloco"])
def test_a_learner_that_is_waited_for_and_never_comes_back_is_a_warning_at_its_place(
    tmp_path: Path, algorithm: str
) -> None:
    (warning,) = warnings(tmp_path, f"algorithm: {algorithm}", KILL % "rest")
    assert f"trial.yaml:6:{KILL.index('%s') + 5}: faults[0].for: 'dies' takes learner-1" in warning
    assert f"`algorithm: {algorithm}`" in warning


def test_a_learner_that_would_come_back_after_the_end_of_the_run_never_does(tmp_path: Path) -> None:
    late = KILL.replace("round: 20", "time: 3m")
    (warning,) = warnings(tmp_path, "algorithm: streaming", late % "1m")
    assert "takes learner-1 away until the run ends" in warning
    assert warnings(tmp_path, "algorithm: streaming", late % "59s") == ()


def test_fewer_learners_than_the_quorum_are_a_warning_for_each_fault_that_takes_one(
    tmp_path: Path,
) -> None:
    other = KILL.replace("dies", "dies-too").replace("learner-1", "learner-3") % "rest"
    first, second = warnings(tmp_path, "quorum: 3", KILL % "rest", other)
    assert "faults[0].for: 'dies' takes learner-1 away" in first
    assert "faults[1].for: 'dies-too' takes learner-3 away" in second


def test_a_learner_that_is_only_known_at_a_phase_counts(tmp_path: Path) -> None:
    unknown = "target: {learners: 1, pick: at_phase}, at: {phase: push}, for: rest}"
    fault = f"{{id: dies, fault: process.kill, {unknown}"
    (warning,) = warnings(tmp_path, "algorithm: streaming", fault)
    assert "takes a learner away" in warning


@pytest.mark.parametrize(
    ("training", "faults"),
    [
        ("algorithm: streaming", [KILL % "6s"]),
        ("quorum: 3", [KILL % "rest"]),
        ("algorithm: streaming, reserve: 1", [KILL % "rest", JOIN]),
        ("algorithm: streaming", [KILL.replace("process.kill", "compute.slow") % "rest"]),
        ("algorithm: streaming", [KILL.replace("process.kill", "process.restart") % "rest"]),
        ("algorithm: streaming", [KILL.replace("process.kill", "network.reset") % "rest"]),
    ],
    ids=["healed", "enough left", "replaced", "slow", "restarted", "reconnects"],
)
def test_as_many_learners_as_a_round_needs_are_no_warning(
    tmp_path: Path, training: str, faults: list[str]
) -> None:
    assert warnings(tmp_path, training, *faults) == ()
