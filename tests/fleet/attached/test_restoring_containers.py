"""What brings a container back, on an engine that only remembers what it was asked."""

import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("docker.errors", reason="the Docker SDK is missing", exc_type=ImportError)

from chaoslab.core.errors import FleetError
from chaoslab.fleet.attached import restoring_containers
from chaoslab.fleet.attached.restoring import ContainerRecipe
from chaoslab.fleet.docker.engine.container_facts import ContainerSpec, Limits, MadeAs
from chaoslab.fleet.storage import disk

LOST = ContainerRecipe(
    node="learner-1",
    engine="unix:///x",
    container="day-learner-1-1",
    networks={"n": ("learner-1",)},
)


class StandIn:
    """An engine with one container, which has exited and is on no network."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def __getattr__(self, verb: str) -> Any:
        return lambda *_: self.done.append(verb)

    def inspect(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(is_alive=False, status="exited")

    def made_as(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(networks={})


@pytest.mark.parametrize("is_ours", [True, False])
def test_only_who_is_ours_to_start_is_missed_and_started(
    monkeypatch: pytest.MonkeyPatch, *, is_ours: bool
) -> None:
    engine = StandIn()
    monkeypatch.setattr(restoring_containers.Engine, "connect", lambda _: engine)
    recipe = replace(LOST, is_ours_to_start=is_ours)
    assert bool(restoring_containers.lacks(recipe)) == is_ours
    restoring_containers.restore(recipe)
    started = ["start"] if is_ours else []
    assert [verb for verb in engine.done if verb != "close"] == ["unpause", "reconnect", *started]


class Beside(StandIn):
    """One with a volume that is a folder of this machine, where it runs what is beside it."""

    def __init__(self, volume: str) -> None:
        super().__init__()
        self._volume, self.specs = volume, list[ContainerSpec]()

    def inspect(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(is_alive=False, status="exited", image="sha256:trainer")

    def made_as(self, _: str) -> MadeAs:
        return MadeAs(
            id="1", command=(), networks={}, addresses={}, user="1000:1000",
            mounts={"/": "root", self._volume: "saved"},
        )  # fmt: skip

    def machine(self, processes: int) -> Limits:
        return Limits(cpus=1, memory_bytes=1, processes=processes)

    def names(self, _: object) -> dict[str, dict[str, str]]:
        return {"chaoslab-files-of-a-dead-harness": {}}

    def run(self, spec: ContainerSpec, _: float) -> str:
        self.done.append("run")
        self.specs.append(spec)
        return subprocess.run(spec.command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Beside:
    engine = Beside(str(tmp_path))
    monkeypatch.setattr(restoring_containers.Engine, "connect", lambda _: engine)
    return engine


def test_files_are_put_back_before_the_container_starts_on_the_volume_that_has_them(
    beside: Beside, tmp_path: Path
) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "step-7").write_bytes(b"seven")
    disk.damage(folder, "truncate", every=False, is_kept=True)
    recipe = replace(LOST, keeps=str(folder))
    assert restoring_containers.not_put_back(recipe) == ("learner-1: step-7 is not as it was",)
    assert "learner-1: step-7, put back" in restoring_containers.put_back(recipe)
    assert (folder / "step-7").read_bytes() == b"seven"
    assert restoring_containers.not_put_back(recipe) == ()
    verbs = [verb for verb in beside.done if verb in ("remove", "run", "start")]
    assert verbs == ["run", "remove", "run", "start", "run"]
    (spec,) = {(one.image, one.user, tuple(one.volumes.items())) for one in beside.specs}
    assert spec == ("sha256:trainer", "1000:1000", (("saved", str(tmp_path)),))


def test_files_on_no_volume_are_refused(beside: Beside) -> None:
    recipe = replace(LOST, keeps="/saved")
    made = beside.made_as("")
    beside.made_as = lambda _: replace(made, mounts={})  # type: ignore[method-assign]
    with pytest.raises(FleetError, match="volume"):
        restoring_containers.put_back(recipe)
    assert "start" not in beside.done
