"""Whole runs with the faults that need netem and cgroup v2, where the kernel has them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chaoslab.fleet.local import cgroups
from chaoslab.fleet.local.cgroups import Controller
from chaoslab.links.netem import bands

pytestmark = [pytest.mark.deep, pytest.mark.alone, pytest.mark.timeout(600)]
HERE = Path(__file__).parent


def ran(plan: str, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """By check its outcome, by injection the evidence."""
    command = [sys.executable, "-m", "chaoslab", "run", str(HERE / plan), "--json", "--quiet"]
    told = subprocess.run(
        [*command, "--out", str(folder)],
        stdout=subprocess.PIPE,
        cwd=HERE.parent.parent,
        check=False,
    ).stdout
    verdict = json.loads(told)
    outcomes = {one["check"]: one["outcome"] for one in verdict["findings"]}
    return outcomes, {one["id"]: one["status"] for one in verdict["injections"]}


def test_training_goes_on_while_packets_are_duplicated_reordered_and_damaged(
    tmp_path: Path,
) -> None:
    can, why = bands.is_available()
    if not can:
        pytest.skip(why)
    outcomes, evidence = ran("packets.yaml", tmp_path)
    assert (outcomes["continuity"], outcomes["cleanup"]) == ("PASS", "PASS")
    assert evidence == dict.fromkeys(("injection-0", "injection-1", "injection-2"), "weak")


def test_a_quota_slows_and_a_limit_kills_by_cgroup_v2(tmp_path: Path) -> None:
    if any((home := cgroups.where(one)) is None or home.version != 2 for one in Controller):
        pytest.skip("no cgroup v2 with CPU and memory controllers")
    outcomes, evidence = ran("limits.yaml", tmp_path)
    assert (outcomes["continuity"], outcomes["cleanup"]) == ("PASS", "PASS")
    assert evidence["injection-0"] == "proved"
    assert evidence["injection-1"] in ("proved", "weak")  # the kill may come late
