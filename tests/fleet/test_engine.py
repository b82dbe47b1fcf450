"""An engine with somebody else at it: what it answers then, and what is done all the same."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.undo import leftovers
from tests.engine import Engine

from chaoslab.fleet.docker.engine.connection import ASK_S, APIError  # isort: skip  # the engine may skip all this
from chaoslab.fleet.docker.run_resources import empty  # isort: skip
from docker import DockerClient  # isort: skip
from docker.errors import NotFound  # isort: skip
from requests import Response  # isort: skip
from requests.exceptions import ReadTimeout  # isort: skip


class Api:
    """What the SDK asks, of an engine with these containers."""

    def __init__(self, *names: str) -> None:
        self.there = list(names)
        self.timeout = 0.0
        self.stubborn: set[str] = set()
        self.busy: dict[str, int] = {}
        """Being removed by somebody else: how often they are still seen."""
        self.networks_there = ["network"]

    def containers(self, **_: object) -> list[dict[str, object]]:
        found: list[dict[str, object]] = [
            {"Id": f"id of {name}", "Names": [f"/{name}"], "Labels": {}} for name in self.there
        ]
        return [*found, {"Id": "0123", "Names": None, "Labels": {}}]

    def remove_container(self, name: str, **_: object) -> None:
        if name == "silent":
            raise ReadTimeout("Read timed out. (read timeout=60)")
        if name in self.stubborn:
            raise APIError(f"driver failed to remove {name}")
        if name in self.busy:
            answer = Response()
            answer.status_code = 409
            raise APIError(f"removal of container {name} is in progress", response=answer)
        if name not in self.there:
            raise NotFound("No such container")
        self.there.remove(name)

    def inspect_container(self, name: str) -> dict[str, object]:
        if not self.busy[name]:
            raise NotFound("No such container")
        self.busy[name] -= 1
        state: dict[str, object] = {"Status": "removing", "Pid": 0, "ExitCode": 0}
        state |= {"OOMKilled": False, "StartedAt": ""}
        return {"State": state, "Image": "image", "NetworkSettings": None}

    def networks(self, **_: object) -> list[dict[str, object]]:
        return [{"Name": name, "Labels": None} for name in self.networks_there]

    def remove_network(self, name: str) -> None:
        self.networks_there.remove(name)

    def volumes(self, **_: object) -> dict[str, object]:
        return {"Volumes": None}


def engine_of(api: Api, url: str = "unix:///nobody.sock") -> Engine:
    return Engine(cast("DockerClient", SimpleNamespace(api=api, close=lambda: None)), url)


def test_a_container_whose_name_is_free_again_is_listed_by_its_id() -> None:
    assert set(engine_of(Api("one")).names({})) == {"one", "0123"}


def test_whoever_is_removing_a_container_already_is_waited_for() -> None:
    api = Api("one")
    api.busy["one"] = 2
    assert engine_of(api).remove("one")
    assert not api.busy["one"]


def test_what_an_engine_keeps_is_named_and_the_rest_is_removed() -> None:
    api = Api("one", "two")
    api.stubborn.add("one")
    with pytest.raises(FleetError, match="driver failed"):
        empty(engine_of(api), "run")
    assert api.there == ["one"]
    assert not api.networks_there


def test_an_engine_that_was_silent_is_given_less_time_until_it_answers() -> None:
    api = Api("one")
    engine, other = engine_of(api), engine_of(api)
    with pytest.raises(FleetError, match="timed out"):
        engine.remove("silent")
    assert api.timeout == ASK_S
    other.networks({})
    assert api.timeout < ASK_S
    other.networks({})
    assert api.timeout == ASK_S


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("unix:///nobody.sock", "127.0.0.1"),
        ("tcp://localhost:2375", "127.0.0.1"),
        ("tcp://192.0.2.7:2376", "192.0.2.7"),
        ("tcp://[::1]:2376", "::1"),
    ],
)
def test_ports_are_published_at_one_address_by_its_number(url: str, address: str) -> None:
    assert engine_of(Api(), url).host == address


def test_an_engine_that_refuses_keeps_nothing_else_from_being_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Refusing(Api):
        def containers(self, **_: object) -> list[dict[str, object]]:
            raise APIError("not now")

    monkeypatch.setattr(Engine, "connect", lambda *_: engine_of(Refusing()))
    with pytest.raises(FleetError, match="not now"):
        Engine.connect().names({})
    half = tmp_path / "kill_half" / "20261120T000000Z-abcdef" / ".verdict.json.new"
    half.parent.mkdir(parents=True)
    half.touch()
    assert half.name in " ".join(one.what for one in leftovers.find(tmp_path))
