"""Faults on the trainings of packages, and what they survive.

    catalogue and FAULTS ─► plan ─► chaoslab run ─► build/trainers/hf-kill/…/verdict.json ─► table

`python -m tests.trainers.packages.survival table` prints the tables of docs/trainers.md, from
the newest records in build/trainers, where the tests of this folder leave them.
"""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import click

from tests.trainers.packages.catalogue import PACKAGES
from tests.whole_runs import ROOT

RECORDS = ROOT / "build" / "trainers"
_AT = {"at": {"step": 210}}
FAULTS: Mapping[str, tuple[Mapping[str, Any], ...]] = MappingProxyType(
    {
        "kill": ({"fault": "process.kill", **_AT, "for": "2s"},),
        "hang": (
            {"fault": "process.pause", **_AT, "for": "5s"},
            {"fault": "process.pause", **_AT, "at": {"step": 300}, "for": "75s"},
        ),
        "lost": ({"fault": "storage.damage_checkpoint", "how": "lose", **_AT, "for": "1m"},),
        "half": ({"fault": "storage.damage_checkpoint", "how": "truncate", **_AT, "for": "1m"},),
        "disk": ({"fault": "storage.disk_full", **_AT, "for": "30s"},),
    }
)
"""By name: the worker is killed between two checkpoints; hangs for less and for more than
`max_pause`; its newest checkpoint is gone, or half; its disk is full."""
BROKEN = ("no_resume", "older", "moments", "rate", "data", "shard")
"""What a resume can get wrong: it begins anew, or from an older checkpoint; goes on with fresh
moments, or a learning rate from zero; begins its data again, or takes those of another."""
_REJOIN = {"check": "rejoin", "within": "10m", "contributions": 3}
_LOSSES = {"check": "divergence", "exact": False}
_CHECKS = (
    {"check": "participation", "min_share": "5%"},
    {"check": "cadence", "min_share": "5%"},
    {"check": "cleanup"},
)


def plan_of(name: str, fault: str, broken: str = "") -> str:
    """Of a run with a twin; `broken`: what the resume of the training gets wrong."""
    package = PACKAGES[name]
    script = dict(package.keys())
    script["command"] += f" {broken}" if broken else ""
    if fault != "hang":
        script["max_pause"] = "5m"  # a start that other programs leave no core
    more = [_REJOIN] if fault != "disk" else []  # which takes no worker away
    more += [] if package.is_exact else [_LOSSES]
    return json.dumps(
        {
            "version": 1,
            "name": run_name(name, fault, broken),
            "training": {"script": script},
            "twin": fault not in ("hang", "disk"),  # in which nothing resumes
            "baseline": {"warmup": "10 rounds", "window": "100 rounds", "max_variation": "1000%"},
            "limits": {"min_alive": 0, "max_affected": "100%", "timeout": "30m"},
            "settle": "10m",
            "faults": [{"target": package.victim, **one} for one in FAULTS[fault]],
            "expect": [*more, *_CHECKS],
        }
    )


def run_name(name: str, fault: str, broken: str = "") -> str:
    return "-".join(filter(None, (name, fault, broken)))


def blamed(verdict: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Findings that are not PASS, the worst first; that training ended comes of something else."""
    findings = sorted(verdict["findings"], key=lambda one: one["check"] == "training_continues")
    for outcome in ("FAIL", "UNKNOWN"):
        yield from (one for one in findings if one["outcome"] == outcome)


@click.group()
def survival() -> None:
    """Print plans, and what came of them."""


@survival.command()
@click.argument("name", type=click.Choice(tuple(PACKAGES)))
@click.argument("fault", type=click.Choice(tuple(FAULTS)))
@click.argument("broken", type=click.Choice(BROKEN), required=False)
def plan(name: str, fault: str, broken: str | None) -> None:
    """Print the plan of a run."""
    click.echo(plan_of(name, fault, broken or ""))


@survival.command()
def table() -> None:
    """Print what the newest records say, a trainer on each line, and the reason of what failed."""
    reasons: list[str] = []
    for runs in ([(fault, "") for fault in FAULTS], [("kill", how) for how in BROKEN]):
        click.echo(f"| trainer | {' | '.join(how or fault for fault, how in runs)} |")
        click.echo("| --- |" + " --- |" * len(runs))
        for name, package in PACKAGES.items():
            cells = (_cell(name, *run, reasons) for run in runs)
            click.echo(f"| {package.title} | {' | '.join(cells)} |")
        click.echo()
    click.echo("\n".join(reasons))


def _cell(name: str, fault: str, broken: str, reasons: list[str]) -> str:
    if not PACKAGES[name].has(fault, broken):
        return "none"  # no checkpoint
    run = run_name(name, fault, broken)
    file = RECORDS / run / "latest" / "verdict.json"
    if not file.exists():
        return "not measured"
    verdict = json.loads(file.read_text())
    worst = next(blamed(verdict), None)
    if worst is None:
        return str(verdict["outcome"])
    reasons.append(f"- {run}: `{worst['check']}` ({', '.join(worst['codes'])}): {worst['reason']}")
    return f"{verdict['outcome']} `{worst['check']}`"


if __name__ == "__main__":
    survival()
