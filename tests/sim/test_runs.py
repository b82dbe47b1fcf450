"""Whole simulated runs: the same phases, evidence and verdict as real ones, and the same bytes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.core.errors import AbilityError, ExitCode, PlanError
from chaoslab.core.events import Kind
from chaoslab.core.payloads import EvaluationMeasured, RunStarted, Status
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.prepare.preflight import refuse_impossible
from chaoslab.record.journal_file import JOURNAL
from chaoslab.run.judged_run import JudgedRun, run_and_judge


def simulate(plan: str, root: Path, *settings: str, seed: int | None = None) -> JudgedRun:
    return run_and_judge(prepare(Asked(plan=plan, fleet="sim", settings=settings, seed=seed)), root)


@pytest.fixture(scope="module")
def kill_half(tmp_path_factory: pytest.TempPathFactory) -> JudgedRun:
    return simulate("kill_half", tmp_path_factory.mktemp("runs"))


def test_kill_half_passes_with_every_fault_proved(kill_half: JudgedRun) -> None:
    verdict = kill_half.verdict
    assert {one.check: (one.outcome, one.reason) for one in verdict.findings
            if one.outcome is not Outcome.PASS} == {}  # fmt: skip
    assert verdict.exit_code is ExitCode.PASS
    assert [one.status for one in verdict.injections] == [Status.PROVED]


def test_its_record_says_that_it_is_simulated_and_its_losses_modelled(kill_half: JudgedRun) -> None:
    history = kill_half.history
    started = history.last(RunStarted)
    assert started is not None
    assert started.payload.fleet == "sim"
    assert set(started.payload.provenance or ()) == {
        "seed", "training", "fleet", "links", "code", "costs",
    }  # fmt: skip
    measured = history.of(EvaluationMeasured)
    assert measured
    assert all(event.payload.is_modelled for event in measured)
    parity = next(one for one in kill_half.verdict.findings if one.check == "loss_parity")
    assert parity.outcome is not Outcome.FAIL


def test_the_run_directory_is_dated_by_the_calendar_and_not_by_the_simulation(
    kill_half: JudgedRun,
) -> None:
    assert not kill_half.directory.id.startswith("2000")
    assert kill_half.history.events[0].wall.startswith("2000-01-01T00:00:00")


def test_nothing_is_started_on_this_machine(kill_half: JudgedRun) -> None:
    assert list(kill_half.directory.nodes.iterdir()) == []
    assert not kill_half.history.of(Kind.MACHINE_SAMPLED)


_AGAIN = """
import sys
from pathlib import Path
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.run.judged_run import run_and_judge
judged = run_and_judge(prepare(Asked(plan=sys.argv[1], fleet="sim")), Path(sys.argv[2]))
sys.stdout.write(str(judged.directory.path))
"""


@pytest.mark.deep
@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_journal_is_the_same_to_the_byte_in_another_process(
    kill_half: JudgedRun, tmp_path: Path, hash_seed: str
) -> None:
    done = subprocess.run(
        (sys.executable, "-c", _AGAIN, "kill_half", str(tmp_path)),
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    again = Path(done.stdout)
    for journal in (JOURNAL, f"twin/{JOURNAL}"):
        assert (again / journal).read_bytes() == (kill_half.directory.path / journal).read_bytes()


@pytest.mark.deep
def test_another_seed_is_another_run(kill_half: JudgedRun, tmp_path: Path) -> None:
    other = simulate("kill_half", tmp_path, "twin=false", seed=8)
    assert (other.directory.path / JOURNAL).read_bytes() != (
        kill_half.directory.path / JOURNAL
    ).read_bytes()


# ---------------------------------------------------------------- what must not pass


@pytest.mark.deep
def test_a_learner_that_never_comes_back_in_time_fails(tmp_path: Path) -> None:
    costs = tmp_path / "costs.toml"
    costs.write_text("start_s = 45\n")
    judged = simulate("kill_half", tmp_path / "runs", f"fleet.costs={costs}", "twin=false")
    failed = {one.check for one in judged.verdict.findings if one.outcome is Outcome.FAIL}
    assert "rejoin" in failed


@pytest.mark.deep
def test_damage_that_is_merged_unbounded_shows_in_the_modelled_loss(tmp_path: Path) -> None:
    plan = tmp_path / "scaled.yaml"
    plan.write_text(
        "version: 1\nname: scaled\nseed: 3\n"
        "training: {learners: 3, norm_limit: off, stop: {rounds: 150}}\n"
        "twin: true\nsettle: 20s\n"
        "faults:\n"
        "  - {id: huge, fault: update.tamper, how: scaled, target: {learners: 1},\n"
        "     at: {round: 60}, for: rest}\n"
        "expect:\n  - {check: loss_parity, max_delta: 5%}\n"
    )
    judged = simulate(str(plan), tmp_path / "runs")
    parity = next(one for one in judged.verdict.findings if one.check == "loss_parity")
    assert parity.outcome is Outcome.FAIL


@pytest.mark.deep
def test_a_learner_whose_updates_are_turned_round_is_named(tmp_path: Path) -> None:
    plan = tmp_path / "turned.yaml"
    plan.write_text(
        "version: 1\nname: turned\nseed: 3\ntraining: {learners: 4, stop: {rounds: 240}}\n"
        "twin: false\n"
        "faults:\n  - {id: flip, fault: update.tamper, how: scaled, factor: -1,\n"
        "     at: {round: 60}, for: 10s, target: {learners: [learner-2]}}\n"
        "expect: [{check: cleanup}]\n"
    )
    judged = simulate(str(plan), tmp_path / "runs")
    assert [one.status for one in judged.verdict.injections] == [Status.PROVED]
    (failed,) = [one for one in judged.verdict.findings if one.outcome is Outcome.FAIL]
    assert (failed.check, failed.culprits) == ("real_work", ("learner-2",))


@pytest.mark.deep
@pytest.mark.parametrize("fault", ["syncer.disk_full", "process.pause", "process.kill"])
def test_training_continues_after_the_syncer_could_merge_nothing(
    tmp_path: Path, fault: str
) -> None:
    plan = tmp_path / "held.yaml"
    plan.write_text(
        "version: 1\nname: held\nseed: 11\ntraining: {learners: 4, stop: {rounds: 150}}\n"
        "limits: {min_alive: 4}\n"
        f"faults:\n  - {{id: held, fault: {fault}, target: {{syncer: all}}, at: {{round: 60}},\n"
        "     for: 20s}\n"
        "expect: [{check: continuity, max_gap: 40s}, {check: succession},\n"
        "  {check: participation}, {check: recovery}, {check: contribution_share},\n"
        "  {check: ledger}, {check: cleanup}]\n"
    )
    costs = tmp_path / "costs.toml"
    costs.write_text("syncer_start_s = 15\nsyncer_resume_s = 15\n")
    settings = ("twin=false", f"fleet.costs={costs}")
    verdict = simulate(str(plan), tmp_path / "runs", *settings).verdict
    assert verdict.outcome is Outcome.PASS, verdict.explain()
    assert verdict.training_continued


@pytest.mark.deep
def test_all_checkpoints_lost_after_an_older_one_was_removed_pass(tmp_path: Path) -> None:
    plan = tmp_path / "lost.yaml"
    plan.write_text(
        "version: 1\nname: lost\nseed: 3\n"
        "training: {learners: 3, save_every: 1s, stop: {rounds: 150}}\n"
        "faults:\n"
        "  - {id: gone, fault: storage.damage_checkpoint, how: lose, which: all,\n"
        "     target: {learners: 1}, at: {round: 80}, for: 6s}\n"
        "expect: [{check: checkpoints}, {check: rejoin}]\n"
    )
    verdict = simulate(str(plan), tmp_path / "runs", "twin=false").verdict
    assert verdict.outcome is Outcome.PASS, verdict.explain()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("process.oom", "memory_limit"),
        ("compute.steal", "crowd"),
        ("memory.pressure", "crowd"),
        ("network.disconnect", "disconnect"),
        ("container.replace", "upgrade"),
        ("{fault: compute.slow, mechanism: cgroup}", "quota"),
        ("{fault: compute.slow, mechanism: duty_cycle}", "duty_cycle"),
        ("network.packets", "loss"),
        ("{fault: network.packets, how: corrupt}", "corrupt"),
        ("{fault: network.latency, jitter: 5ms, distribution: pareto}", "jitter shapes"),
    ],
)
def test_a_fault_without_a_simulated_meaning_is_refused(
    tmp_path: Path, fault: str, says: str
) -> None:
    settings = fault.strip("{}") if fault.startswith("{") else f"fault: {fault}"
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "version: 1\nname: refused\ntraining: {learners: 3}\nfaults:\n"
        f"  - {{id: one, {settings}, target: {{learners: 1}}, at: {{round: 40}}, for: 5s}}\n"
    )
    prepared = prepare(Asked(plan=str(plan), fleet="sim"))
    with pytest.raises(AbilityError, match=says):
        refuse_impossible(
            prepared.plan, prepared.schedule, prepared.fleet_setup.fleet, prepared.links
        )


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("fleet.programs={learner: json.tool}", AbilityError),
        ("fleet.costs=nowhere.toml", PlanError),
    ],
)
def test_what_cannot_be_simulated_is_refused_before_anything_starts(
    key: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        prepare(Asked(plan="kill_half", fleet="sim", settings=(key,)))
