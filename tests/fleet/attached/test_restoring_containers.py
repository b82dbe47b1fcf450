"""What brings a container back, on an engine that only remembers what it was asked."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("docker.errors", reason="the Docker SDK is missing", exc_type=ImportError)

from chaoslab.fleet.attached import restoring_containers
from chaoslab.fleet.attached.restoring import ContainerRecipe

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
