"""A training of the user's own: by which lines it is read."""

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.plan.model import Script
from chaoslab.trainers.presets import preset
from chaoslab.trainers.reading import Reader


def test_a_preset_stands_in_the_place_of_patterns() -> None:
    script = Script(command="python train.py", preset="nanogpt")
    assert script.patterns == preset("nanogpt").patterns()


def test_without_patterns_and_preset_only_its_lines_for_chaoslab_are_read() -> None:
    reader = Reader(Script(command="python train.py").patterns)
    said = reader.feed(b"step 11 loss 2.5\nchaoslab: step=12 loss=3.25\n")
    assert [one.step for one in said] == [12]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"preset": "nanogtp"}, "preset"),
        ({"preset": "nanogpt", "saved": r"saved (?P<step>\d+)"}, "saved"),
        ({"progress": r"step (\d+)"}, "progress"),
    ],
)
def test_lines_that_cannot_be_read_are_refused(settings: dict[str, str], key: str) -> None:
    with pytest.raises(PlanError) as refused:
        Script(command="python train.py", **settings)
    assert refused.value.key == key


@pytest.mark.parametrize(
    ("command", "ports", "key"),
    [
        ("train.py {port:stor}", {"store": "127.0.0.1:9000"}, "command"),
        ("train.py {port:store}", {}, "command"),
        ("train.py", {"store": "127.0.0.1:9000"}, "ports.store"),
        ("train.py {port:store}", {"store": "9000"}, "ports.store"),
        ("train.py {port:store}", {"store": "a-host:90000"}, "ports.store"),
        ("train.py {port:store}", {"store": "http://a-host:9000"}, "ports.store"),
    ],
)
def test_ports_that_cannot_be_linked_are_refused(
    command: str, ports: dict[str, str], key: str
) -> None:
    with pytest.raises(PlanError) as refused:
        Script(command=command, ports=ports)
    assert key in {one.key for one in refused.value.parts or (refused.value,)}


def test_a_worker_connects_to_its_link_where_it_has_one_and_else_to_the_service() -> None:
    script = Script(command="train.py a:{port:store}", ports={"store": "b-host:9000"})
    assert script.words(0, "", {"store": 5}) == ("train.py", "a:5")
    assert script.words(0, "") == ("train.py", "a:9000")
    assert script.upstreams == {"store": ("b-host", 9000)}


def test_the_worker_that_opens_a_port_gets_that_one() -> None:
    given = {"command": "train.py {rank} {port:rdzv}", "ports": {"rdzv": "worker-0:29500"}}
    script = Script(workers=2, **given)  # type: ignore[arg-type]  # as a plan has it
    assert [script.words(rank, "", {"rdzv": 5})[-1] for rank in (0, 1)] == ["29500", "5"]
    assert script.upstreams == {"rdzv": ("127.0.0.1", 29500)}
    with pytest.raises(PlanError) as refused:
        Script(command="launch {port:rdzv}", workers=2, ports=script.ports)
    assert refused.value.key == "ports.rdzv"
