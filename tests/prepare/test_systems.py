"""Environments of systems of others, with a package that is made here."""

import json
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError, PlanError
from chaoslab.plan.model import systems as catalogue
from chaoslab.plan.model.systems import System
from chaoslab.prepare import systems
from chaoslab.prepare.launch import Launch
from chaoslab.prepare.plans import Asked, decode, prepare

TORCHRUN = ("training.system=torchrun", "training.algorithm=elastic_data_parallel")
NVRX = ("training.system=nvrx", "training.algorithm=elastic_data_parallel")
TORCHFT = ("training.system=torchft", "training.algorithm=diloco")


def wheel(folder: Path) -> Path:
    """A package `tiny` with one module."""
    path = folder / "tiny-1.0-py3-none-any.whl"
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tiny.py", "WHAT = 'tiny'\n")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n")
    return path


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, System]:
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path / "cache"))
    there = {
        "tiny": System(algorithm="diloco", packages=(str(wheel(tmp_path)),), about="for tests"),
        "none": System(algorithm="diloco", packages=(str(tmp_path / "no.whl"),), about="no"),
    }
    for module in (catalogue, systems):
        monkeypatch.setattr(module, "SYSTEMS", there)
    return there


@pytest.mark.usefixtures("known")
@pytest.mark.deep
def test_an_environment_sees_its_own_packages_and_those_of_chaoslab() -> None:
    assert not systems.is_installed("tiny")
    said: list[str] = []
    systems.install("tiny", said.append)
    assert systems.is_installed("tiny")
    program = "import tiny, jax, click; print(tiny.WHAT, tiny.__file__)"
    python = str(systems.environment_python("tiny"))
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"tiny {systems.environment('tiny')}")
    said.clear()
    systems.install("tiny", said.append)
    assert not said  # it was there
    assert systems.remove("tiny")
    assert not systems.remove("tiny")


@pytest.mark.usefixtures("known")
@pytest.mark.deep
def test_a_package_that_cannot_be_had_leaves_no_environment_that_counts() -> None:
    with pytest.raises(FleetError, match=r"no\.whl"):
        systems.install("none", lambda _: None)
    assert not systems.is_installed("none")


def test_other_packages_need_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = systems.environment("torchft")
    other = System(algorithm="diloco", packages=("torchft==9",), about="")
    monkeypatch.setattr(systems, "SYSTEMS", {"torchft": other})
    assert systems.environment("torchft") != before


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (("training.system=torchft",), "`algorithm: diloco`"),
        (("training.system=torchfd",), "torchft"),
        ((*TORCHFT, "training.reserve=1"), "without `reserve`"),
        ((*TORCHFT, "training.stop={loss: 2}"), "without `stop.loss`"),
        ((*TORCHFT, "training.torchft.heartbeat_timeout=soon"), "heartbeat_timeout"),
        ((*TORCHFT, "training.torchft.heartbeat_timeout=0s"), "0s"),
        ((*TORCHFT, "training.torchrun.max_restarts=1"), "`system` is torchft"),
        ((*TORCHRUN, "training.torchrun.last_call_timeout=1500ms"), "1500ms|whole seconds"),
        ((*NVRX, "training.nvrx.soft_timeout=100s"), "below 90s, is 100s"),
        ((*NVRX, "training.nvrx.heartbeat_timeout=1s"), "heartbeat_timeout.* above 1s"),
        ((*NVRX, "training.nvrx.store=elsewhere"), "learner, service"),
        ((*TORCHFT, "fleet.programs.learner=this"), "fleet.programs"),
        ((*TORCHFT, "faults.half-dies.at={phase: publish}"), "publish"),
        (TORCHFT, "chaoslab doctor systems install torchft"),
        ((*TORCHFT, "fleet.kind=docker"), " local"),
    ],
)
def test_what_a_system_cannot_do_is_refused(
    settings: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path))
    with pytest.raises(PlanError, match=says):
        prepare(Asked(plan="kill_half", settings=settings))


def test_settings_that_it_does_not_know_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaoslab.prepare.impossible.is_installed", lambda _: True)
    settings = (*TORCHFT, "training.quorum=2", "training.blend=50%")
    warnings = prepare(Asked(plan="kill_half", settings=settings)).warnings
    (warning,) = [one for one in warnings if "unused by torchft" in one]
    assert "quorum, blend" in warning


@pytest.mark.parametrize("name", ["torchft", "nvrx"])
def test_learners_and_syncer_are_started_in_its_environment(tmp_path: Path, name: str) -> None:
    own = "training.torchft={heartbeat_timeout: 1500ms, quorum_retries: 3}"
    asked = {"torchft": (*TORCHFT, own), "nvrx": NVRX}[name]
    plan, _ = decode(Asked(plan="kill_half", settings=asked))
    launch = Launch(plan=plan, snapshots=tmp_path, tokens=tmp_path)
    python = str(systems.environment_python(name))
    addresses = dict.fromkeys(plan.training.learner_names, "127.0.0.1:1")
    for spec in (launch.syncer(), *launch.learners(addresses)):
        assert spec.command[:5] == (python, "-m", "chaoslab.systems.node", name, spec.role)
        assert ("TORCH_CPP_LOG_LEVEL" in spec.environment) is (name == "nvrx")
    syncer = launch.syncer().command
    said = json.loads(syncer[syncer.index("--system-settings") + 1])
    given = {"heartbeat_timeout_s": 1.5, "quorum_retries": 3}
    assert said == (given if name == "torchft" else {})
    evaluator = launch.evaluator()
    assert evaluator.command[0] != python
    assert "TORCH_CPP_LOG_LEVEL" not in evaluator.environment
