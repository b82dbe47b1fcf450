"""Whole runs on hosts by real ssh: they pass, and nothing is left there."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.process_identity import identify
from chaoslab.record.history import History
from tests.fleet.namespace_hosts import can_be_apart, lan
from tests.fleet.sshd import SshHost
from tests.ssh_runs import PLAN, fleet_of_hosts, left_on, write_inventory
from tests.whole_runs import ROOT, start, verdict_of, whole


def start_two(folder: Path, inventory: Path, inside: Sequence[str] = ()) -> "subprocess.Popen[str]":
    plan = folder / "two_hosts.yaml"
    plan.write_text(PLAN)
    fleet = ("--fleet", "ssh", "--inventory", str(inventory))
    return start(str(plan), folder / "runs", *fleet, inside=inside)


def record_in(folder: Path) -> Path:
    (record,) = folder.glob("*/2*")
    return record


@pytest.mark.gate
@pytest.mark.alone
@pytest.mark.skipif(can_be_apart(), reason="the test below is this one, on hosts that share less")
def test_a_whole_run_on_hosts_passes_and_leaves_nothing(tmp_path: Path) -> None:
    with fleet_of_hosts(tmp_path, 1, 1) as (inventory, hosts):
        passes_and_leaves_nothing(tmp_path, inventory, hosts)


@pytest.mark.gate
@pytest.mark.alone
def test_hosts_that_share_no_processes_and_no_network_run_a_plan(tmp_path: Path) -> None:
    """By addresses off loopback, each host with processes and memory files of its own."""
    with lan(3) as network:
        inventory = write_inventory(tmp_path, network.hosts, 1, 1)
        record = passes_and_leaves_nothing(tmp_path, inventory, network.hosts, network.command())
    started = History.read(record).of(Kind.NODE_STARTED)
    assert {event.data["namespaces"] for event in started}.isdisjoint({here()})
    argv = json.loads((record / "nodes/syncer/1/command.json").read_text())
    assert "10.213.7.2:0" in argv["argv"]
    assert "--tls-key" in argv["argv"]


def passes_and_leaves_nothing(
    folder: Path, inventory: Path, hosts: Sequence[SshHost], inside: Sequence[str] = ()
) -> Path:
    """The record of the run, which has come home."""
    verdict = verdict_of(start_two(folder, inventory, inside))
    assert verdict["outcome"] == "PASS", whole(verdict)
    assert left_on(hosts) == []
    record = record_in(folder / "runs")
    started = History.read(record).of(Kind.NODE_STARTED)
    assert {event.data["labels"]["region"] for event in started if "learner" in event.source} == {
        "eu", "us",
    }  # fmt: skip
    assert (record / "nodes/learner-0/1/stdout.log").stat().st_size
    assert (record / "hosts" / hosts[1].access.host / "spool.jsonl").exists()
    return record


def here() -> str:
    found = identify(os.getpid())
    assert found is not None
    return found.namespaces


@pytest.mark.deep
def test_doctor_asks_hosts_and_names_one_that_does_not_let_it_in(tmp_path: Path) -> None:
    with fleet_of_hosts(tmp_path, 1) as (inventory, (syncer, learner)):
        (learner.home / "sshd/authorized_keys").write_text("")
        done = subprocess.run(
            [sys.executable, "-m", "chaoslab", "doctor", "--json", "--inventory", str(inventory)],
            capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
        lines = {one["name"]: one for one in json.loads(done.stdout)["abilities"]}
        near, far = syncer.access.host, learner.access.host
        assert lines[near]["state"] == "ok"
        assert f"{near}: cgroups" in lines
        assert lines[far]["state"] == "missing"
