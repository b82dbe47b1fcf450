"""Hosts of a run, started and left: what is kept of their records, and what is refused."""

import io
import tarfile
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.remote.host_manager import HostManager
from tests.fleet.fake_agents import FakeHost, fake_ground
from tests.fleet.local_stage import Remembered

OUTPUT = "nodes/learner-0/1/stdout.log"
LINKS = [tarfile.SYMTYPE, tarfile.LNKTYPE]


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def link(kind: bytes) -> tarfile.TarInfo:
    """To the undo log of the run."""
    found = tarfile.TarInfo(OUTPUT)
    found.type = kind
    found.linkname = "undo_log.jsonl" if kind == tarfile.LNKTYPE else "../../../undo_log.jsonl"
    return found


def left_with(record: bytes, run_directory: Path) -> list[str]:
    """What remains when a host is left that sends this record."""
    host = FakeHost("10.0.0.3")
    host.record = record
    ground = fake_ground([host], Terms(), {"learner-0": ["10.0.0.3"]})
    try:
        manager = HostManager(
            ground, Place(run_directory=run_directory, clock=WallClock(), undo_log=Remembered())
        )
        manager.start(list(ground.hosts.values()))
        return manager.part_with_all(lambda _: False)
    finally:
        ground.loop.close()


def test_one_machine_by_two_names_is_refused(tmp_path: Path) -> None:
    hosts = [FakeHost("10.0.0.3"), FakeHost("three.example")]
    for host in hosts:
        host.session = "one"
    ground = fake_ground(hosts, Terms(), {"learner-0": ["10.0.0.3", "three.example"]})
    try:
        manager = HostManager(
            ground, Place(run_directory=tmp_path, clock=WallClock(), undo_log=Remembered())
        )
        with pytest.raises(FleetError, match=r"10\.0\.0\.3 .*three\.example"):
            manager.start(list(ground.hosts.values()))
        manager.part_with_all(lambda _: False)
    finally:
        ground.loop.close()


def test_records_of_nodes_and_of_the_agent_are_kept(tmp_path: Path) -> None:
    record = packed(
        (tarfile.TarInfo(OUTPUT), b"said"), (tarfile.TarInfo("host_agent.log"), b"complained")
    )
    assert left_with(record, tmp_path) == []
    assert (tmp_path / OUTPUT).read_bytes() == b"said"
    assert (tmp_path / "hosts/10.0.0.3/host_agent.log").read_bytes() == b"complained"


@pytest.mark.parametrize("kind", LINKS)
def test_a_record_that_leads_elsewhere_changes_nothing_of_the_run(
    kind: bytes, tmp_path: Path
) -> None:
    undo_log = tmp_path / "undo_log.jsonl"
    undo_log.write_text("its entries")
    record = packed((link(kind), b""), (tarfile.TarInfo(OUTPUT), b"written by the host"))
    (said,) = left_with(record, tmp_path)
    assert "10.0.0.3" in said
    assert OUTPUT in said
    assert undo_log.read_text() == "its entries"


@pytest.mark.parametrize("name", ["undo_log.jsonl", "nodes/../events.jsonl", "nodes/a/1/x/y.log"])
def test_only_files_with_the_names_of_records_are_taken(name: str, tmp_path: Path) -> None:
    assert not (tmp_path / name).exists()
    left_with(packed((tarfile.TarInfo(name), b"written by the host")), tmp_path)
    assert not (tmp_path / name).exists()


def test_a_record_that_is_no_tar_file_is_told_and_the_agent_is_halted(tmp_path: Path) -> None:
    (said,) = left_with(b"garbage", tmp_path)
    assert "10.0.0.3" in said
