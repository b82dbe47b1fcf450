"""Links on the command line: what a preview says of them, and what is refused with which words."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.main import main
from chaoslab.faults.network import NetworkBandwidth
from chaoslab.links.effects import Direction
from chaoslab.links.netem import netfilter
from chaoslab.plan.model import FaultPlan, FaultSpec, FleetSpec, Outage, Target, Trigger
from chaoslab.plan.schedule import roster_of, schedule
from chaoslab.prepare.links import caveats, initial_effects, link_kind

PLAN = """
version: 1
name: slow_one
description: One link is slow.
training: {learners: 3, stop: {rounds: 60}}
faults:
  - {id: slow, fault: FAULT, target: {learners: 1}, at: {round: 15}, for: 3s}
expect:
  - {check: continuity}
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder to work in, on a machine without a Toxiproxy server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def call(*words: str, fault: str = "network.latency") -> Result:
    Path("slow_one.yaml").write_text(PLAN.replace("FAULT", fault))
    return CliRunner().invoke(main, words)


def preview(*more: str, fault: str = "network.latency") -> dict[str, object]:
    result = call("plan", "slow_one.yaml", "--json", *more, fault=fault)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


# ---------------------------------------------------------------- previews


def test_a_plan_gets_the_links_that_it_needs_and_the_preview_says_which(folder: Path) -> None:
    for words, fault, links in (
        ((), "network.latency", "embedded"),
        ((), "process.kill", "none"),
        (("--set", "fleet.links=embedded"), "process.kill", "embedded"),
    ):
        assert preview(*words, fault=fault)["links"] == links
        assert f"{links} (" in call("plan", "slow_one.yaml", *words, fault=fault).stdout
    regions = ("--set", "fleet.regions={eu: 2}", "--set", "fleet.profiles={eu: transatlantic}")
    assert preview(*regions)["profiles"] == {"eu": "transatlantic"}
    shown = " ".join(call("plan", "slow_one.yaml", *regions).stdout.split())
    assert "eu: transatlantic" in shown


def plan_with(*faults: NetworkBandwidth, **fleet: object) -> FaultPlan:
    specs = (
        FaultSpec(
            id="it", fault=fault.name, settings=fault, target=Target(count=1),
            at=Trigger(round=1), outage=Outage(seconds=3.0),
        )
        for fault in faults
    )  # fmt: skip
    return FaultPlan(
        name="it",
        fleet=FleetSpec(**fleet),  # type: ignore[arg-type]  # as the test likes it
        faults=tuple(specs),
    )


def test_only_learners_of_a_region_with_a_profile_have_initial_effects() -> None:
    plan = plan_with(regions={"eu": ("learner-2",), "us": 2}, profiles={"eu": "transatlantic"})
    held = initial_effects(plan)
    assert list(held) == ["learner-2"]
    assert {direction for direction, _ in held["learner-2"]} == {Direction.BOTH}
    assert link_kind(plan) == "embedded"


@pytest.mark.gate
@pytest.mark.toxiproxy
def test_what_toxiproxy_does_otherwise_is_said_in_the_preview() -> None:
    plan = plan_with(NetworkBandwidth(), links="toxiproxy")
    (said,) = caveats(plan, schedule(plan, roster_of(plan)))
    assert "connection" in said


# ---------------------------------------------------------------- refusals


def refused(*words: str, fault: str = "network.latency") -> str:
    """What is said; exit code 2, and nothing was made."""
    for command in ("plan", "run"):
        result = call(command, "slow_one.yaml", *words, fault=fault)
        assert result.exit_code == 2, result.output
    assert not Path("runs").exists()
    return result.stderr


@pytest.mark.parametrize(
    ("links", "fault", "parts"),
    [
        ("toxiproxy", "network.latency", ["chaoslab doctor --fix", "links: embedded"]),
        ("toxiproxy", "process.kill", ["chaoslab doctor --fix", "links: embedded"]),
        ("netem", "network.packets", ["links: netem", "--fleet docker"]),
        ("embedded", "network.reset, times: 9, every: 4s", ["slow_one.yaml:7:", "32 s"]),
        ("{links: toxiproxy, toxiproxy: '127.0.0.1:1'}", "network.latency", ["127.0.0.1:1"]),
    ],
)
def test_links_that_cannot_be_had_are_refused_with_what_to_write(
    folder: Path, links: str, fault: str, parts: list[str]
) -> None:
    key = "fleet" if links.startswith("{") else "fleet.links"
    said = refused("--set", f"{key}={links}", fault=fault)
    assert [part for part in parts if part not in said] == []


def test_without_the_library_the_plan_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("chaoslab.links.toxiproxy")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("toxiproxy", "toxiproxy.api", "toxiproxy.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "chaoslab[toxiproxy]" in refused("--set", "fleet.links=toxiproxy")


def test_without_iptables_loss_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netfilter, "is_available", lambda: (False, "iptables is not on PATH"))
    assert "iptables is not on PATH" in refused(fault="network.packets")


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("", "`file`"),
        ("nowhere.csv", "trace nowhere.csv: "),
        ("garbage.csv", "garbage.csv:1: "),
        ("slow.csv", "slow.csv:3: "),
    ],
)
def test_a_trace_that_cannot_be_read_is_refused_with_the_line_of_its_fault(
    folder: Path, file: str, says: str
) -> None:
    Path("garbage.csv").write_text("what is this\n")
    Path("slow.csv").write_text("time,rate\n0s,1MB/s\n1s,2\n")
    given = ("--set", f"faults.slow.file={file}") if file else ()
    said = refused(*given, fault="network.trace")
    assert "slow_one.yaml:7:5: faults[0]: " in said
    assert says in said


def test_an_unknown_profile_is_refused_where_it_is_written(folder: Path) -> None:
    said = refused("--set", "fleet.regions={eu: 2}", "--set", "fleet.profiles={eu: transatlantik}")
    assert "--set fleet.profiles={eu: transatlantik}: fleet.profiles.eu: " in said
