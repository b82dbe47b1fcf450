"""The same plan on processes, containers, hosts by ssh and pods: verdict and evidence are the same.

    python -m pytest -s tests/test_fleet_parity.py                         kill_half, side by side
    python -m pytest -s tests/test_fleet_parity.py --parity slow_chip      another one of PLANS

A plan takes a quarter of an hour, so the deep tier does the first alone.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from chaoslab.prepare.plans import Asked, decode
from tests.cluster import CONTEXT, NAMESPACE, cluster
from tests.docker_runs import engine_with_images
from tests.ssh_runs import fleet_of_hosts, left_on
from tests.whole_runs import start, verdict_of

pytestmark = [
    pytest.mark.deep, pytest.mark.soak, pytest.mark.docker, pytest.mark.kubernetes,
    pytest.mark.timeout(3600),
]  # fmt: skip
FLEETS = {
    "local": "processes", "docker": "containers", "ssh": "hosts by ssh", "kubernetes": "pods",
}  # fmt: skip
EVERYWHERE = tuple(FLEETS)
PLANS = {
    "kill_half": EVERYWHERE,
    "slow_chip": EVERYWHERE,
    "syncer_crash": EVERYWHERE,
    "pause_one": ("local", "docker", "kubernetes"),
    "wedge_one": ("local", "docker", "kubernetes"),
    "wan_throttle": EVERYWHERE,
    "host_kill": EVERYWHERE,
    "slice_regions": EVERYWHERE,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    plans = metafunc.config.getoption("--parity") or ["kill_half"]
    metafunc.parametrize(("plan", "fleets"), [(plan, PLANS[plan]) for plan in plans], ids=plans)


def test_all_fleets_reach_the_same_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str, fleets: Sequence[str]
) -> None:
    engine_with_images().close()
    told = {fleet: judged(on(fleet, plan, tmp_path / fleet, monkeypatch)) for fleet in fleets}
    sys.stdout.write(table(plan, told))
    assert told["local"]["verdict"][0] == "PASS"
    for fleet in fleets:
        assert outcomes(told[fleet]) == outcomes(told["local"])


def on(
    fleet: str, plan: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, object]:
    """The verdict of the plan on a fleet that leaves nothing."""
    folder.mkdir()
    if fleet == "ssh":
        with fleet_of_hosts(folder, *hosts_of(plan)) as (inventory, hosts):
            run = start(plan, folder, "--fleet", "ssh", "--inventory", str(inventory))
            verdict = verdict_of(run)
            assert left_on(hosts) == []
            return verdict
    if fleet == "kubernetes":
        where = {"context": CONTEXT, "namespace": NAMESPACE, "image_pull": "Never", "disk": "50MB"}
        words = [word for key, value in where.items() for word in ("--set", f"fleet.{key}={value}")]
        with cluster(monkeypatch):
            return verdict_of(start(plan, folder, "--fleet", "kubernetes", *words))
    return verdict_of(start(plan, folder, "--fleet", fleet))


def hosts_of(plan: str) -> tuple[int, ...]:
    """The number of hosts of each learner of a plan that comes with chaoslab."""
    found, _ = decode(Asked(plan=plan))
    return tuple(found.training.hosts_of(name) for name in found.training.learner_names)


def outcomes(told: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Without the margins, which differ from run to run, and without what only some fleets have."""
    return {name: said for name, (said, _) in told.items() if name != "contact"}


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
    names = dict.fromkeys(name for fleet in told for name in told[fleet])
    cells = (
        (name, *(" ".join(said.get(name, ("missing", ""))).strip() for said in told.values()))
        for name in names
    )
    columns = " | ".join(FLEETS[fleet] for fleet in told)
    head = f"\n| {plan} | {columns} |\n|{' --- |' * (1 + len(told))}\n"
    return head + "\n".join(f"| {' | '.join(row)} |" for row in cells) + "\n"
