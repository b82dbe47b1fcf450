"""Plans against an attached training: which, and what of the plan gives way to it."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.fleet.attached.found import Command, Found, of_script
from chaoslab.fleet.attached.settings import Compose, Namespace, Processes
from chaoslab.fleet.base import Role
from chaoslab.fleet.remote.settings import HostTraining
from chaoslab.prepare.attach import Target, attached
from chaoslab.prepare.plans import Asked, decode, prepare

NODES = tuple(
    Found(
        name=name,
        role=Role.SYNCER if name == "syncer" else Role.LEARNER,
        where=f"process {pid}",
        handle=str(pid),
        command=Command(role=Role.LEARNER),
    )
    for name, pid in (("syncer", 7), ("learner-0", 8), ("learner-1", 9))
)
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: {current}
clusters:
  - {{name: c, cluster: {{server: "https://127.0.0.1:1"}}}}
  - {{name: acme-production, cluster: {{server: "https://127.0.0.1:1"}}}}
users: [{{name: u, user: {{}}}}]
contexts:
  - {{name: staging, context: {{cluster: c, user: u, namespace: day}}}}
  - {{name: prod-eu, context: {{cluster: c, user: u}}}}
  - {{name: work, context: {{cluster: acme-production, user: u}}}}
"""


def settings_of(target: str, *settings: str) -> object:
    asked = Asked(plan="kill_half", settings=settings)
    plan, _ = decode(attached(asked, Target.of(target), NODES))
    assert plan.training.learners == 2
    return plan.fleet.settings


def test_the_nodes_that_were_found_are_those_of_the_plan() -> None:
    assert settings_of("processes") == Processes(syncer=7)
    assert settings_of("compose:day") == Compose(project="day")
    assert settings_of("namespace:day") == Namespace(namespace="day")
    named = Namespace(namespace="day", context="admin@cluster:1/x")
    assert settings_of("namespace:day@admin@cluster:1/x") == named


@pytest.mark.parametrize("target", ["namespace:", "namespace", "namespace:@day", "namespace:day@"])
def test_a_namespace_and_its_context_are_not_empty(target: str) -> None:
    with pytest.raises(PlanError):
        Target.of(target)


@pytest.mark.parametrize("target", ["processes:7", "compose:day"])
def test_others_can_start_nodes_again_by_a_setting(target: str) -> None:
    ours, others = settings_of(target), settings_of(target, "fleet.restarts=false")
    assert isinstance(ours, Processes | Compose)
    assert replace(ours, restarts=False) == others
    with pytest.raises(PlanError, match="learners"):  # those of the training itself are refused
        settings_of(target, "training.learners=3")


def test_a_namespace_stays_that_of_the_context_in_which_it_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lightkube")
    kubeconfig = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    kubeconfig.write_text(KUBECONFIG.format(current="staging"))
    named = Target.of("namespace:day").named()
    assert named.settings == Namespace(namespace="day", context="staging")
    for current in ("prod-eu", "work"):
        kubeconfig.write_text(KUBECONFIG.format(current=current))
        with pytest.raises(AbilityError):
            Target.of("namespace:day").named()
    assert named.named() == named
    assert Target.of("namespace:day@prod-eu").named() == Target.of("namespace:day@prod-eu")
    assert Target.of("compose:day").named() == Target.of("compose:day")


def test_a_service_or_labels_name_a_training_of_the_users_own() -> None:
    service = Target.of("compose:day", ("trainer", "other"))
    assert service.settings == Compose(project="day", services=("trainer", "other"))
    assert service.words == "compose:day --service trainer --service other"
    pods = Target.of("namespace:day", selector="app=trainer,tier in (a, b)")
    assert pods.settings == Namespace(namespace="day", selector="app=trainer,tier in (a, b)")
    assert service.is_script
    assert pods.is_script
    with pytest.raises(PlanError, match="--service"):
        Target.of("namespace:day", ("trainer",))
    with pytest.raises(PlanError, match="--selector"):
        Target.of("compose:day", selector="app=trainer")


def test_hosts_and_a_pattern_name_a_training_of_the_users_own(tmp_path: Path) -> None:
    target = Target.of("ssh:10.0.0.3,b", pattern="train .*py").reached_by("fleet.yaml")
    hosts = HostTraining(hosts=("10.0.0.3", "b"), pattern="train .*py", inventory="fleet.yaml")
    assert (target.settings, target.is_script) == (hosts, True)
    assert shlex.split(target.words) == [
        "ssh:10.0.0.3,b", "--pattern", "train .*py", "--inventory", "fleet.yaml"
    ]  # fmt: skip
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "version: 1\nname: a\nbaseline: {}\ntwin: false\n"
        "training: {script: {preset: chaoslab}}\nfleet: {kind: hosts, lease: 9s}\n"
    )
    nodes = [of_script(f"worker-{rank}", "process 7", "7@b") for rank in (0, 1)]
    found, _ = decode(attached(Asked(plan=str(plan)), target, nodes))
    assert found.fleet.settings == replace(hosts, lease_s=9.0)
    assert found.training.script is not None
    assert (found.training.script.workers, found.training.script.restarts) == (2, "chaoslab")


@pytest.mark.parametrize(
    ("target", "pattern"),
    [("ssh:a", ""), ("ssh:", "train"), ("ssh", "train"), ("processes", "train"), ("ssh:a,a", "t"),
     ("ssh:-oProxyCommand=a", "train"), ("ssh:me@a", "train"), ("ssh:a", "(")],
)  # fmt: skip
def test_what_names_no_hosts_is_refused(target: str, pattern: str) -> None:
    with pytest.raises(PlanError):
        Target.of(target, pattern=pattern)


@pytest.mark.parametrize(
    ("training", "fleet", "culprit"),
    [
        ("script: {preset: chaoslab}", "hosts: [a]", "pattern"),
        ("script: {preset: chaoslab}", "pattern: train", "hosts"),
        ("learners: 2", "hosts: [a], pattern: train", "kind"),
        ("script: {preset: chaoslab}", "hosts: [a], pattern: train, inventory: gone.yaml", "gone"),
    ],
)
def test_a_plan_that_names_no_training_on_hosts_is_refused(
    tmp_path: Path, training: str, fleet: str, culprit: str
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"version: 1\nname: a\ntwin: false\ntraining: {{{training}}}\n"
        f"fleet: {{kind: hosts, {fleet}}}\n"
    )
    with pytest.raises(PlanError, match=culprit):
        prepare(Asked(plan=str(plan)))


def test_an_inventory_is_for_hosts() -> None:
    with pytest.raises(PlanError, match="--inventory"):
        Target.of("compose:day").reached_by("fleet.yaml")
    assert Target.of("compose:day").reached_by(None) == Target.of("compose:day")


@pytest.mark.parametrize(("fault", "is_refused"), [
    ("process.kill", True), ("process.pause", True), ("pod.delete", False),
])  # fmt: skip
def test_a_first_process_cannot_be_signalled_from_inside(
    tmp_path: Path, fault: str, *, is_refused: bool
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "version: 1\nname: a\nbaseline: {}\ntwin: false\n"
        "training: {script: {preset: chaoslab, restarts: supervisor}}\n"
        "fleet: {kind: namespace, namespace: day, selector: app=a}\n"
        f"faults: [{{fault: {fault}, target: {{workers: 1}}, at: {{time: 1s}}, for: 1s}}]\n"
    )
    nodes = [of_script(f"worker-{rank}", "pod", "a", is_first=rank == 1) for rank in (0, 1)]
    target = Target.of("namespace:day", selector="app=a")
    asked = Asked(plan=str(plan), settings=())
    if is_refused:
        with pytest.raises(PlanError, match=rf"{fault}.* worker-1"):
            attached(asked, target, nodes)
        return
    found, _ = decode(attached(asked, target, nodes))
    assert found.training.script is not None
    assert found.training.script.workers == 2
    assert found.training.script.restarts == "supervisor"
