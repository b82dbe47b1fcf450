"""`chaoslab replay`: the same schedule again, and the least of it that still fails."""

import json
import re
from pathlib import Path

import pytest

from chaoslab.record.run_directory import RunDirectory
from tests.cli.test_cli import FakeFleets, call, fleets, run_once  # noqa: F401  # a fixture
from tests.fakes import Troubles

HEAD = """
version: 1
name: many
seed: 3
training: {learners: 4, stop: {rounds: 60}}
baseline: {warmup: 2 rounds, window: 8 rounds}
limits: {min_alive: 0}
faults:
"""


def plan(count: int, *, bad: int) -> str:
    """So many kills of single learners, one of which hits learner-3, too."""
    faults = []
    for n in range(count):
        hit = f"learner-{n % 3}{', learner-3' if n == bad else ''}"
        when = f"at: {{round: {14 + 4 * n}}}, for: 1s"
        faults.append(
            f"  - {{id: f{n}, fault: process.kill, target: {{learners: [{hit}]}}, {when}}}"
        )
    return HEAD + "\n".join(faults) + "\nexpect:\n  - {check: rejoin, within: 5s}\n"


def schedule(run: RunDirectory) -> str:
    return (run.path / "schedule.jsonl").read_text()


def latest() -> RunDirectory:
    return RunDirectory.open("latest", root=Path("runs"))


def test_a_replay_has_the_same_schedule_and_says_what_it_repeats(fleets: FakeFleets) -> None:  # noqa: F811
    run_once("--quiet", "--seed", "8")
    first = latest()
    done = call("replay", "latest", "--quiet")
    assert done.exit_code == 0, done.output
    assert latest().id != first.id
    assert schedule(latest()) == schedule(first)
    assert (latest().facts["replay_of"], latest().facts["seed"]) == (first.id, 8)
    assert f"chaoslab compare {first.short_id} {latest().short_id} " in done.stderr


def test_the_exit_code_of_a_replay_is_its_own(fleets: FakeFleets) -> None:  # noqa: F811
    run_once("--quiet")
    fleets.troubles = Troubles(not_back=frozenset({"learner-0", "learner-1", "learner-2"}))
    assert call("replay", "latest", "--json", "--quiet").exit_code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "schedule.jsonl"),
        (("--minimise",), ""),
        (("--budget", "1h"), "--minimise"),
        (("--check", "rejoin"), "--minimise"),
        (("--tries", "2"), "--minimise"),
    ],
)
def test_what_cannot_be_replayed_is_refused(
    fleets: FakeFleets,  # noqa: F811
    words: tuple[str, ...],
    said: str,
) -> None:
    run_once("--quiet")
    if not words:
        path = latest().path / "schedule.jsonl"
        path.write_text(path.read_text().replace('"round":15', '"round":16'))
    done = call("replay", "latest", *words)
    assert (done.exit_code, said in done.stderr) == (2, True)


@pytest.mark.deep
def test_ten_faults_are_minimised_to_the_one_that_fails(
    fleets: FakeFleets,  # noqa: F811
    tmp_path: Path,
) -> None:
    (tmp_path / "many.yaml").write_text(plan(10, bad=7))
    fleets.troubles = Troubles(not_back=frozenset({"learner-3"}))
    assert call("run", "many.yaml", "--quiet").exit_code == 1
    before = latest()
    done = call("replay", "latest", "--minimise", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["ending"] == "minimal"
    (left,) = found["injections"]
    assert "(f7)" in left
    assert "on learner-3 at round 42, healed after 500ms" in left
    assert latest().id == before.id, "trials are no runs of the plan"
    alone = call("run", found["plan"], "--quiet")
    assert alone.exit_code == 1
    fleets.troubles = Troubles()
    again = call("replay", str(before.path), "--minimise", "--quiet")
    assert again.exit_code == 3


def test_a_record_whose_times_are_no_times_is_minimised_all_the_same(
    fleets: FakeFleets,  # noqa: F811
    tmp_path: Path,
) -> None:
    (tmp_path / "one.yaml").write_text(plan(1, bad=0))
    fleets.troubles = Troubles(not_back=frozenset({"learner-3"}))
    call("run", "one.yaml", "--quiet")
    latest().note(started="long ago", ended="2026-11-23T05:00:00+00:00")
    Path("runs").rename("all runs")
    done = call("replay", "latest", "--minimise", "--max-runs", "1", "--out", "all runs")
    assert done.exit_code == 0, done.output
    assert re.search("next: chaoslab run 'all runs/.*/minimised.yaml'   ", done.stderr)


def test_a_spent_budget_and_an_interrupt_keep_the_best_so_far(
    fleets: FakeFleets,  # noqa: F811
    tmp_path: Path,
) -> None:
    (tmp_path / "many.yaml").write_text(plan(3, bad=1))
    fleets.troubles = Troubles(not_back=frozenset({"learner-3"}))
    call("run", "many.yaml", "--quiet")
    done = call("replay", "latest", "--minimise", "--quiet", "--max-runs", "3", "--json")
    assert (done.exit_code, json.loads(done.stdout)["ending"]) == (0, "budget spent")
    fleets.interrupted_at_s = 5.0
    done = call("replay", "latest", "--minimise", "--quiet", "--json")
    assert (done.exit_code, json.loads(done.stdout)["ending"]) == (130, "interrupted")
