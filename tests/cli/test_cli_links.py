"""Links on the command line: what a preview says of them, and what is refused with which words."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaoslab.cli.main import main
from chaoslab.faults.network import NetworkBandwidth, NetworkLatency
from chaoslab.links.effects import Direction
from chaoslab.links.netem import netfilter
from chaoslab.plan.model import FaultPlan, FaultSpec, FleetSpec, Outage, Target, Trigger
from chaoslab.plan.schedule import roster_of, schedule
from chaoslab.prepare import plans
from chaoslab.prepare.links import caveats, link_kind, standing

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


def test_a_plan_that_says_nothing_gets_what_it_needs(folder: Path) -> None:
    assert preview()["links"] == "embedded"
    assert preview(fault="process.kill")["links"] == "none"
    assert preview("--set", "fleet.links=embedded", fault="process.kill")["links"] == "embedded"


def test_the_preview_says_who_chose_the_links(folder: Path) -> None:
    assert "embedded (" in call("plan", "slow_one.yaml").stdout
    none = call("plan", "slow_one.yaml", fault="process.kill").stdout
    assert "none (" in none


def test_the_preview_names_the_profiles_of_regions(folder: Path) -> None:
    regions = ("--set", "fleet.regions={eu: 2}", "--set", "fleet.profiles={eu: transatlantic}")
    assert preview(*regions)["profiles"] == {"eu": "transatlantic"}
    shown = " ".join(call("plan", "slow_one.yaml", *regions).stdout.split())
    assert "eu: transatlantic" in shown


def spec(fault: NetworkBandwidth | NetworkLatency) -> FaultSpec:
    return FaultSpec(
        id="it",
        fault=fault.name,
        settings=fault,
        target=Target(count=1),
        at=Trigger(round=1),
        outage=Outage(seconds=3.0),
    )


def plan_with(*faults: NetworkBandwidth | NetworkLatency, **fleet: object) -> FaultPlan:
    return FaultPlan(
        name="it",
        fleet=FleetSpec(**fleet),  # type: ignore[arg-type]  # as the test likes it
        faults=tuple(map(spec, faults)),
    )


def test_a_profile_alone_needs_links() -> None:
    assert link_kind(plan_with()) == "none"
    assert link_kind(plan_with(regions={"eu": 1}, profiles={"eu": "lan"})) == "embedded"


def test_only_learners_of_a_region_with_a_profile_have_standing_effects() -> None:
    plan = plan_with(regions={"eu": ("learner-2",), "us": 2}, profiles={"eu": "transatlantic"})
    held = standing(plan)
    assert list(held) == ["learner-2"]
    assert {direction for direction, _ in held["learner-2"]} == {Direction.BOTH}


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


@pytest.mark.parametrize("fault", ["network.latency", "process.kill"])
def test_without_a_toxiproxy_server_a_plan_that_asks_for_it_is_refused(
    folder: Path, fault: str
) -> None:
    said = refused("--set", "fleet.links=toxiproxy", fault=fault)
    assert "chaoslab doctor --fix" in said
    assert "links: embedded" in said


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
    said = refused(fault="network.loss")
    assert "network.loss (fault 'slow'): links: embedded" in said
    assert "iptables is not on PATH" in said


def test_a_gateway_is_refused_where_there_is_no_network_for_it(folder: Path) -> None:
    said = refused("--set", "fleet.links=netem", fault="network.loss")
    assert "links: netem" in said
    assert "--fleet docker" in said


def test_a_fault_that_would_be_healed_before_it_is_through_is_refused(folder: Path) -> None:
    said = refused(fault="network.reset, times: 9, every: 4s")
    assert "slow_one.yaml:7:" in said
    assert "32 s" in said


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
    assert f"slow_one.yaml:7:5: faults[0]: network.trace: {says}" in said


def test_an_unknown_profile_is_refused_where_it_is_written(folder: Path) -> None:
    said = refused("--set", "fleet.regions={eu: 2}", "--set", "fleet.profiles={eu: transatlantik}")
    assert "--set fleet.profiles={eu: transatlantik}: fleet.profiles.eu: " in said


def test_a_given_toxiproxy_that_is_not_there_is_refused(folder: Path) -> None:
    said = refused("--set", "fleet={links: toxiproxy, toxiproxy: '127.0.0.1:1'}")
    assert "127.0.0.1:1" in said


def test_the_plans_on_networks_name_their_links_by_need() -> None:
    for name in ("wan_throttle", "partition_half", "freeze_one", "reset_storm", "region_outage",
                 "four_regions_2gbps"):  # fmt: skip
        plan, _ = plans.decode(plans.Asked(plan=name))
        assert plan.fleet.links is None
        assert link_kind(plan) == "embedded"
