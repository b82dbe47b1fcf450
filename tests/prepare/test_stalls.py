"""A plan whose faults leave no syncer, or fewer learners than a round needs, is named before it."""

from pathlib import Path

import pytest

from chaoslab.prepare.plans import Asked, prepare

KILL = "{id: dies, fault: process.kill, target: {learners: [learner-1]}, at: {round: 20}, for: %s}"
JOIN = "{id: grow, fault: control.scale_up, target: {reserve: all}, at: {round: 40}, for: rest}"


def warnings(
    folder: Path, training: str, *faults: str, expect: str = "{check: cleanup}"
) -> tuple[str, ...]:
    path = folder / "trial.yaml"
    listed = "".join(f"  - {fault}\n" for fault in faults)
    path.write_text(
        f"version: 1\nname: trial\ntraining: {{learners: 4, {training}}}\n"
        f"limits: {{timeout: 4m}}\nfaults:\n{listed}expect:\n  - {expect}\n"
    )
    return prepare(Asked(plan=str(path))).warnings


LATE = KILL.replace("round: 20", "time: 3m")
OTHER = KILL.replace("dies", "dies-too").replace("learner-1", "learner-3") % "rest"
UNKNOWN = "target: {learners: 1, pick: at_phase}, at: {phase: push}, for: rest}"


@pytest.mark.parametrize(
    ("training", "faults", "said"),
    [
        *((f"algorithm: {algorithm}", [KILL % "rest"],
           [f"trial.yaml:6:{KILL.index('%s') + 5}: faults[0].for: 'dies' takes learner-1"])
          for algorithm in ("streaming", "diloco")),
        ("algorithm: streaming", [LATE % "1m"], ["takes learner-1"]),
        ("quorum: 3", [KILL % "rest", OTHER],
         ["faults[0].for: 'dies' takes learner-1", "faults[1].for: 'dies-too' takes learner-3"]),
        ("algorithm: streaming", [f"{{id: dies, fault: process.kill, {UNKNOWN}"],
         ["takes a learner"]),
    ],
)  # fmt: skip
def test_a_learner_that_a_round_needs_and_that_never_comes_back_is_a_warning_at_its_place(
    tmp_path: Path, training: str, faults: list[str], said: list[str]
) -> None:
    found = warnings(tmp_path, training, *faults)
    assert [part in one for part, one in zip(said, found, strict=True)] == [True] * len(said)


@pytest.mark.parametrize(
    ("training", "faults"),
    [
        ("algorithm: streaming", [KILL % "6s"]),
        ("algorithm: streaming", [LATE % "59s"]),
        ("quorum: 3", [KILL % "rest"]),
        ("algorithm: streaming, reserve: 1", [KILL % "rest", JOIN]),
        ("algorithm: streaming", [KILL.replace("process.kill", "compute.slow") % "rest"]),
        (
            "algorithm: streaming",
            [KILL.replace("process.kill", "process.kill, restart: true") % "rest"],
        ),
        ("algorithm: streaming", [KILL.replace("process.kill", "network.reset") % "rest"]),
    ],
    ids=["healed", "healed late", "enough left", "replaced", "slow", "restarted", "reconnects"],
)
def test_as_many_learners_as_a_round_needs_are_no_warning(
    tmp_path: Path, training: str, faults: list[str]
) -> None:
    assert warnings(tmp_path, training, *faults) == ()


def test_a_syncer_that_never_comes_back_is_a_warning_unless_training_is_to_stop(
    tmp_path: Path,
) -> None:
    kill = "{id: head, fault: process.kill, target: {syncer: all}, at: {round: 20}, for: rest}"
    (said,) = warnings(tmp_path, "quorum: 1", kill)
    assert "trial.yaml:6:" in said
    assert "faults[0].for: 'head'" in said
    to_stop = "{check: training_continues, expected: false}"
    assert warnings(tmp_path, "quorum: 1", kill, expect=to_stop) == ()
    assert warnings(tmp_path, "quorum: 1", kill.replace("rest", "9s")) == ()
