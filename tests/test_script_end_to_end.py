"""A training that is not chaoslab's own, in real runs: killed, back, compared with its twin."""

from pathlib import Path

import pytest

from chaoslab.core.payloads import StorageDamaged
from chaoslab.fleet.storage.volume import can_mount, mounted
from chaoslab.selftest.catalogue import TRIALS
from chaoslab.selftest.trial import PLANS, carry_out_trial
from tests.whole_runs import Ran, begin, ended, passed, whole

pytestmark = pytest.mark.alone

TRAINERS = Path(__file__).parent / "trainers"

JAX = r"""
version: 1
name: in-jax
training:
  script:
    command: "{{python}} '{trainer}' {{folder}}"
    progress: 'iter (?P<step>\d+): loss=(?P<loss>\S+)'
    saved: 'Checkpoint of step (?P<step>\d+) is complete'
    resumed: 'Restored checkpoint of step (?P<step>\d+)'
twin: true
baseline: {{warmup: 10 rounds, window: 40 rounds, max_variation: 1000%}}
limits: {{min_alive: 0, timeout: 5m}}
faults:
  - {{id: dies, fault: process.kill, target: {{workers: all}}, at: {{step: 90}}, for: 1s}}
expect:
  - {{check: rejoin, within: 90s}}
  - {{check: cleanup}}
"""

DISK = r"""
version: 1
name: a-disk
training:
  script:
    command: '{python} -m chaoslab.selftest.mutants.trainer --rank {rank} --folder {folder}'
    workers: 2
    progress: 'step (?P<step>\d+) loss (?P<loss>\S+)'
    saved: 'saved step (?P<step>\d+)'
    resumed: 'resumed from step (?P<step>\d+)'
    checkpoints: 'rank{rank}-*'
baseline: {warmup: 10 rounds, window: 60 rounds, max_variation: 1000%}
limits: {min_alive: 0, timeout: 5m}
twin: false
faults:
  - {id: breaks, FAULT, target: {workers: 1}, at: {step: 140}, for: 10s}
expect:
  - {check: participation, min_share: 5%}
  - {check: cleanup}
"""

LAUNCHED = r"""
version: 1
name: a-launcher
training:
  script:
    command: >
      {{python}} '{launcher}' {flags} --
      {{python}} -m chaoslab.selftest.mutants.trainer --rank RANK --folder {{folder}}
    workers: 2
    progress: 'step (?P<step>\d+) loss (?P<loss>\S+) lr (?P<lr>\S+)'
    saved: 'saved step (?P<step>\d+)'
    resumed: 'resumed from step (?P<step>\d+)'
    restarts: {restarts}
baseline: {{warmup: 10 rounds, window: 60 rounds, max_variation: 1000%}}
limits: {{timeout: 5m, max_affected: 100%}}
faults:
  - {{id: dies, fault: process.kill, target: {target}, at: {{step: 140}}, for: 4s}}
expect:
  - {{check: rejoin, within: 90s}}
  - {{check: real_work, max_loss_difference: 100%}}
  - {{check: cleanup}}
"""
"""Workers of a launcher that do not wait for each other may be some steps apart."""

BROKEN = {trial.name: trial for trial in TRIALS if trial.plan == "scripted" and trial.check}


@pytest.mark.gate
def test_a_worker_that_goes_on_as_it_should_passes(tmp_path: Path) -> None:
    ran = passed((PLANS / "scripted.yaml").read_text(), tmp_path)
    assert 0 < ran.verdict["work_lost"]["steps"] < 40
    assert {one["check"] for one in ran.verdict["findings"]} == {"rejoin", "cleanup"}


@pytest.mark.gate
def test_a_trainer_in_jax_that_knows_nothing_of_chaoslab(tmp_path: Path) -> None:
    ran = passed(JAX.format(trainer=TRAINERS / "jax_train.py"), tmp_path)
    assert ran.verdict["work_lost"]["steps"] > 0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("no_resume_trainer", marks=pytest.mark.gate),
        *(pytest.param(name, marks=pytest.mark.deep) for name in [*BROKEN][1:]),
    ],
)
def test_one_whose_resume_is_broken_is_found(name: str, tmp_path: Path) -> None:
    result = carry_out_trial(BROKEN[name], tmp_path)
    assert result.answer.is_right, (result.answer, result.sentence)


def launched(folder: Path, restarts: str, target: str, flags: str) -> Ran:
    """A run by a launcher, without a twin."""
    launcher = TRAINERS / "launcher.py"
    plan = LAUNCHED.format(launcher=launcher, restarts=restarts, target=target, flags=flags)
    return ended(begin(plan, folder), folder)


@pytest.mark.gate
def test_a_launcher_that_starts_its_workers_again_passes(tmp_path: Path) -> None:
    ran = launched(tmp_path, "itself", "{workers: 1}", "--restarts 3 --prefix")
    assert (ran.code, ran.verdict["outcome"]) == (0, "PASS"), whole(ran.verdict)


@pytest.mark.deep
def test_a_launcher_that_gives_up_is_started_again(tmp_path: Path) -> None:
    ran = launched(tmp_path, "chaoslab", "{workers: [worker-1]}", "--one")
    assert (ran.code, ran.verdict["outcome"]) == (0, "PASS"), whole(ran.verdict)


@pytest.mark.gate
def test_a_launcher_that_leaves_its_workers_behind_fails(tmp_path: Path) -> None:
    ran = launched(tmp_path, "chaoslab", "{launcher: all}", "--one")
    assert (ran.verdict["outcome"], ran.finding("orphans")["outcome"]) == ("FAIL", "FAIL")


def with_disk(folder: Path, fault: str) -> Ran:
    """A run in which something is wrong with what it saves."""
    return ended(begin(DISK.replace("FAULT", fault), folder), folder)


@pytest.mark.deep
def test_a_worker_whose_newest_checkpoint_is_lost_goes_on_from_the_one_before(
    tmp_path: Path,
) -> None:
    ran = with_disk(tmp_path, "fault: storage.damage_checkpoint, how: lose")
    assert (ran.code, ran.statuses) == (0, ["proved"]), whole(ran.verdict)
    (damaged,) = ran.history.of(StorageDamaged)
    assert ran.verdict["work_lost"]["steps"] >= 15
    assert not (ran.record / "script" / damaged.payload.file).exists() or damaged.payload.untouched


@pytest.mark.deep
@pytest.mark.parametrize("fault", ["fault: storage.damage_checkpoint, how: truncate",
                                   "fault: storage.disk_full"])  # fmt: skip
def test_a_worker_that_cannot_read_or_write_its_checkpoint_dies_of_it(
    tmp_path: Path, fault: str
) -> None:
    if fault.endswith("full") and not can_mount():
        pytest.skip("needs the right to mount: run as root")
    ran = with_disk(tmp_path, fault)
    assert (ran.verdict["outcome"], ran.statuses) == ("FAIL", ["proved"]), whole(ran.verdict)
    assert ran.finding("unasked")["outcome"] == "FAIL"
    assert not [one for one in mounted() if one.startswith(str(tmp_path))]
