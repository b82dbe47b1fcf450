"""A training of the user's own on hosts by real ssh: broken there, judged here, and left running.

Hosts are this machine, so a pattern names the folder of its test, and is written with a `[ ]`: it
must not match the command line of `chaoslab attach` itself, which on other machines does not run.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from chaoslab.core.events import Kind
from chaoslab.core.payloads import NodeExited, NodeStarted
from tests.fleet.namespace_hosts import lan
from tests.fleet.sshd import SshHost, free_port, ssh_hosts
from tests.ssh_runs import left_on
from tests.test_attach_script import PATIENCE_S, PLAN, TRAINERS, Running
from tests.whole_runs import ROOT, Ran, await_event, ended, whole

pytestmark = [pytest.mark.deep, pytest.mark.alone]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A training that runs on hosts, and what reaches them."""

    running: Running
    hosts: Sequence[SshHost]
    folder: Path
    inside: tuple[str, ...] = ()
    """Words before a command of ours."""
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    @property
    def launchers(self) -> str:
        """Pattern of the launchers of this test."""
        return rf"launcher[.]py .*{re.escape(str(self.running.folder))}/saved"

    @property
    def workers(self) -> str:
        """The same of workers that were started by themselves."""
        return rf"mutants[.]trainer .*{re.escape(str(self.running.folder))}/saved"

    def words(self, pattern: str) -> list[str]:
        """Of `chaoslab attach`: its target."""
        access = self.hosts[0].access
        inventory = self.folder / "fleet.yaml"
        inventory.write_text(
            f"ssh: {{port: {access.port}, key: {access.key}, known_hosts: {access.known_hosts}}}\n"
            f"python: {sys.executable}\n"
        )
        target = f"ssh:{','.join(host.access.host for host in self.hosts)}"
        return [target, "--pattern", pattern, "--inventory", str(inventory)]

    def attach(self, pattern: str, *more: str, **words: str) -> "subprocess.Popen[str]":
        text = PLAN
        usual = {
            "RESTARTS": "chaoslab", "FAULT": "process.kill", "TARGET": "{workers: 1}", "FOR": "1s"
        }  # fmt: skip
        for word, value in {**usual, **words}.items():
            text = text.replace(word, value)
        (self.folder / "plan.yaml").write_text(text)
        return self.run(*self.words(pattern), str(self.folder / "plan.yaml"), *more)

    def run(self, *words: str) -> "subprocess.Popen[str]":
        out = ("--yes", "--json", "--quiet", "--out", str(self.folder / "runs"))
        run = subprocess.Popen(
            [*self.inside, sys.executable, "-m", "chaoslab", "attach", *words, *out],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        self.started.append(run)
        return run

    def end(self) -> None:
        """Its runs, also where a test has failed, and the training."""
        for run in self.started:
            run.kill()
            run.communicate(timeout=PATIENCE_S)
        self.running.end()

    def judged(self, pattern: str, *more: str, **words: str) -> Ran:
        """A run that passes, after which nothing of it is on the hosts."""
        ran = ended(self.attach(pattern, *more, **words), self.folder / "runs")
        assert (ran.code, ran.verdict["outcome"]) == (0, "PASS"), whole(ran.verdict)
        assert ran.statuses == ["proved"]
        assert left_on(self.hosts) == []
        return ran

    def agent(self) -> psutil.Process:
        """The only host agent."""
        (file,) = [file for host in self.hosts for file in host.home.glob(".chaoslab/runs/*/*.json")
                   if file.name == "agent.json"]  # fmt: skip
        return psutil.Process(json.loads(file.read_text())["pid"])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ssh_hosts(1) as hosts, placed(hosts, tmp_path) as one:
        yield one


@contextmanager
def placed(hosts: Sequence[SshHost], folder: Path, inside: tuple[str, ...] = ()) -> Iterator[Place]:
    (folder / "by hand").mkdir()
    one = Place(running=Running(folder / "by hand"), hosts=hosts, folder=folder, inside=inside)
    try:
        yield one
    finally:
        one.end()


def lives(ran: Ran) -> list[tuple[str, int, str]]:
    said = [one.payload for one in ran.history.of(NodeStarted)]
    return sorted((one.node, one.incarnation, one.started_by) for one in said)


@pytest.mark.gate
def test_a_launcher_on_a_host_whose_worker_is_killed_is_started_again(place: Place) -> None:
    place.running.launcher()
    ran = place.judged(place.launchers)
    nodes = ("launcher", "worker-0", "worker-1")
    assert lives(ran) == [(node, life, "") for node in nodes for life in (1, 2)]
    killed = [one.payload for one in ran.history.of(NodeExited) if one.payload.sent]
    assert [(one.signal, one.is_seen) for one in killed] == [("SIGKILL", True)]
    assert (ran.record / "nodes/launcher/1/stdout.log").stat().st_size
    assert place.running.goes_on(3)


def test_a_launcher_on_a_host_starts_its_workers_again_itself(place: Place) -> None:
    place.running.launcher("--restarts", "3")
    ran = place.judged(place.launchers, RESTARTS="itself")
    assert lives(ran) == [
        ("launcher", 1, ""),
        *(
            (node, *life)
            for node in ("worker-0", "worker-1")
            for life in ((1, ""), (2, "launcher"))
        ),
    ]
    assert place.running.goes_on(3)


def test_with_a_supervisor_on_the_host_nothing_is_started_there(place: Place) -> None:
    pattern = place.running.supervised().removeprefix("pattern:").replace("-m", "[-]m")
    ran = place.judged(pattern, RESTARTS="supervisor", FOR="3s")
    assert [one.payload.incarnation for one in ran.history.of(NodeStarted)] == [1, 2]
    (process,) = place.running.processes()
    assert process.parent().name() == "sh"  # type: ignore[union-attr]
    assert place.running.goes_on(1)


def test_workers_on_a_host_are_paused_and_go_on(place: Place) -> None:
    place.running.workers()
    before = place.running.pids()
    ran = place.judged(place.workers, FAULT="process.pause")
    assert lives(ran) == [("worker-0", 1, ""), ("worker-1", 1, "")]
    assert place.running.pids() == before
    assert place.running.goes_on(2)


@pytest.mark.gate
def test_hosts_that_share_no_processes_have_a_worker_each(tmp_path: Path) -> None:
    """Launchers of one training: each with all below it is a worker."""
    with lan(2) as network, placed(network.hosts, tmp_path, network.command()) as place:
        start_on_each(place)
        ran = place.judged(place.launchers)
        assert lives(ran)[0] == ("worker-0", 1, "")
        assert {node for node, _, _ in lives(ran)} == {"worker-0", "worker-1"}
        assert [life for _, life, _ in lives(ran)].count(2) == 1
        spaces = {event.data["namespaces"] for event in ran.history.of(Kind.NODE_STARTED)}
        assert len(spaces) == 2
        assert place.running.goes_on(6)


@pytest.mark.gate
@pytest.mark.parametrize("how", ["janitor", pytest.param("lease", marks=pytest.mark.deep)])
def test_a_host_whose_harness_is_gone_leaves_the_training_as_it_was(place: Place, how: str) -> None:
    """By the janitor, which goes to the host, or, where no way leads there, by the lease alone."""
    place.running.launcher()
    lease = ("--set", f"fleet.lease={'60s' if how == 'janitor' else '3s'}")
    run = place.attach(place.launchers, *lease, TARGET="{launcher: all}", FOR="100s")
    await_event(place.folder / "runs", Kind.FAULT_INJECTED)
    agent = place.agent()
    if how == "lease":
        cut_off(place.hosts[0])
        place.running.until(lambda: not agent.is_running())
    run.kill()
    assert place.running.goes_on(3)
    if how == "janitor":
        place.running.until(lambda: left_on(place.hosts) == [])


def test_an_agent_that_is_killed_leaves_the_training_as_it_was(place: Place) -> None:
    """Its janitor on the host does it; a new agent finds the training again."""
    place.running.workers()
    run = place.attach(place.workers, FAULT="process.pause", FOR="8s", TARGET="{workers: 2}")
    await_event(place.folder / "runs", Kind.FAULT_INJECTED)
    place.agent().kill()
    place.running.until(lambda: place.running.goes_on(2))
    told, _ = run.communicate(timeout=PATIENCE_S)
    assert json.loads(told)["outcome"] != "PASS", "nothing is proved of what was not seen"
    assert place.running.goes_on(2)
    assert left_on(place.hosts) == []


@pytest.mark.gate
def test_a_plan_is_written_from_what_it_has_printed_on_its_host(place: Place) -> None:
    place.running.launcher()
    place.running.until(lambda: place.running.step() > 0)
    file = place.folder / "gate.yaml"
    command = [sys.executable, "-m", "chaoslab", "attach", *place.words(place.launchers)]
    subprocess.run([*command, "--write", str(file)], check=True, cwd=ROOT, timeout=PATIENCE_S)
    ran = ended(place.run(*place.words(place.launchers), str(file)), place.folder / "runs")
    assert (ran.code, ran.finding("resume")["outcome"]) == (0, "PASS"), whole(ran.verdict)
    assert place.running.goes_on(3)
    assert left_on(place.hosts) == []


@pytest.mark.gate
def test_what_cannot_be_attached_to_is_said_in_a_line_and_nothing_is_started(place: Place) -> None:
    place.running.workers()
    host = place.hosts[0]
    unreached = replace(place, hosts=[replace(host, access=replace(host.access, port=free_port()))])
    for where, pattern, culprit in (
        (place, "no[-]such-program", host.access.host),
        (unreached, place.workers, host.access.host),
    ):
        run = where.attach(pattern)
        _, said = run.communicate(timeout=PATIENCE_S)
        assert run.returncode == 2, said
        assert [culprit in line for line in said.splitlines()] == [True]
    assert not (place.folder / "runs").exists()
    assert left_on(place.hosts) == []
    assert place.running.goes_on(2)


def start_on_each(place: Place) -> None:
    """A launcher with two workers on each host, the first of which prints. Each host but the first
    has another folder at the place of the checkpoints.
    """
    saved = place.running.folder / "saved"
    saved.mkdir()
    for rank, host in enumerate(place.hosts):
        words = ("--one", "--", sys.executable, *place.running._trainer("RANK"))
        log = shlex.quote(str(place.running.folder / f"{rank}.log"))
        script = place.folder / f"start-{rank}.sh"  # or what enters the host would count, too
        command = shlex.join((sys.executable, "-u", str(TRAINERS / "launcher.py"), *words))
        own = place.folder / f"saved-{rank}"
        own.mkdir()
        bound = shlex.join(("mount", "--bind", str(own), str(saved))) if rank else ":"
        script.write_text(f"{bound} && exec {command} >> {log} 2>&1\n")
        (shell,) = psutil.Process(host.server.pid).children()
        namespaces = ("nsenter", "-t", str(shell.pid), "-p", "-m", "-n", "-u")
        place.running._begin(f"outside-{rank}", [*namespaces, "sh", str(script)])
    place.running.until(lambda: len(place.running.pids()) == 3 * len(place.hosts))


def cut_off(host: SshHost) -> None:
    """No way leads there any more, and all that runs there goes on."""
    for session in psutil.Process(host.server.pid).children(recursive=True):
        with suppress(psutil.Error):
            session.kill()
    host.server.kill()
