"""Learners of two hosts in real trainings: what becomes of them when a host ends or returns.

Each host has two CPU devices, over which parameters and optimizer are divided.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.process_identity import is_running
from tests.contracts.fleet_kit import wait_until
from tests.training_processes import Processes
from tests.whole_runs import passed

pytestmark = [pytest.mark.deep, pytest.mark.alone]

SLICE = "learner-1"
TWO_DEVICES = {"JAX_NUM_CPU_DEVICES": "2"}


@contextmanager
def training(folder: Path, **rules: object) -> Iterator[Processes]:
    """A learner of one host and one of two."""
    with Processes(
        folder, learners=2, hosts={SLICE: 2}, environment=TWO_DEVICES, **rules
    ).start() as started:
        for name in started.names:
            started.contributes(name, mark=0)
        yield started


def pids(processes: Processes, *, mark: int = 0) -> list[int]:
    """Of the hosts of the slice, in order."""
    return [processes.wait(Kind.HOST_STARTED, mark=mark, host=host)["pid"] for host in range(2)]


def test_a_killed_host_takes_its_learner_down_and_a_donor_brings_it_back(tmp_path: Path) -> None:
    with training(tmp_path) as processes:
        hosts = pids(processes)
        os.kill(hosts[1], signal.SIGKILL)
        assert processes.exit_code(SLICE) == -signal.SIGKILL
        lost = processes.wait(Kind.HOST_LOST, signal="SIGKILL")
        assert (lost["learner"], lost["host"]) == (SLICE, 1)
        assert not any(map(is_running, hosts))
        processes.wait(Kind.MEMBER_LEFT, learner=SLICE)
        for name, donor in ((SLICE, "learner-0"), ("learner-0", SLICE)):
            if processes.is_running(name):
                processes.kill(name)
                processes.wait(Kind.MEMBER_LEFT, learner=name)
            mark = processes.mark()
            processes.start_learner(name)
            joined = processes.wait(Kind.LEARNER_JOINED, mark=mark, learner=name)
            assert (joined["source"], joined["donor"]) == ("donor", donor)
            assert joined["digests"] == adopted(processes, donor, joined["versions"])
            processes.contributes(name, mark=processes.mark())


def adopted(processes: Processes, learner: str, versions: dict[str, int]) -> dict[str, str]:
    """Digests of these versions as a learner received them."""
    return {
        fragment: processes.wait(
            Kind.LEARNER_ADOPTED, learner=learner, fragment=int(fragment), version=version
        )["digest"]
        for fragment, version in versions.items()
    }


def test_a_learner_that_lost_a_host_finds_its_own_checkpoint(tmp_path: Path) -> None:
    alone = Processes(tmp_path, learners=1, hosts={"learner-0": 2}, environment=TWO_DEVICES)
    with alone.start() as processes:
        saved = processes.wait(Kind.CHECKPOINT_SAVED)
        os.kill(pids(processes)[0], signal.SIGKILL)
        assert processes.exit_code("learner-0") == -signal.SIGKILL
        mark = processes.mark()
        processes.start_learner("learner-0")
        found = processes.wait(Kind.CHECKPOINT_FOUND, mark=mark)
        assert found["refused"] == []
        assert found["step"] >= saved["step"]
        joined = processes.wait(Kind.LEARNER_JOINED, mark=mark)
        assert joined["source"] == "syncer"
        assert joined["data_position"] >= found["step"]
        processes.contributes("learner-0", mark=mark)


def test_a_learner_that_is_stopped_as_a_whole_goes_on_and_no_host_outlives_its_supervisor(
    tmp_path: Path,
) -> None:
    with training(tmp_path, suspect_after_s=4.0, drop_after_s=9.0) as processes:
        hosts = pids(processes)
        whole = [*hosts, processes.pid(SLICE)]
        mark = processes.mark()
        for pid in whole:
            os.kill(pid, signal.SIGSTOP)
        processes.wait(Kind.MEMBER_LEFT, mark=mark, learner=SLICE)  # later than its heartbeats
        mark = processes.mark()
        for pid in whole:
            os.kill(pid, signal.SIGCONT)
        joined = processes.wait(Kind.LEARNER_JOINED, mark=mark, learner=SLICE)
        assert (joined["incarnation"], joined["source"]) == (1, "resumed")
        processes.contributes(SLICE, mark=mark)
        assert processes.told(Kind.HOST_LOST) == []
        processes.kill(SLICE)
        wait_until(lambda: not any(map(is_running, hosts)))


PLAN = """
version: 1
name: hosts_end
seed: 5
training: {learners: [{count: 1}, {count: 1, hosts: 2}], stop: {rounds: 40}}
baseline: {warmup: 4 rounds, window: 12 rounds, max_variation: 100%}
limits: {min_alive: 1, timeout: 10m}
faults:
  - id: host-dies
    fault: host.kill
    target: {learners: [learner-1]}
    at: {round: 20}
    for: 5s
  - id: chip-fails
    fault: chip.fail
    host: 0
    target: {learners: [learner-1]}
    at: {after: host-dies, offset: 25s}
    for: 5s
expect:
  - {check: rejoin, within: 90s, contributions: 1}
  - {check: ledger}
  - {check: agreement}
  - {check: versions}
  - {check: cleanup}
"""


def test_a_run_in_which_a_learner_loses_a_host_twice_passes(tmp_path: Path) -> None:
    ran = passed(PLAN, tmp_path)
    history = ran.history
    assert ran.statuses == ["proved", "proved"]
    lost = [e.payload for e in history.of(Kind.HOST_LOST) if e.payload.signal is not None]
    assert [(one.host, one.signal) for one in lost] == [(1, "SIGKILL"), (0, "SIGABRT")]
    exits = [e.payload for e in history.of(Kind.NODE_EXITED) if e.payload.node == SLICE]
    assert [one.signal for one in exits[:2]] == ["SIGKILL", "SIGABRT"]
