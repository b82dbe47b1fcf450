"""Plans of a script: what is refused of them, and which nodes they start."""

from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.fleet.attached.settings import ComposeFleets
from chaoslab.fleet.base import Ability, NodeSpec
from chaoslab.fleet.remote.scripts import ScriptFleets
from chaoslab.prepare.launch import Launch
from chaoslab.prepare.plans import Asked, Prepared, prepare
from chaoslab.prepare.preflight import fault_of, refuse_wrong_roles

LAUNCHER = "torchrun --nproc-per-node 4 train.py --out {folder}"
EACH = "train.py --rank {rank} --out {folder}"


def prepared(
    tmp_path: Path,
    command: str = LAUNCHER,
    *,
    restarts: str = "chaoslab",
    fault: str = "process.kill",
    target: str = "{launcher: all}",
    ports: str = "{}",
    fleet: str = "{kind: local}",
    folder: str = "",
) -> Prepared:
    path = tmp_path / "trial.yaml"
    path.write_text(
        f"""version: 1
name: trial
training:
  script: {{command: '{command}', workers: 4, restarts: {restarts}, ports: {ports}, \
folder: '{folder}'}}
fleet: {fleet}
limits: {{timeout: 4m}}
faults:
  - {{id: dies, fault: {fault}, target: {target}, at: {{step: 20}}, for: 4s}}
expect:
  - {{check: cleanup}}
"""
    )
    return prepare(Asked(plan=str(path)))


def nodes(of: Prepared) -> tuple[NodeSpec, ...]:
    script = of.plan.training.script
    assert script is not None
    return Launch(plan=of.plan, snapshots=Path(), tokens=Path()).workers(script)


def test_a_command_without_a_rank_is_a_launcher_with_workers_below_it(tmp_path: Path) -> None:
    found = prepared(tmp_path, restarts="itself")
    (launcher,) = nodes(found)
    assert [one.name for one in launcher.launches] == [f"worker-{rank}" for rank in range(4)]
    assert launcher.restarts
    assert [one.targets for one in found.schedule.injections] == [("launcher",)]


def test_with_a_rank_each_worker_is_started(tmp_path: Path) -> None:
    found = nodes(prepared(tmp_path, EACH, target="{workers: 1}"))
    assert [one.launches for one in found] == [()] * 4
    assert [one.command[2] for one in found] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"command": EACH, "restarts": "itself", "target": "{workers: 1}"}, ":4:.*script.restarts"),
        ({"command": EACH}, ":8:.*there is no launcher"),
        ({"fault": "process.crash_loop", "target": "{workers: 1}"}, r":8:.*faults\[0\].fault"),
        ({"target": "{launcher: all, workers: 1}"}, ":8:.*target"),
    ],
)
def test_what_a_launcher_cannot_is_refused(
    tmp_path: Path, given: dict[str, str], place: str
) -> None:
    with pytest.raises(PlanError, match=place):
        prepared(tmp_path, **given)


@pytest.mark.parametrize(
    ("fault", "is_refused"), [("process.pause", True), ("process.kill", False)]
)
def test_a_launcher_can_be_killed_and_nothing_else(
    tmp_path: Path, fault: str, is_refused: bool
) -> None:
    (injection,) = prepared(tmp_path, fault=fault).schedule.injections
    if not is_refused:
        refuse_wrong_roles(injection, fault_of(injection))
        return
    with pytest.raises(PlanError, match="launcher"):
        refuse_wrong_roles(injection, fault_of(injection))


SSH = "{{kind: ssh, inventory: {}/fleet.yaml}}"


def on_hosts(tmp_path: Path, workers: str, **given: str) -> Prepared:
    (tmp_path / "fleet.yaml").write_text(f"workers: {workers}\n")
    return prepared(tmp_path, **{"fleet": SSH.format(tmp_path)} | given)


def test_on_hosts_what_is_started_has_a_place_in_the_inventory(tmp_path: Path) -> None:
    found = on_hosts(tmp_path, "{launcher: {host: 10.0.0.3}}").fleet_setup.fleet
    assert isinstance(found, ScriptFleets)
    assert [one.address for one in found.addresses] == ["10.0.0.3"]
    each = {"command": EACH, "target": "{workers: 1}"}
    with pytest.raises(PlanError, match=r"fleet.inventory: .*worker-1"):
        on_hosts(tmp_path, "{worker-0: {host: 10.0.0.3}}", **each)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"ports": "{a: 127.0.0.1:9000}", "command": LAUNCHER + " {port:a}"}, "script.ports"),
        ({"fault": "network.latency"}, r"faults\[0\].fault.*process.pause"),
        ({"fault": "network.disconnect"}, r"faults\[0\].fault.*process.pause"),
        ({"folder": "/checkpoints"}, "script.folder"),
        ({"restarts": "supervisor"}, "script.restarts"),
        ({"fleet": "{kind: tpu-vm, inventory: FOLDER/fleet.yaml}"}, r":4:.*script.*ssh"),
    ],
)  # fmt: skip
def test_what_cannot_be_on_hosts_is_refused(
    tmp_path: Path, given: dict[str, str], place: str
) -> None:
    given = {key: value.replace("FOLDER", str(tmp_path)) for key, value in given.items()}
    with pytest.raises(PlanError, match=place):
        on_hosts(tmp_path, "{launcher: {host: 10.0.0.3}}", **given)


STORE = "{store: 127.0.0.1:9000}"
COMPOSE = "{kind: compose, project: day, services: [trainer]}"


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"command": EACH, "target": "{workers: 1}"}, r"faults\[0\].fault.*ports: {store: "),
        ({"command": "", "target": "{workers: 1}", "fleet": COMPOSE}, "use network.disconnect"),
        (
            {"command": "", "target": "{workers: 1}", "fault": "network.disconnect",
             "fleet": "{kind: namespace, namespace: day, selector: app=a}"},
            r"faults\[0\].fault.*NetworkPolicy",
        ),
        (
            {"command": EACH + " {port:store}", "target": "{workers: 1}", "ports": STORE,
             "fault": "network.limit_data"},
            r"faults\[0\].fault.*network.reset",
        ),
        (
            {"command": EACH, "target": "{workers: 1}", "fault": "network.disconnect"},
            r"faults\[0\].fault.*network.partition",
        ),
        (
            {"command": LAUNCHER + " {port:store}", "target": "{workers: 1}", "ports": STORE},
            r"faults\[0\].fault.*launcher: all",
        ),
        (
            {"command": EACH + " {port:stor}", "target": "{workers: 1}", "ports": STORE},
            r"script.command.*did you mean {port:store}",
        ),
        (
            {"command": EACH + " {port:store}", "target": "{workers: 1}", "ports": STORE,
             "fleet": "{kind: processes, pattern: train.py}"},
            r"training.script.ports",
        ),
    ],
)  # fmt: skip
def test_a_link_that_cannot_be_broken_is_refused(
    tmp_path: Path, given: dict[str, str], place: str
) -> None:
    with pytest.raises(PlanError, match=place):
        prepared(tmp_path, **{"fault": "network.latency"} | given)


@pytest.mark.parametrize(
    ("fault", "instead"),
    [
        ("process.hang", "process.pause"),
        ("process.preempt", "SIGTERM"),
        ("clock.drift", "clock of"),
    ],
)
def test_what_a_script_cannot_is_refused_with_what_comes_nearest(
    tmp_path: Path, fault: str, instead: str
) -> None:
    with pytest.raises(PlanError, match=rf"faults\[0\].fault.*: .*{instead}"):
        prepared(tmp_path, EACH, fault=fault, target="{workers: 1}")


def test_the_link_of_a_launcher_can_be_broken(tmp_path: Path) -> None:
    command = LAUNCHER + " --store 127.0.0.1:{port:store}"
    found = prepared(tmp_path, command, fault="network.partition", ports=STORE)
    (injection,) = found.schedule.injections
    refuse_wrong_roles(injection, fault_of(injection))
    assert injection.targets == ("launcher",)
    script = found.plan.training.script
    assert script is not None
    launch = Launch(plan=found.plan, snapshots=Path(), tokens=Path())
    (launcher,) = launch.workers(script, {"launcher": {"store": 4711}})
    assert "127.0.0.1:4711" in launcher.command


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"fleet": COMPOSE}, r"faults\[0\].fault.*script: {folder: "),
        ({"fleet": COMPOSE, "folder": "saved"}, r"script.folder.*absolute"),
        ({"folder": "/saved", "command": EACH}, r"script.folder.*{folder}"),
    ],
)
def test_checkpoints_in_containers_need_the_name_of_their_folder(
    tmp_path: Path, given: dict[str, str], place: str
) -> None:
    usual = {"command": "", "target": "{workers: 1}", "fault": "storage.damage_checkpoint"}
    with pytest.raises(PlanError, match=place):
        prepared(tmp_path, **usual | given)


@pytest.mark.parametrize(
    ("fault", "abilities"),
    [
        ("storage.disk_full", {Ability.STORAGE, Ability.VOLUME}),
        ("process.kill", set[Ability]()),
    ],
)
def test_a_fleet_of_containers_acts_on_files_where_a_fault_needs_it(
    tmp_path: Path, fault: str, abilities: set[Ability]
) -> None:
    pytest.importorskip("docker.errors", exc_type=ImportError)
    found = prepared(
        tmp_path, "", target="{workers: 1}", fault=fault, fleet=COMPOSE, folder="/saved/{rank}"
    )
    factory = found.fleet_setup.fleet
    assert isinstance(factory, ComposeFleets)
    assert factory.abilities & {Ability.STORAGE, Ability.VOLUME} == abilities
    assert factory.request.reading is not None
    keeps = factory.request.reading.keeps
    assert [one.folder for one in keeps.values()] == [
        f"/saved/{rank}" for rank in range(4) if abilities
    ]
    assert all(one.is_filled for one in keeps.values())


def test_a_container_is_taken_off_its_network_and_what_that_carried_is_counted(
    tmp_path: Path,
) -> None:
    found = prepared(tmp_path, "", target="{workers: 1}", fault="network.disconnect", fleet=COMPOSE)
    factory = found.fleet_setup.fleet
    assert isinstance(factory, ComposeFleets)
    assert factory.request.reading is not None
    assert factory.request.reading.counts_bytes
