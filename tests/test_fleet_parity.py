"""The same plan on processes, containers and hosts by ssh: verdict and evidence are the same.

python -m pytest -m soak -s tests/test_fleet_parity.py        and prints them side by side
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaoslab.prepare.plans import Asked, decode
from tests.docker_runs import engine_with_images
from tests.ssh_runs import fleet_of_hosts, left_on
from tests.whole_runs import start, verdict_of

pytestmark = [pytest.mark.soak, pytest.mark.docker, pytest.mark.timeout(1800)]
FLEETS = {"local": "processes", "docker": "containers", "ssh": "hosts by ssh"}


@pytest.mark.parametrize(
    "plan",
    ["kill_half", "wan_throttle", "slow_chip", "syncer_crash", "host_kill", "slice_regions"],
)
def test_all_fleets_reach_the_same_verdict(tmp_path: Path, plan: str) -> None:
    engine_with_images().close()
    told = {
        fleet: judged(verdict_of(start(plan, tmp_path / fleet, "--fleet", fleet)))
        for fleet in ("local", "docker")
    }
    with fleet_of_hosts(tmp_path, *hosts_of(plan)) as (inventory, hosts):
        run = start(plan, tmp_path / "ssh", "--fleet", "ssh", "--inventory", str(inventory))
        told["ssh"] = judged(verdict_of(run))
        assert left_on(hosts) == []
    sys.stdout.write(table(plan, told))
    for fleet in ("docker", "ssh"):
        assert outcomes(told[fleet]) == outcomes(told["local"])
    assert told["local"]["verdict"][0] == "PASS"


def hosts_of(plan: str) -> tuple[int, ...]:
    """The number of hosts of each learner of a plan that comes with chaoslab."""
    found, _ = decode(Asked(plan=plan))
    return tuple(found.training.hosts_of(name) for name in found.training.learner_names)


def outcomes(told: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Without the margins, which differ from run to run."""
    return {name: said for name, (said, _) in told.items()}


def judged(verdict: Mapping[str, object]) -> dict[str, tuple[str, str]]:
    """By finding and injection: what was said of it, and by which margin."""
    told = {"verdict": (str(verdict["outcome"]), "")}
    for row in rows(verdict, "findings"):
        margin = row["margin"]
        told[str(row["check"])] = (
            str(row["outcome"]),
            f"{margin:.2f}" if isinstance(margin, float) else "",
        )
    for row in rows(verdict, "injections"):
        told[f"evidence of {row['id']}"] = (str(row["status"]), "")
    return told


def rows(verdict: Mapping[str, object], what: str) -> list[Mapping[str, object]]:
    found = verdict[what]
    assert isinstance(found, list)
    return found


def table(plan: str, told: Mapping[str, Mapping[str, tuple[str, str]]]) -> str:
    """In Markdown: each row is a finding, with its margin where it has one."""
    names = dict.fromkeys(name for fleet in FLEETS for name in told[fleet])
    cells = (
        (name, *(" ".join(told[fleet].get(name, ("missing", ""))).strip() for fleet in FLEETS))
        for name in names
    )
    head = f"\n| {plan} | {' | '.join(FLEETS.values())} |\n|{' --- |' * (1 + len(FLEETS))}\n"
    return head + "\n".join(f"| {' | '.join(row)} |" for row in cells) + "\n"
