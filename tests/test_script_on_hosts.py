"""A script that chaoslab starts on hosts by real ssh: broken there, judged, and nothing left."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Kind
from chaoslab.core.payloads import (
    LineKind,
    NodeExited,
    NodeStarted,
    StorageDamaged,
    TrainerSaid,
)
from chaoslab.selftest.mutants import trainer
from tests.fleet.sshd import SshHost, ssh_hosts
from tests.ssh_runs import left_on
from tests.test_attach_script import PATIENCE_S, TRAINERS
from tests.waiting import wait_until
from tests.whole_runs import ROOT, Ran, await_event, ended, whole

pytestmark = [pytest.mark.deep, pytest.mark.alone]

PLAN = r"""
version: 1
name: on_hosts
training:
  script:
    command: "COMMAND"
    workers: 2
    progress: 'step (?P<step>\d+) loss (?P<loss>\S+)'
    SAVED
    resumed: 'resumed from step (?P<step>\d+)'
    restarts: RESTARTS
baseline: {warmup: 10 rounds, window: 40 rounds, max_variation: 300%}
twin: TWIN
limits: {min_alive: 0, max_affected: 100%, timeout: 5m}
faults:
  - {id: breaks, fault: FAULT, target: TARGET, at: {step: 100}, for: FOR}
expect:
  - {check: rejoin, within: 60s, contributions: 3}
  - {check: cleanup}
"""
EACH = "{python} train.py --rank {rank} --folder {folder}"
LAUNCHED = f"{{python}} {TRAINERS}/launcher.py FLAGS -- {{python}} train.py --rank RANK --folder {{folder}}"  # noqa: E501


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Hosts, and a folder of a project that they see, with the trainer and a module of it."""

    hosts: Sequence[SshHost]
    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def words(self, command: str = EACH, **words: str) -> list[str]:
        """Command of a run."""
        usual = {
            "RESTARTS": "chaoslab", "FAULT": "process.kill", "TARGET": "{workers: [worker-1]}",
            "FOR": "3s", "TWIN": "false", "SAVED": r"saved: 'saved step (?P<step>\d+)'",
        }  # fmt: skip
        text = PLAN.replace("COMMAND", command)
        for word, value in {**usual, **words}.items():
            text = text.replace(word, value)
        (self.folder / "plan.yaml").write_text(text)
        return [
            sys.executable, "-m", "chaoslab", "run", str(self.folder / "plan.yaml"), "--json",
            "--quiet", "--fleet", "ssh", "--inventory", str(self.folder / "fleet.yaml"),
            "--out", str(self.folder / "runs"),
        ]  # fmt: skip

    def run(self, command: str = EACH, **words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.words(command, **words), stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def ended(self, run: "subprocess.Popen[str]") -> Ran:
        """A run after which nothing of it is on the hosts."""
        ran = ended(run, self.folder / "runs")
        assert left_on(self.hosts) == []
        assert not list(processes_in(self.project))
        return ran

    def judged(self, command: str = EACH, **words: str) -> Ran:
        ran = self.ended(self.run(command, **words))
        assert (ran.code, ran.verdict["outcome"]) == (0, "PASS"), whole(ran.verdict)
        assert ran.statuses == ["proved"]
        return ran


def processes_in(folder: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except psutil.Error:
            continue


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ssh_hosts(2) as hosts:
        one = Place(hosts=hosts, folder=tmp_path)
        one.project.mkdir()
        shutil.copy(trainer.__file__, one.project / "beside.py")
        (one.project / "train.py").write_text("import beside\nbeside.main()\n")
        write_inventory(one)
        yield one


def write_inventory(place: Place, more: str = "", *, python: str = sys.executable) -> None:
    """A worker on each host, and a launcher on the second."""
    access = place.hosts[0].access
    first, second = (host.access.host for host in place.hosts)
    (place.folder / "fleet.yaml").write_text(
        f"ssh: {{port: {access.port}, key: {access.key}, known_hosts: {access.known_hosts}}}\n"
        f"python: {python}\n{more or f'workdir: {place.project}'}\n"
        f"workers:\n  worker-0: {{host: {first}}}\n  worker-1: {{host: {second}, region: eu}}\n"
        f"  launcher: {{host: {second}}}\n"
    )


def lives(ran: Ran) -> list[tuple[str, int, str]]:
    said = [one.payload for one in ran.history.of(NodeStarted)]
    return sorted((one.node, one.incarnation, one.started_by) for one in said)


@pytest.mark.gate
def test_a_worker_on_a_host_is_killed_and_goes_on_from_its_checkpoint(place: Place) -> None:
    ran = place.judged(TARGET="{region: eu}", TWIN="true")
    assert lives(ran) == [("worker-0", 1, ""), ("worker-1", 1, ""), ("worker-1", 2, "")]
    killed = [one.payload for one in ran.history.of(NodeExited) if one.payload.sent == ("SIGKILL",)]
    assert ("worker-1", "SIGKILL") in [(one.node, one.signal) for one in killed]
    said = [one.payload for one in ran.history.of(TrainerSaid)]
    (resumed,) = [one for one in said if one.what is LineKind.RESUMED]
    assert (resumed.node, resumed.incarnation, bool(resumed.step)) == ("worker-1", 2, True)
    assert (ran.record / "nodes/worker-1/2/stdout.log").stat().st_size
    assert not (ran.record / "script").exists()
    assert ran.verdict["not_judged"] == []


@pytest.mark.gate
def test_one_that_does_not_resume_on_its_host_fails(place: Place) -> None:
    ran = place.ended(place.run(f"{EACH} --broken no_resume"))
    assert (ran.code, ran.verdict["outcome"]) == (1, "FAIL"), whole(ran.verdict)
    assert ran.finding("resume")["outcome"] == "FAIL"


@pytest.mark.gate
@pytest.mark.parametrize("how", ["SIGINT", pytest.param("SIGKILL", marks=pytest.mark.deep)])
def test_a_run_that_is_ended_leaves_nothing_on_its_hosts(place: Place, how: str) -> None:
    run = place.run(FOR="100s", FAULT="process.pause")
    await_event(place.folder / "runs", Kind.FAULT_INJECTED)
    assert list(processes_in(place.project))
    run.send_signal(signal.Signals[how])
    if how == "SIGINT":
        assert place.ended(run).code == ExitCode.INTERRUPTED
        return
    run.communicate(timeout=PATIENCE_S)
    wait_until(lambda: not left_on(place.hosts) and not list(processes_in(place.project)))


@pytest.mark.gate
def test_a_launcher_on_a_host_is_started_again_for_its_worker(place: Place) -> None:
    ran = place.judged(LAUNCHED.replace("FLAGS", "--prefix"))
    nodes = ("launcher", "worker-0", "worker-1")
    assert lives(ran) == [(node, life, "") for node in nodes for life in (1, 2)]


def test_a_launcher_on_a_host_starts_its_workers_again_itself(place: Place) -> None:
    ran = place.judged(LAUNCHED.replace("FLAGS", "--restarts 3 --prefix"), RESTARTS="itself")
    assert {one for one in lives(ran) if one[1] == 2} == {
        ("worker-0", 2, "launcher"), ("worker-1", 2, "launcher")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "target"),
    [
        ("process.pause", "{workers: all}"),
        ("process.kill", "{launcher: all}"),
    ],
)
def test_what_else_the_agent_can_do_to_its_workers(place: Place, fault: str, target: str) -> None:
    command = LAUNCHED.replace("FLAGS", "--prefix") if "launcher" in target else EACH
    place.judged(command, FAULT=fault, TARGET=target, FOR="6s")


def test_lines_that_nothing_matches_are_shown_from_the_host(place: Place) -> None:
    words = place.words()
    plan = place.folder / "plan.yaml"
    plan.write_text(plan.read_text().replace("'step (?P<step>", "'stride (?P<step>"))
    run = subprocess.run(
        words, capture_output=True, text=True, cwd=ROOT, check=False, timeout=3 * PATIENCE_S
    )
    assert run.returncode == ExitCode.BROKEN, run.stderr
    assert "step 1 loss" in run.stderr
    assert left_on(place.hosts) == []


def test_a_worker_on_a_host_that_computes_is_slowed(place: Place) -> None:
    (place.project / "train.py").write_text(
        "import beside, time\n"
        "def compute(pause_s):\n"
        "    until_s = time.process_time() + pause_s\n"
        "    while time.process_time() < until_s: pass\n"
        "time.sleep = compute\n"
        "beside.main()\n"
    )
    ran = place.ended(place.run(FAULT="compute.slow", TARGET="{workers: 1}", FOR="10s"))
    assert ran.statuses == ["proved"], whole(ran.verdict)


def test_progress_and_checkpoints_are_read_in_files_of_the_host(place: Place) -> None:
    """Below {folder} or the folder in which the worker runs."""
    (place.project / "train.py").write_text(
        "import sys, beside\n"
        "sys.stdout = open(f'{sys.argv[2]}.log', 'a', buffering=1)\n"
        "beside.main()\n"
    )
    files = r"checkpoints: 'rank{rank}-*.json'" + "\n    from: {file: '{rank}.log'}"
    ran = place.judged(SAVED=files, FAULT="storage.damage_checkpoint, how: lose")
    said = [one.payload for one in ran.history.of(TrainerSaid)]
    assert {(one.node, one.what) for one in said} >= {
        (worker, what) for worker in ("worker-0", "worker-1") for what in ("progress", "saved")
    }
    (damaged,) = ran.history.of(StorageDamaged)
    assert damaged.source == "worker-1"


@pytest.mark.gate
@pytest.mark.parametrize(
    ("command", "more", "culprit"),
    [
        ("{python} gone.py --rank {rank}", "", "/gone.py"),
        ("no-such-program --rank {rank}", "", "no-such-program"),
        (EACH, "workdir: ~/gone", "/gone"),
    ],
)
def test_what_is_not_on_a_host_is_said_with_its_path_and_nothing_is_started(
    place: Place, command: str, more: str, culprit: str
) -> None:
    if more:
        write_inventory(place, more)
    run = subprocess.run(
        place.words(command), capture_output=True, text=True, cwd=ROOT, check=False,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert run.returncode == 2, run.stderr
    (line,) = [line for line in run.stderr.splitlines() if culprit in line]
    assert place.hosts[0].access.host in line
    assert not (place.folder / "runs").exists()
    assert left_on(place.hosts) == []
