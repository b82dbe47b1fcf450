"""A real training off loopback: by default its nodes speak TLS, and nobody else gets in."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Kind, Observation
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.tls import PrivateNetwork
from chaoslab.fleet.base import NodeSite
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.private_folder import UNDO_PRIVATE
from chaoslab.plan.model import FaultPlan, Stop, Training
from chaoslab.prepare.launch import Launch
from tests.contracts.fleet_kit import Stage
from tests.fleet.local_stage import Remembered

pytestmark = [pytest.mark.deep, pytest.mark.alone]

PLAN = FaultPlan(
    name="far", seed=3, training=Training(learners=2, sync_every=12, stop=Stop(rounds=500))
)


class FarFleet(LocalFleet):
    """Processes of this machine that other machines could reach."""

    node_site = NodeSite(listen="0.0.0.0:0")


@pytest.fixture
def undo_log() -> Remembered:
    return Remembered()


@pytest.fixture
def stage(tmp_path: Path, undo_log: Remembered) -> Iterator[Stage]:
    clock = WallClock()
    with FarFleet(tmp_path, clock, undo_log=undo_log) as fleet:
        yield Stage(fleet=fleet, clock=clock)


def seen(stage: Stage, kind: Kind, node: str) -> Observation:
    """The next of a kind about a learner, whoever says it."""
    while True:
        found = stage.until(kind)
        if found.data.get("learner") == node:
            return found


def test_a_learner_comes_back_by_its_certificate_and_a_stranger_does_not_get_in(
    stage: Stage, tmp_path: Path, undo_log: Remembered
) -> None:
    run = Launch(
        plan=PLAN, snapshots=tmp_path / "snapshots", tokens=tmp_path / "tokens",
        node_site=stage.fleet.node_site,
    )  # fmt: skip
    stage.fleet.start(run.syncer())
    address = str(stage.until(Kind.SYNCER_READY).data["address"])
    assert address.startswith("0.0.0.0:")
    near = f"127.0.0.1:{address.rpartition(':')[2]}"  # as by a link's proxy, under another name
    for spec in run.learners(dict.fromkeys(PLAN.training.learner_names, near)):
        stage.fleet.start(spec)
    stage.until(Kind.ROUND_MERGED)
    stranger = Connection(near, token="learner-0:secret", tls=PrivateNetwork())
    stranger.open()
    assert stage.until(Kind.STREAM_REFUSED).data["reason"] == "no_tls"
    stranger.close()
    stage.fleet.kill("learner-0")
    stage.until(Kind.NODE_EXITED)
    stage.fleet.restart("learner-0")
    assert seen(stage, Kind.MEMBER_JOINED, "learner-0").data["incarnation"] == 2
    stage.until(Kind.ROUND_MERGED)
    assert not (tmp_path / "tokens").exists()
    assert no_key_in(tmp_path)
    (entry,) = (one for one in undo_log.opened if one["do"] == UNDO_PRIVATE)
    folder = Path(str(entry["folder"]))
    assert {one.name for one in folder.iterdir()} == {"syncer", *PLAN.training.learner_names}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    stage.fleet.__exit__(None, None, None)
    assert not folder.exists()


def no_key_in(folder: Path) -> bool:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return bool(files) and not any(b"PRIVATE KEY" in path.read_bytes() for path in files)
