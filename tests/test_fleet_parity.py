"""The same plan on processes and on containers: the same verdict, findings and evidence.

python -m pytest -m soak -s tests/test_fleet_parity.py        and prints them side by side
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.docker_runs import engine_with_images, start, verdict_of

pytestmark = [pytest.mark.soak, pytest.mark.docker, pytest.mark.timeout(1200)]
FLEETS = ("local", "docker")


@pytest.mark.parametrize("plan", ["kill_half", "wan_throttle", "slow_chip", "syncer_crash"])
def test_both_fleets_reach_the_same_verdict(tmp_path: Path, plan: str) -> None:
    engine_with_images().close()
    told = {}
    for fleet in FLEETS:
        verdict = verdict_of(start(plan, tmp_path / fleet, "--fleet", fleet), limit_s=560)
        told[fleet] = judged(verdict)
    sys.stdout.write(table(plan, told))
    assert {name: said for name, (said, _) in told["docker"].items()} == {
        name: said for name, (said, _) in told["local"].items()
    }
    assert told["docker"]["verdict"][0] == "PASS"


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
    head = f"\n| {plan} | processes | containers |\n| --- | --- | --- |\n"
    return head + "\n".join(f"| {' | '.join(row)} |" for row in cells) + "\n"
